"""What stands in the place of a registry that is away, and what it is taken for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from engine.errors import SourceUnavailableError
from engine.registry import client
from engine.registry.client import Access, Registry, UnknownSchemaError

NOT_FOUND = b'{"error_code": 40403, "message": "Schema 7 not found"}'
FOUND = b'{"schema": "\\"int\\""}'


@pytest.fixture
def answer() -> list[bytes]:
    """What is said with a 404."""
    return [NOT_FOUND]


@contextmanager
def serving(say: Callable[[str], bytes]) -> Iterator[str]:
    """One server of a registry; its URL.

    :param say: what it answers to a path: a 404, but of :data:`FOUND`.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            said = say(self.path)
            self.send_response(200 if said == FOUND else 404)
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "PAUSE_S", 0.001)
    monkeypatch.setattr(client, "LATE_S", (0.001, 0.001))


@pytest.fixture
def registry(answer: list[bytes]) -> Iterator[Registry]:
    with serving(lambda _: answer[0]) as url:
        yield Registry(Access.of(url, {}))


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


# -- an id that was given out just now ------------------------------------------------------------


def test_an_id_that_one_server_does_not_know_yet_is_known_to_another() -> None:
    with serving(lambda _: NOT_FOUND) as behind, serving(lambda _: FOUND) as ahead:
        assert Registry(Access.of(f"{behind},{ahead}", {})).schema(7).text == '"int"'


def test_an_id_that_no_server_knows_yet_is_asked_for_again() -> None:
    answers = iter([NOT_FOUND, NOT_FOUND, FOUND])
    with serving(lambda _: next(answers)) as url:
        assert Registry(Access.of(url, {})).schema(7).text == '"int"'


def test_an_id_that_stays_unknown_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "UNKNOWN_S", 0.0)
    asked: list[str] = []
    with serving(lambda path: asked.append(path) or NOT_FOUND) as url:
        registry = Registry(Access.of(url, {}))
        for tries in (3, 4, 5):
            with pytest.raises(UnknownSchemaError, match="there is no schema 7"):
                registry.schema(7)
            assert len(asked) == tries


def test_what_is_no_record_does_not_make_a_task_wait_for_each_id() -> None:
    asked: list[str] = []
    with serving(lambda path: asked.append(path) or NOT_FOUND) as url:
        registry = Registry(Access.of(url, {}))
        for id in range(20):
            with pytest.raises(UnknownSchemaError):
                registry.schema(id)
    assert len(asked) == 20 + 2 * client.LATE_MAX


def test_a_server_that_is_away_keeps_no_id_from_being_unknown() -> None:
    with serving(lambda _: NOT_FOUND) as url, serving(lambda _: b"a proxy's") as away:
        for urls in (f"{url},{away}", f"{away},{url}"):
            with pytest.raises(UnknownSchemaError, match="there is no schema 7"):
                Registry(Access.of(urls, {})).schema(7)


def test_a_server_that_does_not_answer_is_not_waited_for_with_each_id(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    registry, asked = Registry(Access.of("http://here,http://away", {})), []

    def ask(url: str, *_: Any) -> tuple[int, bytes]:
        asked.append(url.split("/")[2])
        if asked[-1] == "away":
            raise TimeoutError
        return 404, NOT_FOUND

    monkeypatch.setattr(registry._web, "ask", ask)
    for id in range(5):
        with pytest.raises(UnknownSchemaError):
            registry.schema(id)
    assert asked.count("away") == 1
