"""Other people's data sources as polled ones: nothing lost or repeated, and nobody kept waiting."""

from __future__ import annotations

import json
import os
import signal
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.types import StructType

from engine.base import failpoints
from engine.checkpoint.checkpoint import Checkpoint
from engine.errors import BadRecordError, SourceError
from engine.execution.definition import QueryDefinition, StreamBinding
from engine.execution.execution import ContinuousExecution
from engine.execution.launcher import ThreadLauncher
from engine.expressions.schemas import to_arrow
from engine.pipeline.pipeline import Pipeline, SourceRelation
from engine.query.binding import bind_writer
from engine.query.handle import ContinuousQuery
from engine.sinks.files.data_source import ParquetDataSource
from engine.sources.polled import partition_reader
from engine.sources.polled.partition_reader import PolledPartitionReader
from engine.sources.polled.reader import polled_reader
from tests.model import HOUR_MS, NEVER_MS, ONE_ATTEMPT, Feed, ModelReader
from tests.model import SCHEMA as MODEL_SCHEMA
from tests.shelf import SHELVES, ShelfReader, ShelfSource, SimpleShelfReader, calls, put, record
from tests.simulation.test_files_exactly_once import FOLDER, FileSinkLog, open_storage, pq
from tests.waiting import wait_until

WAIT_S = 60.0
COLUMNS = StructType().add("id", "long").add("name", "string")
SCHEMA = to_arrow(COLUMNS, "test")


class Library:
    """A shelf, a query over it into Parquet files, and as many starts as the test wants."""

    def __init__(self, folder: Path) -> None:
        self.shelf, self.folder = folder / "shelf", folder
        self.put(0)

    def put(self, count: int) -> None:
        put(self.shelf, count)

    def stream(self, source: Any = ShelfSource, interval_ms: int = 5, **options: Any) -> Any:
        given = {"path": str(self.shelf), **options}
        made = source(given) if isinstance(source, type) else source
        reader = polled_reader("source shelf", made, COLUMNS, SCHEMA, interval_ms)
        return StreamBinding(
            Pipeline(SourceRelation("shelf", {}, SCHEMA), (), SCHEMA), reader, "shelf"
        )

    def definition(self, *streams: Any, interval_ms: int = 20, **options: Any) -> QueryDefinition:
        sink = ParquetDataSource({"path": str(self.folder / "out")})
        return QueryDefinition(
            name=None,
            streams=streams,
            sink=bind_writer(sink.streamWriter(COLUMNS, overwrite=False), "parquet"),
            checkpoint=self.checkpoint,
            epoch_interval_ms=interval_ms,
            options=replace(ONE_ATTEMPT, **options),
        )

    def start(self, *streams: Any, **options: Any) -> ContinuousQuery:
        made = self.definition(*(streams or (self.stream(),)), **options)
        return started(made)

    @property
    def checkpoint(self) -> Checkpoint:
        return Checkpoint(str(self.folder / "checkpoint"))

    def rows(self) -> list[tuple[int, str]]:
        log = FileSinkLog(open_storage(str(self.folder / "out" / FOLDER)))
        tables = [pq.read_table(each.path.removeprefix("file://")) for each in log.files()]
        return sorted((r["id"], r["name"]) for table in tables for r in table.to_pylist())

    def await_rows(self, query: ContinuousQuery, count: int) -> None:
        """Until the sink has so many, and they are the first ones, each once."""

        def there() -> bool:
            assert query.isActive, query.exception()
            return len(self.rows()) >= count

        wait_until(there, f"{count} rows", WAIT_S)
        assert self.rows() == [record(number) for number in range(count)]


def started(made: QueryDefinition) -> ContinuousQuery:
    execution = ContinuousExecution(made, ThreadLauncher())
    execution.start()
    return ContinuousQuery(execution, str)


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(tmp_path)


# -- nothing lost or repeated ---------------------------------------------------------------------


@pytest.mark.parametrize("source", SHELVES)
def test_what_comes_is_read_once_over_restarts(library: Library, source: type[DataSource]) -> None:
    count = 0
    for turn in range(4):
        query = library.start(library.stream(source))
        for more in (1, 2_500):  # more than a batch
            library.put(more)
            count += more
            library.await_rows(query, count)
        _ = query.stop() if turn % 2 else query.drain(WAIT_S)
    (offset,) = library.checkpoint.committed_offsets() or ()
    assert count in (offset.get("next"), offset.get("position", {}).get("next"))


@pytest.mark.parametrize("source", SHELVES)
def test_a_source_that_is_empty_stays_so(library: Library, source: type[DataSource]) -> None:
    query = library.start(library.stream(source))
    assert query.awaitEpoch(3, WAIT_S)
    query.drain(WAIT_S)
    assert library.rows() == []


