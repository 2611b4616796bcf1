"""Queries that Spark itself runs, under the lease of their checkpoint."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter

from engine import write_stream
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.lease import Lease
from engine.checkpoint.query_history import history
from engine.checkpoint.query_state import QueryState
from engine.errors import ConcurrentRunError, ConfigError, StaleRunError
from engine.query import handed
from engine.query.handoff import SparkQuery
from engine.query.writer import ContinuousStreamWriter
from tests.spark.since import before, since
from tests.waiting import wait_until

pytestmark = pytest.mark.spark
WAIT_S = 120
Start = Callable[[ContinuousStreamWriter], SparkQuery]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts queries, and stops those that a failing test left behind."""
    started: list[SparkQuery] = []

    def body(builder: ContinuousStreamWriter) -> SparkQuery:
        query = builder.start()
        assert isinstance(query, SparkQuery)
        started.append(query)
        return query

    yield body
    for query in started:
        query.stop()


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    return Checkpoint(str(tmp_path / "a checkpoint"))


def rate(spark: SparkSession, rows_per_second: int = 20) -> DataFrame:
    rows = spark.readStream.format("rate").option("rowsPerSecond", rows_per_second)
    return rows.option("numPartitions", 1).load()


def into(
    df: DataFrame, checkpoint: Checkpoint, sink: str = "noop", **trigger: Any
) -> ContinuousStreamWriter:
    writer = write_stream(df).format(sink).trigger(**trigger).mode("spark")
    return writer.options(checkpointLocation=checkpoint.url, leaseHeartbeatMs=300)


class OneRow(DataSource):
    """A table of one row. Who joins it is not planned to the end while there is ``path``, a file;
    ``path`` with ``.asked`` behind it tells that somebody is."""

    @classmethod
    def name(cls) -> str:
        return "one_row"

    def schema(self) -> str:
        return "id bigint"

    def reader(self, schema: Any) -> DataSourceReader:
        return OneRowReader(self.options["path"])


class OneRowReader(DataSourceReader):
    def __init__(self, path: str) -> None:
        self.held, self.asked = Path(path), Path(f"{path}.asked")

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:
        if self.held.exists():
            self.asked.touch()
            wait_until(lambda: not self.held.exists(), "it may be planned", WAIT_S)
        return filters

    def read(self, partition: Any) -> Iterator[tuple[int]]:
        yield (0,)


@pytest.mark.parametrize(
    "trigger", [{"processingTime": "100 milliseconds"}, {"continuous": "200 milliseconds"}]
)
def test_while_it_runs_the_checkpoint_tells_and_a_request_drains_it(
    spark: SparkSession, checkpoint: Checkpoint, start: Start, trigger: dict[str, str]
) -> None:
    query = start(into(rate(spark), checkpoint, **trigger))
    wait_until(lambda: checkpoint.status().state is QueryState.RUNNING, "the query runs", WAIT_S)
    assert query.awaitEpoch(2, WAIT_S)
    wait_until(lambda: checkpoint.holder().epoch >= 2, "the lease tells the epoch", WAIT_S)  # type: ignore[union-attr]
    status = checkpoint.status()
    assert (status.run_id, status.id) == (query.runId, query.id)
    if "processingTime" in trigger:  # Spark's continuous mode may never report
        wait_until(lambda: query.lastProgress is not None, "Spark reports", WAIT_S)
        assert query.lastProgress["id"] == query.id, "Spark has the checkpoint's id"
    assert status.application == spark.sparkContext.applicationId
    assert status.epoch >= 2
    assert query.status["state"] == "RUNNING"

    checkpoint.requests.ask("drain", by="a test", run_id=status.run_id)
    assert query.awaitTermination(WAIT_S)

    ended = checkpoint.status()
    assert (ended.state, ended.error, ended.run_id) == (QueryState.STOPPED, None, query.runId)
    assert ended.epoch == query.status["epoch"] >= status.epoch
    if "processingTime" in trigger:
        assert checkpoint.offsets.ids() == checkpoint.epochs(), "no batch was cancelled"
    assert not query.isActive
    assert query.exception() is None


