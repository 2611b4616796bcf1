"""An address of a web service: sends what it is given until that is taken, refused, or too late."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult, urlsplit

from engine.errors import ConfigError, SinkCommitRejectedError, SinkCommitUnknownError

if TYPE_CHECKING:
    import urllib3

OWNER: Final = "sink http"
INSTALL: Final = "pip install 'airflow-provider-continuous[http]'"
REFUSES_ROWS: Final = frozenset({400, 413, 422})
"""The service has understood the request, and does not want these rows."""
TOO_LARGE: Final = 413
_PASSING: Final = frozenset({408, 409, 421, 425, 429})
"""Beside 5xx. 409: the service is still busy with an earlier request of the same key."""
RETRY_AFTER_MAX_S: Final = 300.0
_PAUSE_S: Final = 0.2
_PAUSE_MAX_S: Final = 10.0
_SHOWN: Final = 300
_READ: Final = 65_536
"""So much of an answer is read; of a longer one the connection is not used again."""
_SECRET_CHARS: Final = 4
"""A header's value of so many characters at least may be a secret; ``*/*`` is none."""


class RowsRefusedError(Exception):
    """The service does not want the rows of a request.

    :param status: its answer's; ``answer`` is how that begins.
    """

    def __init__(self, status: int, answer: str) -> None:
        super().__init__(f"{status} {answer}")
        self.status, self.answer = status, answer


@dataclass
class _Rest:
    """:ivar until_s: so long the service wants to be left alone, monotonic."""

    until_s: float = 0.0


