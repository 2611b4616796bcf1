"""``http``: rows as requests to a web service (a webhook), each with a key of its own.

======================  ===============  =======================================================
option                  default
======================  ===============  =======================================================
url                                      ``https://...``
method                  POST             or PUT, PATCH
header.NAME                              a header of each request; its value is never shown
body                    array            rows as a JSON ``array``, as ``lines`` of JSON, or each row
                                         by itself as an ``object``
rowsPerRequest          100              so many at most
concurrency             1                so many requests at once; with 1 they keep the rows' order
keyHeader               Idempotency-Key  the header with the request's key
timeout                 30 seconds       of a request
retryFor                1 minute         so long a request is repeated before the query is restarted
onRefused               fail             of rows that the service refuses: or ``skip``,
                                         ``dead-letter``
refusedPath                              for ``dead-letter``: a folder of the driver's machine
timeZone                session's        in which timestamps are written, of epochs prepared from
                                         then on
maxShippedBytesPerEpoch 256 MiB          see :mod:`engine.sinks.shipped`
======================  ===============  =======================================================

The requests are sent by the driver within the commit of an epoch, when it is in the offset log: so
a request that is repeated, by this run or another one, has the same rows and the same key, a hash
of query, timeline, epoch, task and which of the task's rows it has. A service that heeds the key
gets each row exactly once; any other at least once.

Source: IETF draft "The Idempotency-Key HTTP Header Field"; RFC 9110 of names and ``Retry-After``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from pyspark.sql.datasource import DataSource, WriterCommitMessage

from engine.base.connector_options import SESSION_TIMEZONE, Options
from engine.base.locations import local_path
from engine.base.options import parse_interval_ms
from engine.checkpoint.sink_context import SinkContext
from engine.errors import ConfigError
from engine.expressions.schemas import to_arrow
from engine.sinks.builtin_sinks import HTTP_HEADER as HEADER
from engine.sinks.builtin_sinks import SINKS
from engine.sinks.contract import ContinuousWriter
from engine.sinks.http.endpoint import OWNER, TOO_LARGE, Endpoint, RowsRefusedError, import_client
from engine.sinks.http.refused_rows import FAIL, POLICIES, RefusedRows, refused_rows
from engine.sinks.http.requests import (
    ARRAY,
    CONTENT_TYPES,
    OBJECT,
    TIME_ZONE,
    Request,
    RequestFormat,
)
from engine.sinks.shipped import OPTION, RowShipper, ShippingWriter, shipped_bytes_max

if TYPE_CHECKING:
    import urllib3
    from pyspark.sql.types import StructType

_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CLIENTS: Final = frozenset({"connection", "content-length", "transfer-encoding"})
"""Headers that tell how a request goes over the wire."""


class HttpSink(DataSource):
    """See the module."""

    def __init__(self, options: Mapping[str, str]) -> None:
        import_client()
        headers = {
            name[len(HEADER) :]: str(value)
            for name, value in options.items()
            if name.lower().startswith(HEADER)
        }
        self._secret_options = list(filter(SINKS[self.name()].is_secret, options))
        taken = Options(
            OWNER, {k: v for k, v in options.items() if not k.lower().startswith(HEADER)}
        )
        self._body = taken.choice("body", ARRAY, tuple(CONTENT_TYPES))
        default_rows = 1 if self._body == OBJECT else 100
        self._rows = taken.integer("rowsPerRequest", default_rows, minimum=1, maximum=100_000)
        if self._body == OBJECT and self._rows > 1:
            raise taken.wrong("rowsPerRequest", str(self._rows), "1 where the body is one object")
        self._concurrency = taken.integer("concurrency", 1, minimum=1, maximum=100)
        key_header = taken.text("keyHeader") or "Idempotency-Key"
        _check_headers([*headers, key_header], headers.values())
        method = taken.choice("method", "post", ("post", "put", "patch")).upper()
        self._endpoint = Endpoint(
            url=_checked_url(taken.required("url", example="https://example.com/hook")),
            method=method,
            headers={"Content-Type": CONTENT_TYPES[self._body], **_by_name(headers)},
            key_header=key_header,
            timeout_s=_seconds(taken, "timeout", "30 seconds"),
            retry_s=_seconds(taken, "retryFor", "1 minute"),
        )
        folder = taken.text("refusedPath")
        self._refused = refused_rows(
            taken.choice("onRefused", FAIL, POLICIES),
            None if folder is None else local_path(folder, OWNER),
        )
        self._timezone = taken.text("timeZone") or taken.text(SESSION_TIMEZONE) or "UTC"
        self._bytes_max = shipped_bytes_max(taken)
        taken.refuse_others()

    @classmethod
    def name(cls) -> str:
        return "http"

    def streamWriter(self, schema: StructType, overwrite: bool) -> HttpWriter:
        """:raises ConfigError: JSON has no form for a column."""
        columns = to_arrow(schema, OWNER)
        return HttpWriter(
            self._endpoint,
            RequestFormat(columns, self._timezone, self._body, self._rows),
            self._refused,
            concurrency=self._concurrency,
            bytes_max=self._bytes_max,
            secret_options=self._secret_options,
        )


@dataclass
class _Answered:
    """What the service has said to this process of an epoch: what is repeated need not repeat it.

    :ivar taken: the keys of requests that it has.
    :ivar halved: of those that it did not want as a whole. It might by now, and have rows twice.
    """

    epoch: str
    taken: set[str] = field(default_factory=set)
    halved: set[str] = field(default_factory=set)


class HttpWriter(ContinuousWriter, ShippingWriter):
    """The driver's side.

    :ivar path: the service, as the checkpoint may know it.
    """

    tuningOptions = (
        OPTION, "concurrency", "timeout", "retryFor", "onRefused", "refusedPath", "timeZone",
    )  # fmt: skip

    def __init__(
        self,
        endpoint: Endpoint,
        requests: RequestFormat,
        refused: RefusedRows,
        *,
        concurrency: int,
        bytes_max: int,
        secret_options: Sequence[str],
    ) -> None:
        super().__init__(RowShipper("http", bytes_max, notes={TIME_ZONE: requests.timezone}))
        self._endpoint, self._requests, self._refused = endpoint, requests, refused
        self._concurrency = concurrency
        self.secretOptions = tuple(secret_options)
        self.path = endpoint.origin
        self._context: SinkContext | None = None
        self._answered = _Answered("")

    def validate(self) -> None:
        """:raises ConfigError: nobody answers there, or refused rows cannot be kept."""
        self._endpoint.check()
        self._refused.check()

    def bind(self, context: SinkContext) -> None:
        """Whose epochs will be committed."""
        self._context = context

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Send an epoch.

        :raises SinkCommitRejectedError: the service refuses it.
        :raises SinkCommitUnknownError: it does not take it now; it may have taken a part.
        """
        context = self._context
        assert context is not None, "bind() comes first"
        name = f"{context.query_id}/{context.timeline}/{batchId}"
        if self._answered.epoch != name:
            self._answered = _Answered(name)
        pool = self._endpoint.pool(self._concurrency)
        send = partial(self._send, pool, batchId)
        requests = self._requests.requests(name, messages)
        try:
            if self._concurrency == 1:
                for request in requests:
                    send(request)
            else:
                with ThreadPoolExecutor(self._concurrency, "http") as threads:
                    for _ in threads.map(send, requests):
                        pass
        finally:
            pool.clear()

    def _send(self, pool: urllib3.PoolManager, epoch: int, request: Request) -> None:
        key, answered = request.key, self._answered
        if key in answered.taken:
            return
        try:
            if key not in answered.halved:
                self._endpoint.send(pool, key, self._requests.written(request))
        except RowsRefusedError as refused:
            fails = self._refused.policy == FAIL and refused.status != TOO_LARGE
            if fails or len(request.rows) == 1:
                self._refused.take(self._endpoint.origin, key, request.rows[0], refused, epoch)
            else:
                answered.halved.add(key)
        if key in answered.halved:
            for half in request.halves():
                self._send(pool, epoch, half)
        answered.taken.add(key)


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        fits = False
    if not fits:
        raise ConfigError(
            f"{OWNER}: the option url is no address of a web service.",
            hint="It begins with http:// or https://, and has a host.",
        )
    if "@" in parts.netloc:
        raise ConfigError(
            f"{OWNER}: the option url has a user or a password.",
            hint="Set the option header.Authorization instead.",
        )
    return url