@pytest.mark.parametrize("kind", ["availableNow", "once"])
def test_a_bounded_query_ends_by_itself_and_goes_on_next_time(
    spark: SparkSession, tmp_path: Path, checkpoint: Checkpoint, start: Start, kind: str
) -> None:
    (tmp_path / "in").mkdir()
    lines = spark.readStream.format("text").option("maxFilesPerTrigger", 1)
    df = lines.load(str(tmp_path / "in"))
    generations = []
    for run in range(2):
        for number in range(3):
            (tmp_path / "in" / f"{run}-{number}.txt").write_text(f"{run}{number}\n")
        writer = into(df, checkpoint, "parquet", **{kind: True})
        query = start(writer.option("path", str(tmp_path / "out")))
        assert query.awaitTermination(WAIT_S)
        status = checkpoint.status()
        assert (status.state, status.run_id) == (QueryState.STOPPED, query.runId)
        generations.append(status.generation)
    batches = 6 if kind == "availableNow" else 2
    assert checkpoint.epochs() == list(range(batches))
    assert [report["batchId"] for report in checkpoint.progress.read()][-1] == batches - 1
    assert generations == [0, 1]
    told = history(checkpoint)
    for name, total in (("epochs", batches), ("rows_in", 6)):
        assert sum(each or 0 for each in told.series[name].values) == total
    assert [mark.kind for mark in told.marks] == ["started", "stopped"] * 2
    rows = {row.value for row in spark.read.parquet(str(tmp_path / "out")).collect()}
    assert rows == {f"{run}{number}" for run in range(2) for number in range(3)}


def test_reports_of_earlier_runs_stay_and_triggers_without_data_leave_none(
    spark: SparkSession, tmp_path: Path, checkpoint: Checkpoint, start: Start
) -> None:
    (tmp_path / "in").mkdir()
    df = spark.readStream.format("text").load(str(tmp_path / "in"))
    reported = []
    for rows in (1, 0, 2):
        if rows:
            (tmp_path / "in" / f"{rows}.txt").write_text("row\n" * rows)
        assert start(into(df, checkpoint, availableNow=True)).awaitTermination(WAIT_S)
        reports = checkpoint.progress.read()
        reported.append([(each["batchId"], each["numInputRows"]) for each in reports])
    assert reported == [[(0, 1)], [(0, 1)], [(0, 1), (1, 2)]]


def test_a_drain_commits_the_running_batch_and_begins_no_other(
    spark: SparkSession, checkpoint: Checkpoint, start: Start
) -> None:
    begun: list[int] = []
    may_end = threading.Event()

    def slow(batch: DataFrame, epoch: int) -> None:
        begun.append(epoch)
        if epoch == 1:
            assert may_end.wait(WAIT_S)

    writer = into(rate(spark), checkpoint, processingTime="0 seconds").foreachBatch(slow)
    query = start(writer)
    wait_until(lambda: 1 in begun, "the second batch has begun", WAIT_S)
    checkpoint.requests.ask("drain", by="a test")
    wait_until(lambda: checkpoint.status().state is QueryState.DRAINING, "it drains", WAIT_S)
    assert not query.drain(timeout=0.5), "the batch was not cancelled"
    may_end.set()
    assert query.awaitTermination(WAIT_S)
    assert (checkpoint.offsets.ids(), checkpoint.epochs(), begun) == ([0, 1], [0, 1], [0, 1])
    assert checkpoint.status().state is QueryState.STOPPED