@pytest.mark.skipif(
    not hasattr(DataSourceStreamReader, "getDefaultReadLimit"), reason="new in PySpark 4.2"
)
def test_admission_control_bounds_a_range(library: Library) -> None:
    library.put(100)
    query = library.start(library.stream(limit="30"))
    library.await_rows(query, 100)
    query.drain(WAIT_S)
    assert calls(library.shelf, "partitions") == [[0, 30], [30, 60], [60, 90], [90, 100]]


@pytest.mark.parametrize("source", SHELVES)
def test_an_epoch_that_spark_has_logged_is_read_again_to_its_end(
    library: Library, source: type[DataSource]
) -> None:
    library.put(50)
    offset = {"position": {"next": 40}} if source is ShelfSource else {"next": 40}
    library.checkpoint.create_or_read_query_id("6e5c7b0e-3a4f-4c57-9d0f-1f0f5f3f0001")
    (library.folder / "checkpoint/offsets").mkdir()
    (library.folder / "checkpoint/offsets/0").write_text("v1\n{}\n" + json.dumps(offset))
    query = library.start(library.stream(source))
    assert query.awaitEpoch(0, WAIT_S)
    assert library.checkpoint.committed_offsets() == (offset,)
    library.await_rows(query, 50)
    query.drain(WAIT_S)


PLACES = (
    "report.before",
    "prepare.after",
    "walCommit.after",
    "commitSink.after",
    "commitOffsets.after",
)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # of what earlier tests left
@pytest.mark.parametrize("place", PLACES)
def test_a_killed_process_loses_and_repeats_nothing(library: Library, place: str) -> None:
    """Killed at the first, the third and the fourth visit, then to the end."""
    library.put(5_000)
    for visit in (1, 3, 4):
        assert _forked(library, f"{place}:{visit}:kill")
    assert not _forked(library, "")
    assert library.rows() == [record(number) for number in range(5_000)]


