"""What the http sink sends, and what it makes of the answers of a service on this machine."""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from engine.checkpoint.sink_context import SinkContext
from engine.errors import (
    ConfigError,
    ContinuousError,
    SinkCommitRejectedError,
    SinkCommitUnknownError,
)
from engine.query.binding import bind_sink
from engine.sinks.http import endpoint
from engine.sinks.http.data_source import HttpSink, HttpWriter
from engine.sinks.shipped import RowShipper

COLUMNS = StructType().add("id", "long").add("name", "string")
Answer = tuple[int, dict[str, str], bytes]
OK: Answer = (204, {}, b"")


@dataclass
class Got:
    """A request."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    at_s: float

    @property
    def key(self) -> str:
        return self.headers["Idempotency-Key"]

    @property
    def ids(self) -> list[int]:
        return [row["id"] for row in json.loads(self.body)]


@dataclass
class Service:
    """:ivar answer: what it says to a request; it may also take its time.
    :ivar tells: writes the body of an answer.
    """

    url: str = ""
    got: list[Got] = field(default_factory=list)
    answer: Callable[[Got], Answer] = lambda got: OK
    tells: Callable[[Any, bytes], None] = lambda file, text: file.write(text)


@pytest.fixture
def service() -> Iterator[Service]:
    service = Service()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _take(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got = Got(self.command, self.path, dict(self.headers), body, time.monotonic())
            service.got.append(got)
            status, headers, text = service.answer(got)
            self.send_response(status)
            for name, value in {"Content-Length": str(len(text)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            with contextlib.suppress(ConnectionError):  # who asked may have given up
                service.tells(self.wfile, text)

        do_POST = do_PUT = _take

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    service.url = f"http://127.0.0.1:{server.server_address[1]}/services/s3cret-path"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield service
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long it waits between two tries, instead of that."""
    seconds: list[float] = []
    monkeypatch.setattr(endpoint, "pause", seconds.append)
    return seconds


def sink(
    service: Service, timeline: int = 0, columns: StructType = COLUMNS, **options: str
) -> HttpWriter:
    given = {name.replace("__", "."): value for name, value in options.items()}
    made = HttpSink({"url": service.url, "retryFor": "1 millisecond", **given})
    writer = made.streamWriter(columns, overwrite=False)
    writer.bind(SinkContext("q", "r", 0, timeline))
    return writer


def rows(*ids: int) -> pa.RecordBatch:
    """Every second one has no name."""
    names = pa.array([None if each % 2 else "é" for each in ids], pa.string())
    return pa.RecordBatch.from_pydict({"id": pa.array(ids, pa.int64()), "name": names})


def commit(writer: HttpWriter, epoch: int, *tasks: pa.RecordBatch) -> None:
    writer.commit([writer.write(iter([batch])) for batch in tasks], epoch)


def refusing(*ids: int, status: int = 422) -> Callable[[Got], Answer]:
    return lambda got: (status, {}, b"no such id") if set(got.ids) & set(ids) else OK


def test_rows_are_sent_as_json_in_order(service: Service) -> None:
    writer = sink(service, rowsPerRequest="2", header__X_Api_Key="k", method="put")
    writer.commit([None, writer.write(iter([rows(1, 2), rows(3)])), writer.write(iter([]))], 0)
    assert [got.body.decode() for got in service.got] == [
        '[{"id":1},{"id":2,"name":"é"}]',
        '[{"id":3}]',
    ]
    (first, _) = service.got
    assert (first.method, first.path) == ("PUT", "/services/s3cret-path")
    assert first.headers["X_Api_Key"] == "k"
    assert first.headers["Content-Type"] == "application/json"
    writer.commit([None, writer.write(iter([]))], 1)
    assert len(service.got) == 2, "an epoch without rows is no request"


@pytest.mark.parametrize(
    ("body", "sent", "content"),
    [
        ("lines", [b'{"id":1}\n{"id":3}\n'], "application/x-ndjson"),
        ("object", [b'{"id":1}', b'{"id":3}'], "application/vnd.own"),
    ],
)
def test_other_bodies(service: Service, body: str, sent: list[bytes], content: str) -> None:
    own = {"header__content-type": content} if "own" in content else {}
    commit(sink(service, body=body, **own), 0, rows(1, 3))
    assert [got.body for got in service.got] == sent
    assert {got.headers["Content-Type"] for got in service.got} == {content}


def test_a_request_that_is_repeated_has_the_key_and_the_rows_of_before(service: Service) -> None:
    def keys(timeline: int, epoch: int) -> list[str]:
        del service.got[:]
        writer = sink(service, timeline, rowsPerRequest="2")  # as another process would
        commit(writer, epoch, rows(1, 2, 3), rows(1, 2))
        return [got.key for got in service.got]

    first = keys(0, 7)
    assert len(set(first)) == 3
    assert keys(0, 7) == first
    assert not set(keys(0, 8)) & set(first)
    assert not set(keys(1, 7)) & set(first), "after a rewind an epoch has other rows"