@pytest.mark.parametrize("interval", ["0 seconds", "1 second"])
def test_a_drain_commits_a_batch_that_is_being_planned(
    spark: SparkSession, tmp_path: Path, checkpoint: Checkpoint, start: Start, interval: str
) -> None:
    """It is in the offset log, and Spark cuts off what it is still planning when it is told."""
    session = spark.newSession()
    session.dataSource.register(OneRow)
    session.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    held = tmp_path / "held"
    row = session.read.format("one_row").load(str(held)).where("id = 0")
    query = start(into(rate(session).crossJoin(row), checkpoint, processingTime=interval))
    assert query.awaitEpoch(0, WAIT_S)
    held.touch()
    wait_until(Path(f"{held}.asked").exists, "a batch is planned", WAIT_S)
    (planned,) = set(checkpoint.offsets.ids()) - set(checkpoint.epochs())
    assert not query.drain(timeout=0.5), "a batch is being planned"
    held.unlink()
    assert query.awaitTermination(WAIT_S)
    assert checkpoint.epochs() == checkpoint.offsets.ids()
    assert checkpoint.committed_epoch() == planned
    assert checkpoint.status().state is QueryState.STOPPED


def test_a_drain_of_a_bounded_query_leaves_the_rest_to_the_next_start(
    spark: SparkSession, tmp_path: Path, checkpoint: Checkpoint, start: Start
) -> None:
    (tmp_path / "in").mkdir()
    for number in range(3):
        (tmp_path / "in" / f"{number}.txt").write_text(f"{number}\n")
    begun, may_end = threading.Event(), threading.Event()

    def waits(batch: DataFrame, epoch: int) -> None:
        if epoch == 1:
            begun.set()
            assert may_end.wait(WAIT_S)

    lines = spark.readStream.format("text").option("maxFilesPerTrigger", 1)
    df = lines.load(str(tmp_path / "in"))
    query = start(into(df, checkpoint, availableNow=True).foreachBatch(waits))
    assert begun.wait(WAIT_S)
    assert not query.drain(timeout=0.5)
    may_end.set()
    assert query.awaitTermination(WAIT_S)
    assert (checkpoint.offsets.ids(), checkpoint.epochs()) == ([0, 1], [0, 1])
    again = start(into(df, checkpoint, availableNow=True).foreachBatch(waits))
    assert again.awaitTermination(WAIT_S)
    assert checkpoint.epochs() == [0, 1, 2]


def test_a_batch_that_fails_while_the_query_drains(
    spark: SparkSession, checkpoint: Checkpoint, start: Start
) -> None:
    begun, may_fail = threading.Event(), threading.Event()

    def fails(batch: DataFrame, epoch: int) -> None:
        begun.set()
        assert may_fail.wait(WAIT_S)
        raise ValueError("no more")

    query = start(into(rate(spark), checkpoint, processingTime="0 seconds").foreachBatch(fails))
    assert begun.wait(WAIT_S)
    assert not query.drain(timeout=0.5)
    may_fail.set()
    with pytest.raises(StreamingQueryException, match="no more"):
        query.awaitTermination(WAIT_S)
    assert checkpoint.status().state is QueryState.FAILED


@pytest.mark.parametrize("interval", ["0 seconds", "100 milliseconds", "1 second"])
def test_a_query_without_data_drains(
    spark: SparkSession, tmp_path: Path, checkpoint: Checkpoint, start: Start, interval: str
) -> None:
    (tmp_path / "in").mkdir()
    df = spark.readStream.format("text").load(str(tmp_path / "in"))
    query = start(into(df, checkpoint, processingTime=interval))
    wait_until(lambda: query.lastProgress is not None, "it has looked for data", WAIT_S)
    assert query.drain(WAIT_S)
    assert (checkpoint.offsets.ids(), checkpoint.epochs()) == ([], [])
    assert checkpoint.status().state is QueryState.STOPPED


def test_a_drain_does_not_wait_for_the_next_trigger(
    spark: SparkSession, checkpoint: Checkpoint, start: Start
) -> None:
    query = start(into(rate(spark), checkpoint, processingTime="10 hours"))
    assert query.awaitEpoch(0, WAIT_S)
    assert query.drain(WAIT_S)
    assert checkpoint.epochs() == [0]