def _forked(library: Library, armed: str) -> bool:
    """Run the query in a process of its own, until it is killed or has read all; whether it was."""
    pid = os.fork()
    if pid == 0:
        try:
            failpoints.arm(armed)
            threading.Timer(WAIT_S, os._exit, (3,)).start()
            query = library.start(library.stream(limit="500"), interval_ms=10)
            query.processAllAvailable()
            query.awaitEpoch(query.status["epoch"] + 6, WAIT_S)
            query.drain(WAIT_S)
            os._exit(0)
        finally:
            os._exit(2)
    status = os.waitpid(pid, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, f"it ended with {status}"
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


# -- a large range --------------------------------------------------------------------------------


class SlowShelf(ShelfReader):
    """Stops in the middle of a range until it may go on."""

    gate = threading.Event()
    arrived = threading.Event()
    at = 2_000

    def read(self, partition: Any) -> Any:
        for number in range(partition.start, partition.end):
            if number == self.at:
                self.arrived.set()
                assert self.gate.wait(WAIT_S)
            yield record(number)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    monkeypatch.setattr(SlowShelf, "gate", threading.Event())
    monkeypatch.setattr(SlowShelf, "arrived", threading.Event())
    return SlowShelf.gate


class SlowSource(ShelfSource):
    def streamReader(self, schema: Any) -> ShelfReader:
        # By reference: what the test sets is seen by the task's copy.
        return SlowShelf(self.options)


def test_epochs_pass_while_a_range_is_read(library: Library, gate: threading.Event) -> None:
    library.put(3_000)
    query = library.start(library.stream(SlowSource))
    assert SlowShelf.arrived.wait(WAIT_S)
    assert query.awaitEpoch(query.status["epoch"] + 3, WAIT_S)
    assert library.rows() == []
    gate.set()
    library.await_rows(query, 3_000)
    query.drain(WAIT_S)


def test_an_epoch_does_not_end_within_a_range_that_is_too_large_to_hold(
    library: Library, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, read = threading.Event(), PolledPartitionReader.read

    def noted(reader: PolledPartitionReader, timeout_s: float) -> Any:
        batch = read(reader, timeout_s)
        if reader.midway:
            begun.set()
        return batch

    monkeypatch.setattr(PolledPartitionReader, "read", noted)
    monkeypatch.setattr(partition_reader, "HELD_BYTES", 1_000)
    library.put(3_000)
    query = library.start(library.stream(SlowSource))
    assert SlowShelf.arrived.wait(WAIT_S)
    assert begun.wait(WAIT_S)
    assert not query.awaitEpoch(query._execution.open_epoch, 0.5)
    gate.set()
    library.await_rows(query, 3_000)
    query.drain(WAIT_S)


def test_a_source_that_hangs_keeps_nobody_from_reading_or_ending(
    library: Library, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_reader, "CLOSE_WAIT_S", 0.05)
    library.put(3_000)
    feed = Feed(1)
    other = StreamBinding(
        Pipeline(SourceRelation("model", {}, MODEL_SCHEMA), (), MODEL_SCHEMA),
        ModelReader(feed),
        "model",
    )
    query = library.start(library.stream(SlowSource), other)
    assert SlowShelf.arrived.wait(WAIT_S)
    assert query.awaitEpoch(query.status["epoch"] + 3, WAIT_S)
    assert query.drain(WAIT_S)
    gate.set()


# -- what is told to the source -------------------------------------------------------------------


def test_a_commit_comes_to_the_reader_that_has_polled(library: Library) -> None:
    library.put(10)
    query = library.start()
    wait_until(lambda: [10, 10] in calls(library.shelf, "commit"), "the commit", WAIT_S)
    query.drain(WAIT_S)


def test_so_does_that_of_the_last_epoch(library: Library) -> None:
    library.put(10)
    query = library.start(interval_ms=NEVER_MS)
    wait_until(lambda: calls(library.shelf, "partitions"), "the first range", WAIT_S)
    query.drain(WAIT_S)
    rows = len(library.rows())
    assert rows in (0, 10)  # the range may not have been whole when the drain came
    assert calls(library.shelf, "commit")[-1:] == [[10, rows]]


def test_the_beginning_is_asked_once(library: Library) -> None:
    for _ in range(3):
        library.start(interval_ms=NEVER_MS).stop()
    assert calls(library.shelf, "initialOffset") == [None]


def test_all_that_is_there_is_awaited_where_the_source_reports_its_end(library: Library) -> None:
    library.put(10)
    query = library.start(library.stream(limit="3"))
    query.processAllAvailable()
    assert len(library.rows()) == 10
    query.drain(WAIT_S)


# -- what fails -----------------------------------------------------------------------------------


class Broken(ShelfReader):
    """Fails in a method so often as the test says."""

    failures: ClassVar[dict[str, list[BaseException]]] = {}

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict:
        self._fail("latestOffset")
        return super().latestOffset(start, limit)

    def read(self, partition: Any) -> Any:
        for number in range(partition.start, partition.end):
            if number == 7:
                self._fail("read")
            yield record(number)

    def commit(self, end: dict) -> None:
        self._fail("commit")

    def _fail(self, method: str) -> None:
        if self.failures.get(method):
            raise self.failures[method].pop()


class BrokenSource(ShelfSource):
    def streamReader(self, schema: Any) -> ShelfReader:
        return Broken(self.options)


@pytest.fixture
def failures(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[BaseException]]:
    monkeypatch.setattr(Broken, "failures", {})
    return Broken.failures


@pytest.mark.parametrize("method", ["latestOffset", "read", "commit"])
def test_an_outage_is_borne(
    library: Library, failures: dict[str, list[BaseException]], method: str
) -> None:
    failures[method] = [ConnectionError("down"), SystemExit("killed"), ConnectionError("down")]
    library.put(10)
    query = library.start(
        library.stream(BrokenSource),
        retry_source_for_ms=HOUR_MS,
        retry_infrastructure_for_ms=HOUR_MS,
        restarts_user=9,
    )
    wait_until(lambda: not failures[method], "the failures", WAIT_S)
    library.put(10)
    library.await_rows(query, 20)
    query.drain(WAIT_S)


def test_an_error_names_the_source_and_what_it_did(
    library: Library, failures: dict[str, list[BaseException]]
) -> None:
    failures["latestOffset"] = [ConnectionError("down")]
    query = library.start(library.stream(BrokenSource))
    with pytest.raises(SourceError, match=r"source shelf failed in latestOffset.*down"):
        query.awaitTermination(WAIT_S)


class Wrong(SimpleShelfReader):
    """Returns rows that do not fit."""

    def readBetweenOffsets(self, start: dict, end: dict) -> Any:
        return [
            ("seven" if n == 7 else n, f"record {n}") for n in range(start["next"], end["next"])
        ]


class WrongSource(ShelfSource):
    def streamReader(self, schema: Any) -> Any:
        raise NotImplementedError

    def simpleStreamReader(self, schema: Any) -> Any:
        return Wrong(self.options)


def test_a_row_that_does_not_fit_is_named(library: Library) -> None:
    library.put(10)
    query = library.start(library.stream(WrongSource))
    with pytest.raises(BadRecordError, match=r"does not fit.*seven"):
        query.awaitTermination(WAIT_S)


def test_it_may_be_left_out(library: Library) -> None:
    library.put(10)
    query = library.start(library.stream(WrongSource), on_bad_record="skip")
    wait_until(lambda: len(library.rows()) == 9, "the others", WAIT_S)
    query.drain(WAIT_S)
    assert 7 not in [number for number, _ in library.rows()]


class Standing(SimpleShelfReader):
    def read(self, start: dict) -> Any:
        return [record(0)], start


def test_records_without_progress_are_refused(library: Library) -> None:
    class Source(WrongSource):
        def simpleStreamReader(self, schema: Any) -> Any:
            return Standing(self.options)

    query = library.start(library.stream(Source))
    with pytest.raises(SourceError, match="read for ever"):
        query.awaitTermination(WAIT_S)
