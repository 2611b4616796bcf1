"""Tokens of OAUTHBEARER, for the client that cannot fetch them by itself: by client credentials.

librdkafka fetches its own, by the same settings. It has other ways to get one (assertions, the
service of a cloud); here those are refused.

Source: RFC 6749, section 4.4; librdkafka's CONFIGURATION.md, ``sasl.oauthbearer.*``.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any, Final
from urllib.parse import urlencode

from engine.clients.kafka_tls import trusting
from engine.clients.web import Web, is_web
from engine.errors import ConfigError, SinkUnavailableError

_OURS: Final = "sasl.oauthbearer."
METHOD: Final = f"{_OURS}method"
URL: Final = f"{_OURS}token.endpoint.url"
_ID, _SECRET = f"{_OURS}client.id", f"{_OURS}client.secret"
_SCOPE, _EXTENSIONS = f"{_OURS}scope", f"{_OURS}extensions"
_NO_MATTER: Final = frozenset({f"{_OURS}sub.claim.name"})
_KNOWN: Final = frozenset({METHOD, URL, _ID, _SECRET, _SCOPE, _EXTENSIONS}) | _NO_MATTER
_PLAIN: Final = {f"{_OURS}grant.type": "client_credentials"}
_HINT: Final = (
    f"Set kafka.{URL}, kafka.{_ID} and kafka.{_SECRET}; or log in with SCRAM or by mutual TLS; or "
    "write at least once."
)
_SHARE: Final = 0.8
"""Of a token's life; after that another one is fetched."""
_SHOWN: Final = 300


class Tokens:
    """Tokens for one client. Not for several threads.

    :param client: settings of librdkafka.
    :raises ConfigError: they want a token in another way, or a certificate cannot be read.
    """

    def __init__(self, client: Mapping[str, str]) -> None:
        given = {name: text for name, text in client.items() if name.startswith(_OURS)}
        others = sorted(
            name for name in given if name not in _KNOWN and given[name] != _PLAIN.get(name)
        )
        if others or not {URL, _ID, _SECRET} <= set(given):
            what = f"by kafka.{others[0]}" if others else "without client credentials"
            raise ConfigError(
                f"Exactly-once delivery to Kafka cannot log in by OAUTHBEARER {what}.", hint=_HINT
            )
        if not is_web(given[URL]):
            raise ConfigError(f"kafka.{URL} is no URL of http or https: {given[URL]!r}.")
        self._url, self._secret = given[URL], given[_SECRET]
        self._login = base64.b64encode(f"{given[_ID]}:{self._secret}".encode()).decode()
        scope = {"scope": given[_SCOPE]} if given.get(_SCOPE) else {}
        self._form = urlencode({"grant_type": "client_credentials", **scope}).encode()
        pairs = (pair.split("=", 1) for pair in given.get(_EXTENSIONS, "").split(",") if pair)
        self.extensions = {name.strip(): value.strip() for name, value in pairs}
        self._web = Web(trusting(client, "https"))
        self._token = ""
        self.good_until_s = 0.0
        """Monotonic."""

    def token(self) -> str:
        """One that is good for a while.

        :raises SinkUnavailableError: the endpoint gives none.
        """
        if time.monotonic() >= self.good_until_s:
            asked_s = time.monotonic()
            answer = self._ask()
            self._token = answer["access_token"]
            self.good_until_s = asked_s + _SHARE * _life_s(answer)
        return self._token

    def _ask(self) -> dict[str, Any]:
        headers = {
            "Authorization": f"Basic {self._login}",
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
        }
        try:
            status, content = self._web.ask(self._url, headers, self._form)
            if status != 200:
                said = content[:_SHOWN].decode(errors="replace")
                raise ValueError(f"it answers {status}: {said}")
            answer = json.loads(content)
            if not isinstance(answer, dict) or not isinstance(answer.get("access_token"), str):
                raise ValueError("its answer has no access_token")
        except (OSError, HTTPException, ValueError) as exc:
            raise self._refused(str(exc) or type(exc).__name__) from None
        return answer

    def _refused(self, why: str) -> SinkUnavailableError:
        for secret in (self._secret, self._login):
            why = why.replace(secret, "***")
        return SinkUnavailableError(
            f"No token for Kafka comes from {self._url}: {why}.",
            hint=f"See that kafka.{_ID} and kafka.{_SECRET} are those that it knows.",
        )


def _life_s(answer: Mapping[str, Any]) -> float:
    """How long a token lasts; 0 if that is not told: then it is for one login."""
    try:
        return float(answer["expires_in"])
    except (KeyError, TypeError, ValueError):
        return 0.0
