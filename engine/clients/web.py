"""Requests to a web service that is given a secret: no library beyond Python's own is needed for
them, and the secret goes where it was told to go and nowhere else."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

ANSWER_S = 10.0
"""So long an answer is waited for."""
BYTES_MAX: Final = 32 * 1024 * 1024


class Web:
    """Asks by HTTP, or by HTTPS. Honours the environment's proxies.

    :param tls: what servers are trusted, and who the client is.
    """

    def __init__(self, tls: ssl.SSLContext) -> None:
        self._opener = build_opener(HTTPSHandler(context=tls), _StayHere)

    def ask(
        self, url: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> tuple[int, bytes]:
        """GET, or POST if there is a body; status and content, whatever the status is. A redirect
        is not followed.

        :raises OSError: there is no answer in time.
        """
        request = Request(url, body, dict(headers))  # noqa: S310  see is_web()
        try:
            with self._opener.open(request, timeout=ANSWER_S) as answered:
                return answered.status, answered.read(BYTES_MAX)
        except HTTPError as exc:
            with exc:
                return exc.code, exc.read(BYTES_MAX)


def is_web(url: str) -> bool:
    """Whether it is an URL that :class:`Web` may ask."""
    parts = urlsplit(url)
    return parts.scheme in ("http", "https") and bool(parts.hostname)


class _StayHere(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None
