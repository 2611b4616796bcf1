"""Who gives out tokens: an OAuth server for client credentials, which signs them by a key of its
own."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

CLIENT = "a-query"
SECRET = "s3cret-of-a-query"
ISSUER, AUDIENCE, KEY_ID = "the-tests", "kafka", "only"


class TokenIssuer:
    """:ivar key_set: a file with the public key, as a JSON Web Key Set.
    :ivar life_s: of the tokens that it gives out.
    :ivar given: how many it has.
    :ivar asked: the forms that it was sent.
    """

    def __init__(self, folder: Path) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        numbers = self._key.public_key().public_numbers()
        key = {
            "kty": "RSA", "alg": "RS256", "use": "sig", "kid": KEY_ID,
            "n": _text(numbers.n.to_bytes(256, "big")), "e": _text(numbers.e.to_bytes(3, "big")),
        }  # fmt: skip
        self.key_set = folder / "keys.json"
        self.key_set.write_text(json.dumps({"keys": [key]}))
        self.life_s = 300
        self.given = 0
        self.asked: list[Mapping[str, list[str]]] = []

    def token(self) -> str:
        """One for :data:`CLIENT`."""
        now = int(time.time())
        claims = {"sub": CLIENT, "iss": ISSUER, "aud": AUDIENCE, "iat": now}
        parts = ({"alg": "RS256", "kid": KEY_ID}, {**claims, "exp": now + self.life_s})
        signed = ".".join(_text(json.dumps(part).encode()) for part in parts)
        self.given += 1
        mark = self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{_text(mark)}"

    @contextmanager
    def serving(self) -> Iterator[str]:
        """The endpoint's URL, until the end of the block."""
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                issuer.asked.append(parse_qs(self.rfile.read(length).decode()))
                login = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
                if self.headers["Authorization"] != f"Basic {login}":
                    self._answer(401, {"error": "invalid_client"})
                    return
                life = {"token_type": "Bearer", "expires_in": issuer.life_s}
                self._answer(200, {"access_token": issuer.token(), **life})

            def _answer(self, status: int, content: Mapping[str, Any]) -> None:
                body = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), name="tokens")
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/token"
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


def _text(octets: bytes) -> str:
    return base64.urlsafe_b64encode(octets).rstrip(b"=").decode()
