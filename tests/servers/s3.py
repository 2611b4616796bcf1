"""S3, as moto serves it: a process of its own, for clients that hold Python's interpreter lock
while they wait for an answer."""

from __future__ import annotations

import sys
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers.process import Process, answers, free_ports

READY_S = 60.0


class S3:
    """A server.

    :ivar endpoint: ``http://127.0.0.1:PORT``.
    """

    def __init__(self, folder: Path) -> None:
        (port,) = free_ports(1)
        self.endpoint = f"http://127.0.0.1:{port}"
        program = Path(__file__).with_name("atomic_moto.py")
        self.process = Process([sys.executable, program, str(port)], folder / "s3.log")

    @property
    def delta_options(self) -> dict[str, str]:
        """How Delta's own client reaches it."""
        return delta_options(self.endpoint)

    def is_ready(self) -> bool:
        """Whether it answers."""
        return answers(self.endpoint)

    def bucket(self) -> str:
        """The name of a new bucket."""
        name = f"bucket-{uuid.uuid4()}"
        request = urllib.request.Request(f"{self.endpoint}/{name}", method="PUT")
        with urllib.request.urlopen(request, timeout=30):
            return name


def delta_options(endpoint: str) -> dict[str, str]:
    """How Delta's own client reaches a server."""
    return {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }


@contextmanager
def s3_server(folder: Path) -> Iterator[S3]:
    """Serves while the block runs.

    :param folder: for its log.
    """
    server = S3(folder)
    try:
        server.process.await_ready(server.is_ready, READY_S)
        yield server
    finally:
        server.process.stop()
