"""Queries on a real Spark: started, committed, killed, refused, handed to Spark."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import StructType

from engine import BatchContext, write_stream
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.query_state import QueryState
from engine.errors import (
    ConfigError,
    NotEnoughSlotsError,
    TaskLostError,
    TransformError,
    UnsupportedQueryError,
)
from engine.execution.shares import Spread
from engine.execution.slots import Slots
from engine.query.handle import ContinuousQuery
from engine.query.writer import ContinuousStreamWriter
from engine.sinks.memory import MemoryWriter
from engine.spark.executor_launcher import SparkLauncher
from tests.spark.rates import assert_complete, await_read, rate, values_read
from tests.waiting import wait_until

pytestmark = pytest.mark.spark
WAIT_S = 60
Start = Callable[[ContinuousStreamWriter], ContinuousQuery]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts queries, and stops those that a failing test left behind."""
    started: list[ContinuousQuery] = []

    def body(builder: ContinuousStreamWriter) -> ContinuousQuery:
        query = builder.start()
        assert isinstance(query, ContinuousQuery)
        started.append(query)
        return query

    yield body
    for query in started:
        query.stop()


def files(df: DataFrame, folder: Path, **options: Any) -> ContinuousStreamWriter:
    return (
        write_stream(df)
        .format("parquet")
        .option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .options(**options)
        .trigger(continuous="200 milliseconds")
    )


