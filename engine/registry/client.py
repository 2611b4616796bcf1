"""A schema registry: Confluent's, or any that speaks its interface (Karapace, Apicurio's
``ccompat``).

Of a schema that has an id nothing ever changes, so each is asked for once per process.

Source: Confluent, "Schema Registry API Reference".
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from http.client import HTTPException
from typing import Any, Final
from urllib.parse import quote

from engine.base.connector_options import Options
from engine.clients.web import Web, is_web
from engine.errors import ConfigError, ContinuousError, SourceError, SourceUnavailableError

OWNER: Final = "the schema registry"
_PREFIXES: Final = ("confluent.schema.registry.", "schema.registry.")
_SAYS: Final = "application/vnd.schemaregistry.v1+json"
TRIES: Final = 4
PAUSE_S = 0.2
"""Before the second try; doubled with each."""
UNKNOWN_S = 5.0
"""So long an id that the registry does not know is not asked for again: a topic may be full of
them, and one that was given out just now may not have come to its servers."""
LATE_S: tuple[float, ...] = (0.2, 1.0)
"""After these an id that is new, and not known to any server, is asked for again before it counts
as unknown: who has written the record got it from a server that the others follow."""
LATE_MAX: Final = 3
"""So many ids are waited for in a minute: what is no record has any id, and each would be new."""
_LATE_WINDOW_S: Final = 60.0
_AWAY_S: Final = 30.0
"""So long a server that did not answer is not asked whether it knows what another one does not."""
_UNKNOWN_MAX: Final = 10_000
"""With so many of them, those whose time is over are forgotten."""
_PASSING: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_FORBIDDEN: Final = frozenset({401, 403})
_SHOWN: Final = 300


class UnknownSchemaError(ValueError):
    """There is no schema of this id: who has written it knows another registry, or it is no
    id."""


@dataclass(frozen=True)
class Schema:
    """One schema.

    :param id: in the registry.
    :param kind: ``AVRO``, ``PROTOBUF`` or ``JSON``.
    :param text: as it was registered.
    :param references: what it uses: name, subject and version of each.
    """

    id: int
    kind: str
    text: str
    references: tuple[tuple[str, str, int], ...] = ()


@dataclass(frozen=True)
class Access:
    """Where the registry is, and who asks. Picklable, comparable; shows no secret.

    :param urls: of its servers, any of which can be asked.
    """

    urls: tuple[str, ...]
    settings: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, url: str, options: Mapping[str, str]) -> Access:
        """
        :param url: one, or several with commas.
        :param options: settings by Confluent's names: ``basic.auth.user.info`` (``user:password``),
            ``bearer.auth.token``, ``ssl.ca.location``, ``ssl.certificate.location``,
            ``ssl.key.location`` and ``ssl.key.password``, with ``schema.registry.`` before them or
            not.
        :raises ConfigError: one is wrong or not known.
        """
        urls = tuple(each.strip().rstrip("/") for each in url.split(",") if each.strip())
        if not urls or not all(map(is_web, urls)):
            raise ConfigError(
                f"{OWNER} is at no URL of http or https: {url!r}.",
                hint="It looks like http://registry:8081.",
            )
        if any("@" in each for each in urls):
            raise ConfigError(
                "The URL of the schema registry has a user in it.",
                hint='Set the option basic.auth.user.info to "user:password".',
            )
        taken = Options(OWNER, {_plain(name): text for name, text in options.items()})
        settings = {name: text for name in _SETTINGS if (text := taken.text(name)) is not None}
        taken.choice("basic.auth.credentials.source", "user_info", ("user_info",))
        taken.choice("bearer.auth.credentials.source", "static_token", ("static_token",))
        taken.refuse_others()
        if ":" not in settings.get(_USER, ":"):
            raise ConfigError(f"Option {_USER} of {OWNER} must be like user:password.")
        access = cls(urls, tuple(settings.items()))
        access.tls()
        return access

    def headers(self) -> dict[str, str]:
        """Who asks."""
        settings = dict(self.settings)
        if _USER in settings:
            login = base64.b64encode(settings[_USER].encode()).decode()
            return {"Authorization": f"Basic {login}"}
        return {"Authorization": f"Bearer {settings[_TOKEN]}"} if _TOKEN in settings else {}

    def tls(self) -> ssl.SSLContext:
        """:raises ConfigError: a certificate cannot be read."""
        settings = dict(self.settings)
        try:
            made = ssl.create_default_context(cafile=settings.get("ssl.ca.location"))
            if "ssl.certificate.location" in settings:
                made.load_cert_chain(
                    settings["ssl.certificate.location"],
                    settings.get("ssl.key.location"),
                    settings.get(
                        "ssl.key.password", ""
                    ),  # without one OpenSSL asks at the terminal
                )
        except (OSError, ssl.SSLError) as exc:
            raise ConfigError(f"{OWNER}: a certificate cannot be read: {exc}.") from exc
        return made

    def __repr__(self) -> str:
        return f"Access({', '.join(self.urls)})"


_USER, _TOKEN = "basic.auth.user.info", "bearer.auth.token"
_SETTINGS: Final = (
    _USER, _TOKEN, "ssl.ca.location", "ssl.certificate.location", "ssl.key.location",
    "ssl.key.password",
)  # fmt: skip


class Registry:
    """A connection. Safe to use from several threads."""

    def __init__(self, access: Access) -> None:
        self._access, self._web = access, Web(access.tls())
        self._lock = threading.Lock()
        self._known: dict[int, Schema] = {}
        self._unknown: dict[int, float] = {}
        self._waited: deque[float] = deque(maxlen=LATE_MAX)
        self._away: dict[str, float] = {}

    def schema(self, id: int) -> Schema:
        """The one of this id.

        :raises UnknownSchemaError: there is none.
        :raises SourceUnavailableError: the registry does not answer.
        :raises SourceError: it refuses to.
        """
        with self._lock:
            if id in self._known:
                return self._known[id]
            if time.monotonic() < self._unknown.get(id, 0.0):
                raise UnknownSchemaError(self._says(f"there is no schema {id}"))
            found = self._found(id)
            if found is None:
                self._note_unknown(id)
                raise UnknownSchemaError(self._says(f"there is no schema {id}"))
            self._known[id] = self._read({**found, "id": id})
            return self._known[id]

    def _found(self, id: int) -> dict[str, Any] | None:
        path = f"/schemas/ids/{id}"
        found = self._ask(path)
        if found is None and self._may_be_late(id):
            for wait_s in LATE_S:
                threading.Event().wait(wait_s)
                found = self._ask(path)
                if found is not None:
                    break
        return found

    def _may_be_late(self, id: int) -> bool:
        now_s = time.monotonic()
        is_enough = len(self._waited) == LATE_MAX and now_s - self._waited[0] < _LATE_WINDOW_S
        if id in self._unknown or is_enough:
            return False
        self._waited.append(now_s)
        return True

    def _note_unknown(self, id: int) -> None:
        now_s = time.monotonic()
        if len(self._unknown) >= _UNKNOWN_MAX:  # what is no record has any id
            self._unknown = {id: until for id, until in self._unknown.items() if until > now_s}
        self._unknown[id] = now_s + UNKNOWN_S

    def of_subject(self, subject: str, version: int | None = None) -> Schema:
        """A version of a subject, by default the latest.

        :raises ConfigError: there is none.
        :raises SourceError: as of :meth:`schema`.
        """
        wanted = "latest" if version is None else str(version)
        found = self._ask(f"/subjects/{quote(subject, safe='')}/versions/{wanted}")
        if found is None:
            raise ConfigError(
                self._says(f"there is no version {wanted} of the subject {subject!r}."),
                hint="Register it, or correct the subject: that of a topic's values mostly is "
                "<topic>-value.",
            )
        return self._read(found)

    def register(
        self, subject: str, kind: str, text: str, references: Sequence[tuple[str, str, int]] = ()
    ) -> int:
        """See that a subject has this schema; its id.

        :raises ConfigError: the registry refuses it: it does not fit the earlier versions, say.
        :raises SourceError: as of :meth:`schema`.
        """
        refers = [dict(zip(_REFERENCE, each, strict=True)) for each in references]
        body = {"schema": text, "schemaType": kind, "references": refers}
        found = self._ask(f"/subjects/{quote(subject, safe='')}/versions", body)
        if found is None:
            raise ConfigError(self._says(f"the subject {subject!r} cannot be registered."))
        return int(found["id"])

    def _read(self, found: Mapping[str, Any]) -> Schema:
        try:
            references = tuple(
                (str(each["name"]), str(each["subject"]), int(each["version"]))
                for each in found.get("references") or ()
            )
            kind = str(found.get("schemaType") or "AVRO")
            return Schema(int(found["id"]), kind, str(found["schema"]), references)
        except (KeyError, TypeError, ValueError) as exc:
            raise SourceError(self._says(f"its answer is no schema: {exc!r}.")) from exc

    def _ask(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
        """Of each server in turn, again after a pause; None if none of those that answer knows of
        such a thing."""
        pause_s, reason = PAUSE_S, ""
        for number in range(TRIES):
            is_unknown = False
            for url in self._access.urls:
                if is_unknown and time.monotonic() < self._away.get(url, 0.0):
                    continue  # each id of what is no record would wait for it
                try:
                    status, content = self._web.ask(
                        url + path,
                        {"Accept": _SAYS, "Content-Type": _SAYS, **self._access.headers()},
                        None if body is None else json.dumps(body).encode(),
                    )
                except (OSError, HTTPException) as exc:
                    reason = f"{type(exc).__name__}: {exc}"
                    self._away[url] = time.monotonic() + _AWAY_S
                    continue
                if status in _PASSING or _is_of_another(status, content):
                    reason = f"it answers {status}: {_shown(content)}"
                elif status == 404:
                    is_unknown = True  # to this one: it may be behind the others
                else:
                    return self._answer(status, content, is_given=body is not None)
            if is_unknown:
                return None
            if number + 1 < TRIES:
                threading.Event().wait(pause_s)
                pause_s *= 2
        raise SourceUnavailableError(self._says(f"there is no answer: {reason}."))

    def _answer(self, status: int, content: bytes, *, is_given: bool) -> dict[str, Any]:
        kind: type[ContinuousError] = ConfigError if is_given else SourceError
        if status in _FORBIDDEN:
            raise kind(
                self._says(f"it refuses to answer ({status}): {_shown(content)}."),
                hint="See that the option basic.auth.user.info, or bearer.auth.token, is right.",
            )
        try:
            found = json.loads(content)
            if status == 200 and isinstance(found, dict):
                return found
        except ValueError:
            pass
        raise kind(self._says(f"it answers {status}: {_shown(content)}."))

    def _says(self, what: str) -> str:
        return f"The schema registry at {', '.join(self._access.urls)}: {what}"


_REFERENCE: Final = ("name", "subject", "version")


@lru_cache(maxsize=16)
def connected(access: Access) -> Registry:
    """One for all of a process."""
    return Registry(access)


def _plain(name: str) -> str:
    lower = name.lower()
    for prefix in _PREFIXES:
        if lower.startswith(prefix):
            return lower.removeprefix(prefix)
    return lower


def _is_of_another(status: int, content: bytes) -> bool:
    """Whether it is not the registry that knows nothing of the kind: it says so with a code of its
    own. A proxy whose registry is away may say no more than 404."""
    if status != 404:
        return False
    try:
        said = json.loads(content)
    except ValueError:
        return True
    return not isinstance(said, dict) or "error_code" not in said


def _shown(content: bytes) -> str:
    return content[:_SHOWN].decode(errors="replace")