def test_a_stop_cancels_the_running_batch(
    spark: SparkSession, checkpoint: Checkpoint, start: Start
) -> None:
    begun: list[int] = []

    def hangs(batch: DataFrame, epoch: int) -> None:
        begun.append(epoch)
        if epoch == 1:  # which may have no rows
            batch.sparkSession.range(1).foreach(lambda _: threading.Event().wait(WAIT_S * 10))

    query = start(into(rate(spark), checkpoint, processingTime="0 seconds").foreachBatch(hangs))
    # Not only logged: Spark itself cuts off a batch that it is still planning.
    wait_until(lambda: 1 in begun, "the second batch has begun", WAIT_S)
    checkpoint.requests.ask("drain", by="a test")
    wait_until(lambda: checkpoint.status().state is QueryState.DRAINING, "it drains", WAIT_S)
    assert not query.awaitTermination(0.5), "a drain waits for the batch"
    checkpoint.requests.ask("stop", by="a test")
    assert query.awaitTermination(WAIT_S)
    status = checkpoint.status()
    assert (status.state, status.epoch) == (QueryState.STOPPED, 0)


def test_a_second_run_is_refused_before_spark_starts_it(
    spark: SparkSession, checkpoint: Checkpoint, start: Start
) -> None:
    query = start(into(rate(spark), checkpoint, processingTime="100 milliseconds"))
    assert query.awaitEpoch(0, WAIT_S)
    for mode in ("spark", "engine"):
        second = into(rate(spark), checkpoint, continuous="1 second").mode(mode)
        with pytest.raises(ConcurrentRunError, match=query.runId):
            second.start()
    assert len(spark.streams.active) == 1
    epoch = query.status["epoch"]
    assert query.awaitEpoch(epoch + 2, WAIT_S), "the first one goes on"
    query.stop()
    assert checkpoint.status().state is QueryState.STOPPED
    assert checkpoint.status().run_id == query.runId


def test_a_failure_is_recorded_with_its_reason(
    spark: SparkSession, checkpoint: Checkpoint, start: Start
) -> None:
    def check(row: Any) -> None:
        if row.value == 3:
            raise ValueError("three is too many, password=hunter2")

    query = start(into(rate(spark), checkpoint, processingTime="0 seconds").foreach(check))
    with pytest.raises(StreamingQueryException, match="three is too many"):
        query.awaitTermination()
    status = checkpoint.status()
    assert status.state is QueryState.FAILED
    assert status.error is not None
    assert "ValueError: three is too many" in status.error
    for unwanted in ("JVM stacktrace", "Logical Plan", "hunter2"):
        assert unwanted not in status.error
    with pytest.raises(StreamingQueryException):
        query.drain(WAIT_S)
    assert isinstance(query.exception(), StreamingQueryException)


def test_what_spark_refuses_at_once_is_recorded(
    spark: SparkSession, checkpoint: Checkpoint
) -> None:
    Path(checkpoint.url, "offsets").mkdir(parents=True)
    with pytest.raises(
        ConfigError, match=r"Spark refuses the query: .*does not support recovering"
    ):
        into(rate(spark), checkpoint, "memory", once=True).queryName("again").start()
    status = checkpoint.status()
    assert status.state is QueryState.FAILED
    assert "Spark refuses the query" in str(status.error)


def test_a_lost_lease_stops_the_query(
    spark: SparkSession, checkpoint: Checkpoint, start: Start
) -> None:
    query = start(into(rate(spark), checkpoint, processingTime="100 milliseconds"))
    assert query.awaitEpoch(0, WAIT_S)
    # As if this process had been suspended, and another one had taken the checkpoint over.
    taker = Lease.acquire(checkpoint, run_id=query.runId)
    with pytest.raises(StaleRunError, match="does not own the checkpoint"):
        query.awaitTermination(WAIT_S)
    assert spark.streams.active == []
    assert checkpoint.status().generation == taker.generation
    assert checkpoint.status().state is QueryState.STARTING, "the lease is the taker's"
    taker.release(QueryState.STOPPED)


