"""Stands in for the web page of a cluster's manager, on loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from airflow_provider_continuous.deploy.managers import contract


class Moved(str):
    """An answer: it is at this address for now."""


class StandIn(ThreadingHTTPServer):
    """Answers with what stands in ``answers`` by path; notes what is asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.answers: dict[str, Any] = {}
        self.asked: list[tuple[str, str, Any]] = []
        self.address = f"http://127.0.0.1:{self.server_address[1]}"


class _Answers(BaseHTTPRequestHandler):
    server: StandIn

    def do_GET(self) -> None:
        self._answer(None)

    def do_PUT(self) -> None:
        self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _answer(self, given: Any) -> None:
        path = urlsplit(self.path)
        self.server.asked.append((self.command, self.path, given))
        answer = self.server.answers.get(path.path, 404)
        if callable(answer):
            answer = answer(parse_qs(path.query))
        moved = isinstance(answer, Moved)
        self.send_response(answer if isinstance(answer, int) else 307 if moved else 200)
        if moved:
            self.send_header("Location", f"{answer}{self.path}")
        self.end_headers()
        if not isinstance(answer, int):
            self.wfile.write(answer.encode() if isinstance(answer, str) else dumped(answer))

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


def dumped(answer: Any) -> bytes:
    return json.dumps(answer).encode()


@contextmanager
def standing_in() -> Iterator[StandIn]:
    """One that answers while the context lasts, in however long."""
    with StandIn() as server, pytest.MonkeyPatch.context() as patch:
        patch.setattr(contract, "ANSWER_S", 120.0)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()