def _check_headers(names: Sequence[str], values: Iterable[str]) -> None:
    """:param names: of all headers, each of which is sent once."""
    for name in names:
        if _NAME.fullmatch(name) is None:
            raise ConfigError(
                f"{OWNER}: {name!r} is no name of a header.",
                hint=f"Letters, digits and hyphens, as in {HEADER}X-Source.",
            )
        if name.lower() in _CLIENTS:
            raise ConfigError(
                f"{OWNER}: the header {name} is the client's own.", hint="Leave it out."
            )
    if twice := _second(names):
        raise ConfigError(
            f"{OWNER}: the header {twice} is set twice.",
            hint=f"The option keyHeader names the one that has the request's key; {HEADER}NAME "
            "the others.",
        )
    if not all(map(_is_value, values)):
        raise ConfigError(
            f"{OWNER}: the value of an option {HEADER}NAME cannot be that of a header.",
            hint="It is one line, of ASCII or Latin-1.",
        )


def _second(names: Sequence[str]) -> str | None:
    """One that is there before, whatever its case."""
    seen = set()
    for name in names:
        if name.lower() in seen:
            return name
        seen.add(name.lower())
    return None


def _is_value(text: str) -> bool:
    try:
        text.encode("latin-1")
    except UnicodeEncodeError:
        return False
    return not any(each in text for each in "\r\n\0")


def _by_name(headers: Mapping[str, str]) -> dict[str, str]:
    """Content-Type as we write it, so that the user's stands in place of ours."""
    return {
        "Content-Type" if name.lower() == "content-type" else name: value
        for name, value in headers.items()
    }


def _seconds(taken: Options, name: str, default: str) -> float:
    milliseconds = parse_interval_ms(taken.text(name) or default, f"{OWNER}: option {name}")
    if milliseconds <= 0:
        raise taken.wrong(name, taken.text(name), "longer than nothing")
    return milliseconds / 1000