def test_options_of_the_engine_that_spark_does_not_heed_are_named_in_one_warning(
    spark: SparkSession, checkpoint: Checkpoint, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    """A setting that is silently ignored is believed; the query goes on with any trigger."""
    writer = into(rate(spark), checkpoint, once=True)
    writer = writer.options(coordinatorTls="true", MINEPOCHSTORETAIN=7, onBadRecord="fail")
    with caplog.at_level(logging.WARNING, handed.__name__):
        query = start(writer.option("anything", "of the sink's"))
    assert query.awaitTermination(WAIT_S)
    ours = (each for each in caplog.records if each.name == handed.__name__)
    (warning,) = (each.getMessage() for each in ours)
    assert "MINEPOCHSTORETAIN, coordinatorTls have no effect with trigger(once=...)" in warning


# -- real-time mode -------------------------------------------------------------------------------

_REAL_TIME = "triggers of PySpark for it"


@before("4.2", _REAL_TIME)
def test_real_time_mode_needs_a_pyspark_that_has_its_trigger(
    spark: SparkSession, checkpoint: Checkpoint
) -> None:
    with pytest.raises(ConfigError, match=r"trigger\(realTime=...\) needs PySpark 4.2 or later"):
        into(rate(spark), checkpoint, "console", realTime="5 seconds").start()
    assert not Path(checkpoint.url).exists()


@since("4.2", _REAL_TIME)
def test_real_time_mode_refuses_a_source_that_is_too_slow_for_it(
    spark: SparkSession, checkpoint: Checkpoint, start: Start
) -> None:
    writer = into(rate(spark), checkpoint, "console", realTime="5 seconds").outputMode("update")
    query = start(writer)
    with pytest.raises(StreamingQueryException, match="INPUT_STREAM_NOT_SUPPORTED"):
        query.awaitTermination(WAIT_S)
    status = checkpoint.status()
    assert status.state is QueryState.FAILED
    assert "RateStreamMicroBatchStream is not supported in Real-time Mode" in str(status.error)


@since("4.2", _REAL_TIME)
def test_real_time_mode_refuses_a_sink_that_it_does_not_know(
    spark: SparkSession, checkpoint: Checkpoint
) -> None:
    writer = into(rate(spark), checkpoint, realTime="5 seconds").outputMode("update")
    with pytest.raises(ConfigError, match="not in the sink allowlist for Real-Time Mode"):
        writer.start()
    assert checkpoint.status().state is QueryState.FAILED


@since("4.2", _REAL_TIME)
def test_real_time_mode_runs_with_the_one_source_that_spark_brings(
    spark: SparkSession, checkpoint: Checkpoint, start: Start
) -> None:
    jvm: Any = spark._jvm
    streams = "org.apache.spark.sql.execution.streaming.sources.LowLatencyMemoryStream$"
    stream = getattr(getattr(jvm, streams), "MODULE$").apply(
        1, jvm.org.apache.spark.sql.Encoders.STRING(), spark._jsparkSession.sqlContext()
    )
    df = DataFrame(stream.toDF(), spark)
    writer = into(df, checkpoint, "console", realTime="5 seconds").outputMode("update")
    query = start(writer)

    def committed(epoch: int) -> bool:
        stream.addData(jvm.org.apache.spark.api.python.PythonUtils.toSeq(["a row"]))
        return checkpoint.committed_epoch() >= epoch

    wait_until(lambda: committed(1), "two epochs are committed", WAIT_S)
    assert checkpoint.status().state is QueryState.RUNNING
    checkpoint.requests.ask("drain", by="a test")
    assert query.awaitTermination(WAIT_S)
    assert checkpoint.epochs() == checkpoint.offsets.ids()
    assert checkpoint.status().state is QueryState.STOPPED
