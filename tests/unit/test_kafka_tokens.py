"""Tokens for the client that fetches none: asked for when needed, and told to nobody."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from engine.clients import web
from engine.clients.kafka_tokens import Tokens
from engine.errors import ConfigError, SinkUnavailableError
from tests.servers.tokens import CLIENT, SECRET, TokenIssuer

OURS = "sasl.oauthbearer."


def settings(url: str, **more: str) -> dict[str, str]:
    given = {"method": "oidc", "client.id": CLIENT, "client.secret": SECRET}
    given |= {"token.endpoint.url": url, **{name.replace("__", "."): v for name, v in more.items()}}
    return {f"{OURS}{name}": text for name, text in given.items()}


@pytest.fixture
def issuer(tmp_path: Path) -> TokenIssuer:
    return TokenIssuer(tmp_path)


def test_a_token_serves_until_it_is_old(
    issuer: TokenIssuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with issuer.serving() as url:
        tokens = Tokens(settings(url, scope="orders payments"))
        assert tokens.token() == tokens.token()
        assert issuer.asked == [
            {"grant_type": ["client_credentials"], "scope": ["orders payments"]}
        ]
        monkeypatch.setattr(tokens, "good_until_s", 0.0)
        tokens.token()
    assert issuer.given == 2


def test_extensions_are_pairs(issuer: TokenIssuer) -> None:
    tokens = Tokens(settings("https://idp/token", extensions="pool=a=b, tenant=me,"))
    assert tokens.extensions == {"pool": "a=b", "tenant": "me"}


def test_a_wrong_secret_is_told_and_not_shown(issuer: TokenIssuer) -> None:
    with issuer.serving() as url:
        tokens = Tokens(settings(url, client__secret="hunter2-hunter2"))
        with pytest.raises(SinkUnavailableError, match=r"answers 401: .*invalid_client") as caught:
            tokens.token()
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_an_endpoint_that_is_away_is_told() -> None:
    with socket.socket() as nobody:  # has the port, and does not listen
        nobody.bind(("127.0.0.1", 0))
        port = nobody.getsockname()[1]
        with pytest.raises(SinkUnavailableError, match=f"127.0.0.1:{port}/token: .*refused"):
            Tokens(settings(f"http://127.0.0.1:{port}/token")).token()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("grant.type", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
        ("metadata.authentication.type", "azure_imds"),
        ("assertion.file", "/a"),
        ("config", "principal=me"),
    ],
)
def test_other_ways_to_a_token_are_refused(name: str, text: str) -> None:
    with pytest.raises(ConfigError, match=f"OAUTHBEARER by kafka.{OURS}{name}"):
        Tokens({**settings("https://idp/token"), f"{OURS}{name}": text})


def test_what_is_missing_is_refused() -> None:
    with pytest.raises(ConfigError, match="OAUTHBEARER without client credentials"):
        Tokens({"sasl.mechanism": "OAUTHBEARER"})
    with pytest.raises(ConfigError, match="is no URL of http"):
        Tokens(settings("file:///etc/token"))


@contextmanager
def answering(status: int, body: bytes, **headers: str) -> Iterator[tuple[str, list[str]]]:
    """An endpoint that always answers so; its URL, and the paths that it was asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path)
            self.rfile.read(int(self.headers.get("Content-Length", "0")))
            self.send_response(status)
            for name, text in headers.items():
                self.send_header(name, text)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_secret_does_not_follow_to_another_place() -> None:
    with answering(302, b"", Location="/elsewhere") as (url, asked):
        with pytest.raises(SinkUnavailableError, match="answers 302"):
            Tokens(settings(f"{url}/token")).token()
        assert asked == ["/token"]


@pytest.mark.parametrize("body", [b"", b"[]", b'{"access_token": 5}', b"\xff", b"<html>"])
def test_an_answer_without_a_token_is_told(body: bytes) -> None:
    with (
        answering(200, body) as (url, _),
        pytest.raises(SinkUnavailableError, match="No token for Kafka comes from"),
    ):
        Tokens(settings(url)).token()


def test_a_secret_that_is_sent_back_is_not_shown() -> None:
    with (
        answering(400, f"what is {SECRET}?".encode()) as (url, _),
        pytest.raises(SinkUnavailableError) as caught,
    ):
        Tokens(settings(url)).token()
    assert SECRET not in str(caught.value)
    assert "what is ***?" in str(caught.value)


def test_a_token_whose_life_is_not_told_is_for_one_login() -> None:
    with answering(200, b'{"access_token": "t"}') as (url, asked):
        tokens = Tokens(settings(url))
        tokens.token()
        tokens.token()
    assert len(asked) == 2


def test_an_endpoint_that_does_not_answer_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(web, "ANSWER_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(SinkUnavailableError, match="timed out"):
            Tokens(settings(f"http://127.0.0.1:{port}")).token()