def test_an_epoch_keeps_the_time_zone_that_it_was_prepared_with(service: Service) -> None:
    columns = StructType().add("at", "timestamp")
    batch = pa.RecordBatch.from_pydict({"at": pa.array([0], pa.timestamp("us", "UTC"))})
    before = sink(service, columns=columns, timeZone="Asia/Tokyo")
    prepared = before.write(iter([batch]))
    after = sink(service, columns=columns, timeZone="UTC")
    for writer in (before, after):
        writer.commit([prepared], 0)
    commit(after, 1, batch)
    first, again, other = service.got
    assert (again.key, again.body) == (first.key, first.body)
    assert first.body == b'[{"at":"1970-01-01T09:00:00.000+09:00"}]'
    assert other.body == b'[{"at":"1970-01-01T00:00:00.000Z"}]'


def test_rows_of_a_release_that_noted_no_time_zone(service: Service) -> None:
    columns = StructType().add("at", "timestamp")
    batch = pa.RecordBatch.from_pydict({"at": pa.array([0], pa.timestamp("us", "UTC"))})
    prepared = RowShipper("http", 1_000).write(0, iter([batch]))
    sink(service, columns=columns, timeZone="Asia/Tokyo").commit([prepared], 0)
    (got,) = service.got
    assert got.body == b'[{"at":"1970-01-01T09:00:00.000+09:00"}]'


def test_what_was_taken_is_not_sent_again_by_the_same_process(service: Service) -> None:
    writer = sink(service, rowsPerRequest="1")
    service.answer = lambda got: OK if got.ids != [2] else (503, {}, b"")
    with pytest.raises(SinkCommitUnknownError, match="answers 503"):
        commit(writer, 0, rows(1, 2, 3))
    service.answer = lambda got: OK
    del service.got[:]
    commit(writer, 0, rows(1, 2, 3))
    assert [got.ids for got in service.got] == [[2], [3]]
    commit(writer, 1, rows(1))
    assert service.got[-1].ids == [1]


@pytest.mark.parametrize("status", [500, 503, 429, 409, 408])
def test_what_may_pass_is_tried_again(service: Service, pauses: list[float], status: int) -> None:
    answers = iter([(status, {"Retry-After": "0.0"}, b"busy"), (status, {}, b""), OK])
    service.answer = lambda got: next(answers)
    commit(sink(service, retryFor="1 minute"), 0, rows(1))
    assert len({got.key for got in service.got}) == 1
    assert len(service.got) == 3


def test_a_service_that_wants_to_be_left_alone_is(service: Service, pauses: list[float]) -> None:
    answers = iter([(429, {"Retry-After": "100"}, b""), (503, {"Retry-After": "soon"}, b""), OK])
    service.answer = lambda got: next(answers)
    commit(sink(service, retryFor="1 hour"), 0, rows(1))
    assert pauses[0] == 100
    assert 0 < pauses[1] < 1
    answers = iter([(429, {"Retry-After": "Wed, 21 Oct 2099 07:28:00 GMT"}, b""), OK])
    commit(sink(service, retryFor="1 hour"), 0, rows(1))
    assert pauses[2] == endpoint.RETRY_AFTER_MAX_S


