"""What stands in the place of a registry that is away, and what it is taken for."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from engine.errors import SourceUnavailableError
from engine.registry import client
from engine.registry.client import Access, Registry, UnknownSchemaError

NOT_FOUND = b'{"error_code": 40403, "message": "Schema 7 not found"}'


@pytest.fixture
def answer() -> list[bytes]:
    """What is said with a 404."""
    return [NOT_FOUND]


@pytest.fixture
def registry(answer: list[bytes], monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    monkeypatch.setattr(client, "PAUSE_S", 0.001)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(404)
            self.end_headers()
            self.wfile.write(answer[0])

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield Registry(Access.of(f"http://127.0.0.1:{server.server_port}", {}))
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("said", [b"default backend - 404", b"", b"[]", b'{"status": 404}'])
def test_a_proxy_that_knows_no_registry_makes_no_record_a_bad_one(
    registry: Registry, answer: list[bytes], said: bytes
) -> None:
    answer[:] = [said]
    for ask in (lambda: registry.schema(7), lambda: registry.of_subject("orders-value")):
        with pytest.raises(SourceUnavailableError, match="it answers 404"):
            ask()
    answer[:] = [NOT_FOUND]
    with pytest.raises(UnknownSchemaError, match="there is no schema 7"):
        registry.schema(7)


def test_ids_that_are_not_known_are_forgotten_in_the_end(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "UNKNOWN_S", 0.0)
    monkeypatch.setattr(client, "_UNKNOWN_MAX", 10)
    for id in range(25):
        with pytest.raises(UnknownSchemaError):
            registry.schema(id)
    assert len(registry._unknown) <= 10