@dataclass(frozen=True)
class Endpoint:
    """See the module.

    :param url: is shown by its host alone: of many services the rest is a secret.
    :param timeout_s: of one request.
    :param retry_s: so long one is repeated. A service that wants to be left alone for longer is not
        asked before, and the end of the query does not wait for it.
    """

    url: str = field(repr=False)
    method: str
    headers: Mapping[str, str] = field(repr=False)
    key_header: str
    timeout_s: float
    retry_s: float
    _rest: _Rest = field(default_factory=_Rest, repr=False, compare=False)

    @property
    def origin(self) -> str:
        """``https://host:port``."""
        parts = self._parts
        port = "" if parts.port is None else f":{parts.port}"
        return f"{parts.scheme}://{parts.hostname}{port}"

    @property
    def _parts(self) -> SplitResult:
        return urlsplit(self.url)

    def check(self) -> None:
        """See that somebody is there; nothing is sent.

        :raises ConfigError: there is not.
        """
        parts = self._parts
        port = parts.port or (443 if parts.scheme == "https" else 80)
        try:
            socket.create_connection((str(parts.hostname), port), self.timeout_s).close()
        except (OSError, UnicodeError) as exc:  # the latter of a host that is no name
            raise ConfigError(
                f"{OWNER}: {self.origin} cannot be reached: {exc}.",
                hint="See that the option url names the service, and that it runs.",
            ) from exc

    def pool(self, connections: int) -> urllib3.PoolManager:
        """Connections that are kept. Whoever gets it clears it.

        :raises ConfigError: the client is not installed.
        """
        return import_client().PoolManager(  # type: ignore[no-any-return]
            maxsize=connections, retries=False, timeout=self.timeout_s
        )

    def send(self, pool: urllib3.PoolManager, key: str, body: bytes) -> None:
        """Send until it is taken.

        :param key: tells this request from others: the same one has the same.
        :raises RowsRefusedError: the service does not want the rows.
        :raises SinkCommitRejectedError: it does not want such requests.
        :raises SinkCommitUnknownError: the time is over.
        """
        headers = {**self.headers, self.key_header: key}
        if (rest_s := self._rest.until_s - time.monotonic()) > 0:
            raise self._unknown(f"wants to be left alone for another {rest_s:.0f} s")
        give_up_s = time.monotonic() + self.retry_s
        pause_s = _PAUSE_S
        while True:
            reason, wait_s = self._try(pool, headers, body)
            if reason is None:
                return
            left_s = give_up_s - time.monotonic()
            if left_s <= 0:
                raise self._unknown(f"{reason}; it was tried for {self.retry_s:g} s")
            if wait_s > left_s:
                self._rest.until_s = time.monotonic() + wait_s
                raise self._unknown(f"{reason}; it wants to be left alone for {wait_s:.0f} s")
            pause_s = min(2 * pause_s, _PAUSE_MAX_S)
            jittered_s = min(pause_s * random.uniform(0.5, 1.0), left_s)  # noqa: S311
            pause(max(jittered_s, wait_s))

    def _try(
        self, pool: urllib3.PoolManager, headers: Mapping[str, str], body: bytes
    ) -> tuple[str | None, float]:
        """Why it was not taken, None if it was; and how long the service wants to be left alone."""
        client = import_client()
        try:
            answer = pool.request(
                self.method,
                self.url,
                body=body,
                headers=dict(headers),
                redirect=False,
                preload_content=False,
            )
            said = self._said(answer)
        except (client.exceptions.LocationParseError, client.exceptions.LocationValueError):
            raise SinkCommitRejectedError(
                f"{OWNER}: the option url, of {self.origin}, cannot be used."
            ) from None
        except (client.exceptions.HTTPError, OSError) as exc:
            return f"does not answer: {self._without_secrets(str(exc))}", 0.0
        status = answer.status
        if 200 <= status < 300:
            return None, 0.0
        text = " ".join(self._without_secrets(said.decode("utf-8", "replace")).split())[:_SHOWN]
        if status in REFUSES_ROWS:
            raise RowsRefusedError(status, text)
        if status >= 500 or status in _PASSING:
            return f"answers {status} {text}".strip(), _retry_after_s(answer)
        raise SinkCommitRejectedError(
            f"{OWNER}: {self.origin} answers {status} {text}".strip() + ".",
            hint=_hint(status),
        )

    def _said(self, answer: Any) -> bytes:
        """How the answer begins: what comes in time."""
        end_s = time.monotonic() + self.timeout_s
        said: bytes = b""
        while piece := answer.read1(_READ):  # what is there, not more
            said += piece
            if len(said) >= _READ or time.monotonic() > end_s:
                answer.close()
                return said
        answer.release_conn()
        return said

    def _unknown(self, why: str) -> SinkCommitUnknownError:
        return SinkCommitUnknownError(
            f"{OWNER}: {self.origin} {why}.", hint="The query tries again, with the same keys."
        )

    def _without_secrets(self, text: str) -> str:
        """What a client or a service says, without what only they are to know."""
        parts = self._parts
        of_url = (self.url, f"{parts.path}?{parts.query}", parts.query, parts.path)
        secrets = {each for each in of_url if len(each) > 1}
        for name, value in self.headers.items():
            words = (value, value.partition(" ")[2])  # behind Bearer
            if name != "Content-Type":
                secrets |= {each for each in words if len(each) >= _SECRET_CHARS}
        for secret in sorted(secrets, key=len, reverse=True):
            text = text.replace(secret, "***")
        return text


def pause(seconds: float) -> None:
    """Leave the service alone for a while."""
    threading.Event().wait(seconds)


def import_client() -> Any:
    """:raises ConfigError: the client is not installed."""
    try:
        import urllib3
    except ImportError as exc:
        raise ConfigError(
            f"{OWNER} needs the client urllib3, which is not installed.", hint=INSTALL
        ) from exc
    return urllib3


def _retry_after_s(answer: Any) -> float:
    """What the header says, if it says something; never longer than :data:`RETRY_AFTER_MAX_S`."""
    client = import_client()
    text = answer.headers.get("Retry-After")
    if text is None:
        return 0.0
    try:
        seconds = float(client.util.Retry(0).parse_retry_after(text))
    except (client.exceptions.InvalidHeader, ValueError, OverflowError):
        return 0.0
    return min(max(0.0, seconds), RETRY_AFTER_MAX_S)


def _hint(status: int) -> str:
    if status in (401, 403, 407):
        return "See that the options header.* hold what the service wants to know who this is."
    if 300 <= status < 400:
        return "The service is elsewhere: set the option url to that address."
    return "See that the options url and method are those of the service."