def test_nobody_waits_for_a_service_longer_than_it_is_tried(
    service: Service, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    service.answer = lambda got: (503, {"Retry-After": "100"}, b"")
    writer = sink(service, retryFor="1 minute")
    with pytest.raises(SinkCommitUnknownError, match="503; it wants to be left alone for 100 s"):
        commit(writer, 0, rows(1))
    with pytest.raises(SinkCommitUnknownError, match="wants to be left alone for another"):
        commit(writer, 0, rows(1))
    assert (len(service.got), pauses) == (1, [])
    later = SimpleNamespace(monotonic=lambda: time.monotonic() + 101)
    monkeypatch.setattr(endpoint, "time", later)  # of this module alone
    service.answer = lambda got: OK
    commit(writer, 0, rows(1))


def test_an_answer_that_trickles_is_not_waited_for(service: Service) -> None:
    over, sent = threading.Event(), 0

    def tells(file: Any, text: bytes) -> None:
        nonlocal sent
        for place in range(len(text)):
            file.write(text[place : place + 1])
            sent += 1
            if over.wait(0.01):
                break

    service.tells = tells
    for answer in ((200, {}, b"x" * 60_000), (404, {}, b"x" * 60_000)):
        service.answer = lambda got, answer=answer: answer  # type: ignore[misc]
        # Where its beginning is late, it is asked again.
        writer = sink(service, timeout="500 milliseconds", retryFor="1 minute")
        if answer[0] == 200:
            commit(writer, 0, rows(1))
        else:
            with pytest.raises(SinkCommitRejectedError, match="404 x"):
                commit(writer, 0, rows(1))
    assert sent < 60_000, "it was waited for"
    over.set()


def test_pauses_grow_and_end(service: Service, pauses: list[float]) -> None:
    answers = iter([*[(500, {}, b"")] * 20, OK])
    service.answer = lambda got: next(answers)
    commit(sink(service, retryFor="1 hour"), 0, rows(1))
    assert len(pauses) == 20
    assert pauses[0] <= 0.4
    assert all(5 <= each <= 10 for each in pauses[6:])


def test_a_service_that_hangs_or_hangs_up_is_given_up(service: Service) -> None:
    enough = threading.Event()

    def answer(got: Got) -> Answer:
        enough.wait(20)
        return OK

    service.answer = answer
    with pytest.raises(SinkCommitUnknownError, match="does not answer"):
        commit(sink(service, timeout="50 milliseconds"), 0, rows(1))
    enough.set()


def test_a_service_that_is_not_there(service: Service) -> None:
    gone = Service(url="http://127.0.0.1:9/services/s3cret-path?token=hush-hush")
    with pytest.raises(ConfigError, match=r"http://127.0.0.1:9 cannot be reached"):
        sink(gone).validate()
    with pytest.raises(SinkCommitUnknownError, match="does not answer") as error:
        commit(sink(gone), 0, rows(1))
    assert "hush" not in str(error.value)
    sink(service).validate()
    assert service.got == []


@pytest.mark.parametrize(
    ("status", "hint"), [(401, "header"), (403, "header"), (302, "elsewhere"), (404, "url")]
)
def test_what_people_have_to_mend_ends_the_query_whatever_the_policy(
    service: Service, status: int, hint: str
) -> None:
    service.answer = lambda got: (status, {"Location": "http://127.0.0.1:9/"}, b"no")
    with pytest.raises(SinkCommitRejectedError, match=f"answers {status}") as error:
        commit(sink(service, onRefused="skip"), 0, rows(1))
    assert hint in str(error.value)
    assert "s3cret-path" not in str(error.value)
    assert len(service.got) == 1


def test_rows_that_are_refused_end_the_query(service: Service) -> None:
    service.answer = refusing(2)
    with pytest.raises(SinkCommitRejectedError, match=r"422 no such id to the row .*\"id\":1"):
        commit(sink(service), 0, rows(1, 2, 3))
    assert len(service.got) == 1


def test_rows_that_are_refused_are_found_and_skipped(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    service.answer = refusing(2, 5)
    with caplog.at_level(logging.WARNING):
        commit(sink(service, onRefused="skip"), 0, rows(1, 2, 3, 4, 5, 6))
    taken = [got for got in service.got if not set(got.ids) & {2, 5}]
    assert sorted(each for got in taken for each in got.ids) == [1, 3, 4, 6]
    assert len({got.key for got in service.got}) == len(service.got)
    assert caplog.text.count("which is skipped") == 2


def test_refused_rows_are_kept_once(service: Service, tmp_path: Path) -> None:
    service.answer = refusing(2, status=400)
    folder = tmp_path / "refused"
    for _ in range(2):  # another process commits the epoch again
        writer = sink(service, onRefused="dead-letter", refusedPath=str(folder))
        writer.validate()
        commit(writer, 4, rows(1, 2))
    (letter,) = folder.iterdir()
    content = json.loads(letter.read_text())
    assert content["row"] == {"id": 2, "name": "é"}
    assert (content["epoch"], content["status"], content["answer"]) == (4, 400, "no such id")
    assert content["key"] == letter.stem


def test_refused_rows_are_kept_digit_by_digit(service: Service, tmp_path: Path) -> None:
    exact = Decimal("12345678901234567890.1234567891")
    columns = StructType().add("price", "decimal(30,10)")
    service.answer = lambda got: (422, {}, b"")
    options = {"url": service.url, "onRefused": "dead-letter", "refusedPath": str(tmp_path)}
    writer = HttpSink(options).streamWriter(columns, overwrite=False)
    writer.bind(SinkContext("q", "r", 0, 0))
    commit(writer, 0, pa.RecordBatch.from_pydict({"price": pa.array([exact])}))
    (letter,) = tmp_path.iterdir()
    assert json.loads(letter.read_text(), parse_float=Decimal)["row"] == {"price": exact}


def test_a_request_that_is_too_large_is_halved(service: Service) -> None:
    service.answer = lambda got: (413, {}, b"") if len(got.ids) > 2 else OK
    commit(sink(service), 0, rows(*range(8)))
    taken = [got.ids for got in service.got if len(got.ids) <= 2]
    assert taken == [[0, 1], [2, 3], [4, 5], [6, 7]]
    service.answer = lambda got: (413, {}, b"")
    with pytest.raises(SinkCommitRejectedError, match="413"):
        commit(sink(service), 1, rows(1))


def test_a_request_that_was_halved_stays_so(service: Service) -> None:
    """By then the service may take it as a whole, and would have rows twice."""
    writer = sink(service, onRefused="skip")
    service.answer = lambda got: (503, {}, b"") if got.ids == [2] else refusing(2)(got)
    with pytest.raises(SinkCommitUnknownError):
        commit(writer, 0, rows(1, 2))
    service.answer = lambda got: OK
    commit(writer, 0, rows(1, 2))
    assert [got.ids for got in service.got if got.ids != [2]] == [[1, 2], [1]]


def test_several_requests_at_once(service: Service) -> None:
    together = threading.Barrier(4, timeout=20)

    def answer(got: Got) -> Answer:
        together.wait()
        return OK

    service.answer = answer
    commit(
        sink(service, rowsPerRequest="1", concurrency="4", retryFor="1 minute"), 0, rows(1, 2, 3, 4)
    )
    assert sorted(got.ids[0] for got in service.got) == [1, 2, 3, 4]
    service.answer = refusing(6)
    with pytest.raises(SinkCommitRejectedError):
        commit(sink(service, rowsPerRequest="1", concurrency="4"), 1, rows(5, 6, 7))


def test_an_answer_of_any_length_and_kind(service: Service) -> None:
    service.answer = lambda got: (200, {}, b"x" * 1_000_000)
    writer = sink(service, rowsPerRequest="1")
    commit(writer, 0, rows(1, 2, 3))
    service.answer = lambda got: (422, {}, b"\xff\n\n" * 1_000_000)
    with pytest.raises(SinkCommitRejectedError) as error:
        commit(writer, 1, rows(1))
    assert len(str(error.value)) < 1_000


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"url": "ftp://x/y"}, "no address of a web service"),
        ({"url": "http://"}, "no address of a web service"),
        ({"url": "http://me:pw@x/"}, "has a user or a password"),
        ({"body": "xml"}, "body"),
        ({"body": "object", "rowsPerRequest": "2"}, "rowsPerRequest"),
        ({"header__": "x"}, "is no name of a header"),
        ({"header__X:Y": "x"}, "is no name of a header"),
        ({"keyHeader": "Schlüssel"}, "is no name of a header"),
        ({"header__A": "x\r\nB: y"}, "cannot be that of a header"),
        ({"header__A": "it’s"}, "cannot be that of a header"),
        ({"header__idempotency-key": "one for all"}, "Idempotency-Key is set twice"),
        ({"header__X-Source": "a", "header__x-source": "b"}, "is set twice"),
        ({"header__Content-Length": "3"}, "the client's own"),
        ({"onRefused": "dead-letter"}, "refusedPath is not set"),
        ({"refusedPath": "/tmp/x"}, "onRefused is fail, and refusedPath"),
        ({"timeout": "0 seconds"}, "timeout"),
        ({"timeout": "soon"}, "timeout"),
        ({"retries": "3"}, "no option 'retries'"),
    ],
)
def test_what_makes_no_sense_is_refused(
    service: Service, options: dict[str, str], said: str
) -> None:
    with pytest.raises(ConfigError, match=said) as error:
        sink(service, **options)
    assert "pw" not in str(error.value)


def test_neither_address_nor_headers_are_shown_or_kept(service: Service) -> None:
    url = service.url.replace("http://127.0.0.1", "http://LOCALHOST")
    options = {"url": url, "header.X-Team": "hush-hush", "Header.Accept": "any", "method": "PUT"}
    bound = bind_sink(None, "http", options, COLUMNS)  # type: ignore[arg-type]
    assert bound.description.count("(redacted)") == 3
    assert "s3cret" not in bound.description
    assert "hush" not in bound.description
    origin = url.lower().partition("/services")[0]
    assert bound.options == {"method": "PUT", "path": origin}
    for status in (401, 422, 503):
        service.answer = lambda got, status=status: (  # type: ignore[misc]
            status, {}, f"no {got.path} for {got.headers['Authorization']}".encode()
        )  # fmt: skip
        secret = sink(service, header__Authorization="Bearer hush-hush")
        with pytest.raises(ContinuousError) as error:
            commit(secret, 0, rows(1))
        assert "s3cret" not in str(error.value)
        assert "hush" not in str(error.value)
    assert "s3cret" not in repr(vars(bound.driver.commit.__self__))  # type: ignore[attr-defined]