def test_rows_reach_the_files_exactly_once_over_restarts(
    spark: SparkSession, tmp_path: Path, start: Start
) -> None:
    df = rate(spark).where("value % 2 = 0").selectExpr("timestamp", "value * 3 AS v")
    for turn in range(3):
        query = start(files(df, tmp_path))
        assert query.awaitEpoch(query.status["epoch"] + 3, WAIT_S)
        await_read(query)
        if turn % 2:
            query.stop()
        else:
            query.drain(WAIT_S)
    values = sorted(r.v for r in spark.read.parquet(str(tmp_path / "out")).collect())
    assert values
    assert values == [6 * k for k in range(len(values))]
    offset = Checkpoint(str(tmp_path / "checkpoint")).committed_offsets()[0]
    read = sum(part["value"] // 2 + (part["value"] % 2) for part in offset.values())
    assert len(values) <= read + 2


def test_sql_over_a_temp_view(spark: SparkSession, tmp_path: Path, start: Start) -> None:
    rate(spark).createOrReplaceTempView("numbers")
    df = spark.sql(
        "SELECT value AS v, upper(concat('n', value)) AS name FROM numbers WHERE value < 50"
    )
    query = start(files(df, tmp_path))
    await_read(query, 50)
    query.drain(WAIT_S)
    rows = spark.read.parquet(str(tmp_path / "out")).orderBy("v").collect()
    assert [(r.v, r.name) for r in rows] == [(v, f"N{v}") for v in range(50)]


def test_foreach_sees_rows_and_epochs(spark: SparkSession, tmp_path: Path, start: Start) -> None:
    log = tmp_path / "log"

    class Writer:
        def open(self, partition_id: int, epoch_id: int) -> bool:
            self.where = (partition_id, epoch_id)
            return True

        def process(self, row: Row) -> None:
            with log.open("a") as file:
                file.write(f"{self.where[0]} {self.where[1]} {row.value}\n")

        def close(self, error: BaseException | None) -> None:
            assert error is None

    query = start(
        write_stream(rate(spark)).foreach(Writer()).trigger(continuous="100 milliseconds")
    )
    await_read(query)
    await_read(query, max(values_read(query)) + 1)  # by another epoch
    query.drain(WAIT_S)
    seen = [tuple(map(int, line.split())) for line in log.read_text().splitlines()]
    assert_complete([value for _, _, value in seen])
    assert {partition for partition, _, _ in seen} == {0, 1}
    assert len({epoch for _, epoch, _ in seen}) > 1


def test_memory_and_foreach_batch_deliver_to_the_driver(spark: SparkSession, start: Start) -> None:
    query = start(
        write_stream(rate(spark, partitions=1))
        .format("memory")
        .queryName("remembered")
        .trigger(continuous="100 milliseconds")
    )
    await_read(query)
    query.drain(WAIT_S)
    values = [r.value for r in spark.table("remembered").orderBy("value").collect()]
    assert values == list(range(len(values)))
    assert values

    batches: list[tuple[int, int]] = []
    query = start(
        write_stream(rate(spark, partitions=1))
        .foreachBatch(lambda df, epoch: batches.append((epoch, len(df.collect()))))
        .trigger(continuous="100 milliseconds")
    )
    await_read(query)
    query.drain(WAIT_S)
    epochs = [epoch for epoch, _ in batches]
    assert epochs == sorted(set(epochs)), "once each; those without rows are left out"
    assert sum(count for _, count in batches) > 0


def test_a_function_gets_structs_of_a_left_join(spark: SparkSession, start: Start) -> None:
    """They are NULL where nothing was found, and their fields are NOT NULL."""
    named = spark.sql("SELECT 1L AS value, struct(1 AS a, timestamp'2020-01-01' AS t) AS s")
    seen: list[tuple[int, int | None]] = []
    nullable: list[bool] = []

    def see(df: DataFrame, epoch: int) -> None:
        nullable.append(df.schema["s"].dataType["a"].nullable)
        seen.extend((row.value, row.s and row.s.a) for row in df.collect())

    query = start(
        write_stream(rate(spark, partitions=1).join(named, "value", "left"))
        .foreachBatch(see)
        .trigger(continuous="100 milliseconds")
    )
    await_read(query, 3)
    query.drain(WAIT_S)
    assert seen[:3] == [(0, None), (1, 1), (2, None)]
    assert not any(nullable)


def test_a_function_gets_arrow_tables_on_the_driver(
    spark: SparkSession, start: Start, tmp_path: Path
) -> None:
    seen: list[tuple[BatchContext, list[int]]] = []

    def writer() -> ContinuousStreamWriter:
        return (
            write_stream(rate(spark))
            .foreachBatchArrow(
                lambda table, context: seen.append((context, table["value"].to_pylist()))
            )
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(continuous="100 milliseconds")
        )

    read = -1
    for _ in range(2):
        query = start(writer())
        await_read(query, read + 1)
        query.drain(WAIT_S)
        read = max(values_read(query))
    assert_complete([value for _, values in seen for value in values])
    contexts = [context for context, _ in seen]
    assert [context.epoch for context in contexts] == sorted({each.epoch for each in contexts})
    assert {context.query_id for context in contexts} == {query.id}
    assert len({context.run_id for context in contexts}) == 2
    assert not any(context.is_replay for context in contexts)
    with pytest.raises(ConfigError, match="Spark, which has no foreachBatchArrow"):
        writer().trigger(availableNow=True).start()


def test_the_view_of_a_memory_query_is_rewound(spark: SparkSession) -> None:
    sink = MemoryWriter("rewound", StructType().add("id", "long"), spark)
    for epoch in range(4):
        batch = pa.RecordBatch.from_pydict({"id": [epoch]})
        sink.commit([sink.write(iter([batch]))], epoch)
    sink.rewind(1)
    assert spark.table("rewound").collect() == [Row(id=0), Row(id=1)]
    sink.commit([sink.write(iter([batch]))], 2)
    assert spark.table("rewound").collect() == [Row(id=0), Row(id=1), Row(id=3)]


def test_to_table(spark: SparkSession, tmp_path: Path) -> None:
    builder = (
        write_stream(rate(spark).selectExpr("value"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(continuous="200 milliseconds")
    )
    try:
        query = builder.toTable("counted")
        assert isinstance(query, ContinuousQuery)
        await_read(query)
        query.drain(WAIT_S)
        assert_complete([r.value for r in spark.table("counted").collect()])
    finally:
        spark.sql("DROP TABLE IF EXISTS counted")


def test_partitions_share_the_slots_there_are(
    spark: SparkSession, tmp_path: Path, start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    query = start(files(rate(spark, partitions=5), tmp_path))
    await_read(query)
    query.explain()
    assert "Partitions 5, read by 2 tasks" in capsys.readouterr().out
    query.drain(WAIT_S)
    values = [row.value for row in spark.read.parquet(str(tmp_path / "out")).collect()]
    assert_complete(values, partitions=5)


def test_tasks_of_a_stage_read_no_partitions(
    spark: SparkSession, start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    counts = rate(spark, partitions=5).groupBy("value").count()
    writer = write_stream(counts).format("noop").outputMode("update").option("reducers", 1)
    query = start(writer.trigger(continuous="100 milliseconds"))
    query.awaitEpoch(0, WAIT_S)
    query.explain()
    assert "Partitions 5, read by 1 task\n" in capsys.readouterr().out
    assert query._execution.spread == Spread(partitions=5, readers=1, tasks=2)


def test_more_tasks_than_slots_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    writer = files(rate(spark, partitions=5), tmp_path).option("partitionsPerTask", 1)
    with pytest.raises(NotEnoughSlotsError, match=r"5 tasks .* 2 of the 2 slots"):
        writer.start()
    assert Checkpoint(str(tmp_path / "checkpoint")).status().state is QueryState.FAILED


def test_busy_slots_are_not_free(spark: SparkSession, tmp_path: Path, start: Start) -> None:
    query = start(files(rate(spark, partitions=1), tmp_path / "one"))
    query.awaitEpoch(0, WAIT_S)
    two = start(files(rate(spark, partitions=2), tmp_path / "two", slotTimeout="4 seconds"))
    assert two.awaitEpoch(0, WAIT_S)
    assert two._execution.spread.tasks == 1
    with pytest.raises(NotEnoughSlotsError, match="0 of the 2 slots are free"):
        files(rate(spark, partitions=2), tmp_path / "three", slotTimeout="1 second").start()


def test_a_job_of_somebody_else_that_takes_the_slots(
    spark: SparkSession,
    tmp_path: Path,
    start: Start,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The count before the launch can be wrong; the tasks that wait for a slot are noticed."""
    query = start(files(rate(spark, partitions=1), tmp_path / "one"))
    query.awaitEpoch(0, WAIT_S)
    monkeypatch.setattr(SparkLauncher, "slots", lambda self: Slots(2, 2))
    late = start(files(rate(spark, partitions=2), tmp_path / "two", slotTimeout="4 seconds"))
    assert late.awaitEpoch(0, WAIT_S)
    assert late._execution.spread.tasks == 1
    assert late.status["restarts"] == 0


def test_a_function_of_batches_finds_a_slot(spark: SparkSession, start: Start) -> None:
    counts: list[int] = []
    query = start(
        write_stream(rate(spark, partitions=4))
        .foreachBatch(lambda df, epoch: counts.append(df.repartition(2).count()))
        .trigger(continuous="100 milliseconds")
    )
    await_read(query)
    assert query._execution.spread.tasks == 1
    query.drain(WAIT_S)
    assert sum(counts) > 0


def test_a_failing_expression_names_the_error(
    spark: SparkSession, tmp_path: Path, start: Start
) -> None:
    query = start(files(rate(spark).selectExpr("10 / (value - 7) AS v"), tmp_path))
    with pytest.raises(TransformError, match="DIVIDE_BY_ZERO"):
        query.awaitTermination(WAIT_S)
    assert isinstance(query.exception(), TransformError)
    assert query.status["state"] == "FAILED"


@pytest.mark.parametrize("budget", [0, 1])
def test_a_query_survives_a_killed_worker(
    spark: SparkSession, tmp_path: Path, start: Start, budget: int
) -> None:
    """By itself, in place; without a budget by its next start."""
    df = rate(spark).selectExpr("value")
    query = start(files(df, tmp_path, retryInfrastructureFor=f"{budget} hours"))
    await_read(query)
    os.kill(worker_pids()[0], signal.SIGKILL)
    if budget == 0:
        with pytest.raises(TaskLostError):
            query.awaitTermination(WAIT_S)
        query = start(files(df, tmp_path))
    wait_until(lambda: query.status["restarts"] == budget, "a restart in place", WAIT_S)
    assert query.awaitEpoch(query.status["epoch"] + 5, WAIT_S)
    query.drain(WAIT_S)
    assert query.status["restarts"] == budget
    assert_complete([r.value for r in spark.read.parquet(str(tmp_path / "out")).collect()])


def worker_pids() -> list[int]:
    """Python workers that run a task: those with a connection to the query's driver, which is this
    process. Spark keeps others, idle, which are connected to the JVM alone."""
    ours = psutil.Process().net_connections("tcp")
    ports = {each.laddr.port for each in ours if each.status == psutil.CONN_LISTEN}
    workers = []
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):  # it has ended meanwhile, or is a zombie
            connected = {each.raddr.port for each in child.net_connections("tcp") if each.raddr}
            if connected & ports and "engine.spark.daemon" in child.cmdline():
                workers.append(child.pid)
    return workers


def test_what_cannot_run_is_refused_before_anything_starts(
    spark: SparkSession, tmp_path: Path
) -> None:
    df = rate(spark).groupBy("value").count()
    with pytest.raises(UnsupportedQueryError, match="aggregations without watermark"):
        files(df, tmp_path).start()
    with pytest.raises(ConfigError, match="no sink"):
        write_stream(rate(spark)).start()
    with pytest.raises(ConfigError, match="checkpointLocation"):
        write_stream(rate(spark)).format("parquet").start(str(tmp_path / "out"))
    with pytest.raises(ConfigError, match="streaming DataFrame"):
        write_stream(spark.range(3))
    with pytest.raises(ConfigError, match="parquett"):
        write_stream(rate(spark)).format("parquett").option(
            "checkpointLocation", str(tmp_path / "c")
        ).start()
    with pytest.raises(ConfigError, match="minEpochsToRetain"):
        files(rate(spark), tmp_path, minEpochsToRetain=1).start()
    with pytest.raises(ConfigError, match="not an interval"):
        files(rate(spark), tmp_path).trigger(continuous="often").start()
    assert not (tmp_path / "checkpoint").exists()


def test_a_misspelled_option_is_refused_whatever_the_sink(spark: SparkSession) -> None:
    df = rate(spark)
    for builder in (
        write_stream(df).foreach(print),
        write_stream(df).foreachBatch(print),
        write_stream(df).foreachBatchArrow(print),
        write_stream(df).format("memory").queryName("misspelled"),
        write_stream(df).format("noop"),
    ):
        with pytest.raises(ConfigError, match="has no option 'onbadrecrd'"):
            builder.trigger(continuous="1 second").option("onBadRecrd", "skip").start()


@pytest.mark.parametrize("trigger", [{"availableNow": True}, {"processingTime": "0 seconds"}])
def test_other_triggers_run_in_spark(
    spark: SparkSession, tmp_path: Path, trigger: dict[str, Any]
) -> None:
    builder = files(rate(spark, 10), tmp_path).trigger(**trigger)
    query = builder.start()
    assert not isinstance(query, ContinuousQuery)
    try:
        assert query.awaitEpoch(0, WAIT_S)
    finally:
        query.stop()
    assert Checkpoint(str(tmp_path / "checkpoint")).status().state is QueryState.STOPPED


def test_explain_prints_the_pipeline(
    spark: SparkSession, tmp_path: Path, start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    query = start(files(rate(spark).where("value > 3").selectExpr("value AS v"), tmp_path))
    query.explain()
    text = capsys.readouterr().out
    for part in ("rate", "value > ", "AS v", "parquet", "Partitions 2", "200 ms", "exactly once"):
        assert part in text


def test_spark_continues_our_checkpoint_and_we_continue_sparks(
    spark: SparkSession, tmp_path: Path, start: Start
) -> None:
    df = rate(spark, 20).selectExpr("value")
    checkpoint = Checkpoint(str(tmp_path / "checkpoint"))

    def ours() -> None:
        builder = write_stream(df).format("noop").trigger(continuous="300 milliseconds")
        query = start(builder.option("checkpointLocation", checkpoint.url))
        query.awaitEpoch(query.status["epoch"] + 3, WAIT_S)
        query.drain(WAIT_S)

    def sparks() -> None:
        query = (
            df.writeStream.format("noop")
            .option("checkpointLocation", checkpoint.url)
            .trigger(continuous="300 milliseconds")
            .start()
        )
        wanted = checkpoint.committed_epoch() + 4

        def has_committed() -> bool:
            assert query.isActive, query.exception()
            return checkpoint.committed_epoch() >= wanted

        wait_until(has_committed, f"Spark commits epoch {wanted}", WAIT_S)
        query.stop()

    identities = []
    for run in (sparks, ours, sparks, ours):
        before = checkpoint.committed_epoch()
        run()
        assert checkpoint.committed_epoch() > before
        identities.append(checkpoint.query_id())
    assert len(set(identities)) == 1
    entries = map(checkpoint.offsets.get, checkpoint.offsets.ids())
    ends = [entry.offsets[0] for entry in entries if entry is not None]
    assert checkpoint.commits.ids() == list(range(checkpoint.committed_epoch() + 1))
    for partition in ("0", "1"):
        values = [end[partition]["value"] for end in ends]
        assert values == sorted(values)


def test_two_streams_in_one_query_lose_and_repeat_nothing(
    spark: SparkSession, tmp_path: Path, start: Start
) -> None:
    first = rate(spark, partitions=1).selectExpr("value", "1 AS stream")
    second = rate(spark, rows_per_second=50, partitions=1).selectExpr("value", "2 AS stream")
    for _ in range(2):
        query = start(files(first.union(second), tmp_path))
        assert query.awaitEpoch(query.status["epoch"] + 4, WAIT_S)
        await_read(query)
        query.drain(WAIT_S)
        last = query.lastProgress
        assert last is not None
        assert len(last["sources"]) == 2
    epoch = Checkpoint(str(tmp_path / "checkpoint")).committed_epoch()
    lines = (tmp_path / "checkpoint" / "offsets" / str(epoch)).read_text().splitlines()
    assert len(lines) == 2 + 2, "each source has its own line in the offset log"
    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    for stream in (1, 2):
        values = sorted(row.value for row in rows if row.stream == stream)
        assert values == list(range(len(values)))
        assert values


def test_a_table_is_read_again(spark: SparkSession, tmp_path: Path, start: Start) -> None:
    names = tmp_path / "names.txt"
    names.write_text("old\n")
    table = spark.read.text(str(names)).withColumnRenamed("value", "name")
    joined = rate(spark, partitions=1).crossJoin(table).select("value", "name")
    query = start(files(joined, tmp_path, refreshInterval="1 second"))
    assert query.awaitEpoch(1, WAIT_S)
    (tmp_path / "new").write_text("new\n")
    (tmp_path / "new").replace(names)  # whoever reads it finds the one or the other
    seen: set[str] = set()
    while "new" not in seen:
        assert query.awaitEpoch(query.status["epoch"] + 2, WAIT_S)
        seen = {r.name for r in spark.read.parquet(str(tmp_path / "out")).distinct().collect()}
    query.drain(WAIT_S)
    assert query.status["restarts"] == 0
    rows = sorted(spark.read.parquet(str(tmp_path / "out")).collect(), key=lambda row: row.value)
    assert [row.value for row in rows] == list(range(len(rows)))
    assert [row.name for row in rows] == sorted((row.name for row in rows), reverse=True)


def test_a_refresh_without_a_table_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="joined with no table"):
        files(rate(spark), tmp_path, refreshInterval="1 second").start()
    with pytest.raises(ConfigError, match="Option refreshInterval: 'often' cannot be used"):
        files(rate(spark), tmp_path, refreshInterval="often").start()
