"""A web service that takes rows, as a process: ``python -m tests.servers.web_service PORT FILE``.

It heeds keys: what it has taken is in its file, a line for each request, before it answers, and a
key that is there already is answered and not taken again.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.servers.process import Process, answers, free_ports

KEY = "Idempotency-Key"


class WebService:
    """Keeps port and file over :meth:`start`.

    :ivar url: where rows go.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        (port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{port}/hook"
        self._folder = folder
        self._command = [
            sys.executable, "-m", "tests.servers.web_service", str(port), str(self._file)
        ]  # fmt: skip
        self.process: Process

    @property
    def _file(self) -> Path:
        return self._folder / "taken.jsonl"

    def start(self) -> None:
        """And wait until it answers."""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        self.process = Process(self._command, self._folder / "log", environment=environment)
        self.process.await_ready(lambda: answers(self.url))

    def rows(self) -> list[Any]:
        """All that it has taken, in that order."""
        return [row for taken in _lines(self._file) for row in taken["rows"]]


@contextmanager
def running_web_service(folder: Path) -> Iterator[WebService]:
    """A service until the end of the block.

    :param folder: made by it.
    """
    service = WebService(folder)
    try:
        service.start()
        yield service
    finally:
        service.process.kill()


def _lines(file: Path) -> list[Any]:
    if not file.exists():
        return []
    # What a crash has cut off was never answered for.
    return [json.loads(line) for line in file.read_text().split("\n")[:-1]]


def _serve(port: int, file: Path) -> None:
    known = {each["key"] for each in _lines(file)}
    file.write_text("".join(json.dumps(each) + "\n" for each in _lines(file)))
    taken, lock = file.open("a"), threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            rows = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            key = self.headers[KEY]
            with lock:
                if key not in known:
                    taken.write(json.dumps({"key": key, "rows": rows}) + "\n")
                    taken.flush()
                    os.fsync(taken.fileno())
                    known.add(key)
            self._answer()

        def _answer(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


if __name__ == "__main__":
    _serve(int(sys.argv[1]), Path(sys.argv[2]))
