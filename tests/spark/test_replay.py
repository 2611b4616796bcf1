"""Epochs of real queries, run again: what came in, what the steps made of it, what went out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor

from engine import replay_epoch, write_stream
from engine.checkpoint.checkpoint import Checkpoint
from engine.errors import ConfigError, SourceError, TransformError
from engine.execution.definition import QueryDefinition
from engine.execution.execution import ContinuousExecution
from engine.execution.launcher import ThreadLauncher
from engine.query.handle import ContinuousQuery
from engine.query.planned import plan_request
from engine.sinks.adapter import PlainTaskWriter
from engine.sinks.contract import DriverSink, SinkBinding
from tests.shelf import ShelfSource, calls, put
from tests.simulation.test_replay import contents
from tests.sink_files import committed

pytestmark = pytest.mark.spark
WAIT_S = 60


class Shop:
    """Sales arrive as files, and go to files."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        (folder / "in").mkdir()
        self.checkpoint = Checkpoint(str(folder / "checkpoint"))

    def sell(self, name: str, *amounts: int) -> None:
        lines = [json.dumps({"item": f"{name}{n}", "amount": n}) for n in amounts]
        (self.folder / name).write_text("\n".join(lines))
        (self.folder / name).rename(self.folder / "in" / f"{name}.json")

    def read(self, **options: Any) -> DataFrame:
        reader = self.spark.readStream.schema("item STRING, amount BIGINT").options(**options)
        return reader.json(str(self.folder / "in"))

    def writer(self, df: DataFrame, **options: Any) -> Any:
        return (
            write_stream(df)
            .format("parquet")
            .option("path", str(self.folder / "out"))
            .option("checkpointLocation", str(self.folder / "checkpoint"))
            .options(**options)
            .trigger(continuous="100 milliseconds")
        )

    def run(self, df: DataFrame, *sales: tuple[int, ...], **options: Any) -> list[int]:
        """Run the query, one epoch at least for each; those that have read something."""
        # The last hundred reports are kept: with empty epochs they would be those of ten seconds.
        kept = {"minEpochsToRetain": 1_000, "emptyEpochInterval": "1 minute"}
        query = self.writer(df, **kept, **options).start()
        for number, amounts in enumerate(sales):
            self.sell("abc"[number], *amounts)
            query.processAllAvailable()
        assert query.drain(WAIT_S)
        reports = self.checkpoint.progress.read()
        return [each["batchId"] for each in reports if each["numInputRows"]]


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path) -> Shop:
    return Shop(spark, tmp_path)


def large(df: DataFrame, least: int) -> DataFrame:
    twice = F.udf(lambda amount: 2 * amount, "bigint")
    return df.where(F.col("amount") >= least).select("item", twice("amount").alias("twice"))


def test_what_came_in_what_was_made_of_it_and_what_went_out(shop: Shop) -> None:
    first, second = shop.run(large(shop.read(), 10), (1, 10), (5, 20, 30))
    before = contents(shop.folder)
    changed = shop.writer(large(shop.read(), 25))
    found = replay_epoch(
        shop.checkpoint, second, shop.writer(large(shop.read(), 10)), changed=changed, rows=2
    )
    assert contents(shop.folder) == before, "not a byte of the checkpoint or the sink"
    assert found.out.sort_by("twice").to_pylist() == [
        {"item": "b20", "twice": 40},
        {"item": "b30", "twice": 60},
    ]
    assert found.difference is not None
    assert found.difference.only_before.to_pylist() == [{"item": "b20", "twice": 40}]
    assert found.difference.only_after.num_rows == 0
    (pipeline,) = found.to_dict()["pipelines"]  # type: ignore[misc]
    assert pipeline["came_in"]["rows"] == 3
    assert [step["rows"] for step in pipeline["steps"]][-1] == 2
    assert all(len(t["shown"]) <= 2 for step in pipeline["steps"] for t in step["shown"])
    text = str(found)
    assert "3 → 2 rows" in text
    assert "Only out of the query: 1 row" in text
    assert json.loads(json.dumps(found.to_dict()))["epoch"] == second
    earlier = replay_epoch(
        str(shop.folder / "checkpoint"), first, shop.writer(large(shop.read(), 10))
    )
    assert earlier.out.to_pylist() == [{"item": "a10", "twice": 20}]
    assert earlier.changed is None


def test_counts_go_on_from_the_state_of_the_epoch_before(shop: Shop) -> None:
    def writer() -> Any:  # built anew each time, as by another program
        counts = shop.read().groupBy("item").agg(F.sum(F.col("amount") + 0).alias("sum"))
        return (
            write_stream(counts)
            .format("memory")
            .queryName("replayed_counts")
            .outputMode("complete")
            .option("checkpointLocation", str(shop.folder / "checkpoint"))
            .option("minEpochsToRetain", 1_000)
            .trigger(continuous="100 milliseconds")
        )

    query = writer().start()
    for name in ("first", "second"):
        lines = [json.dumps({"item": item, "amount": 1}) for item in ("x", "x", name)]
        (shop.folder / name).write_text("\n".join(lines))
        (shop.folder / name).rename(shop.folder / "in" / f"{name}.json")
        query.processAllAvailable()
    assert query.drain(WAIT_S)
    epoch = max(r["batchId"] for r in shop.checkpoint.progress.read() if r["numInputRows"] == 3)
    before = contents(shop.folder)
    found = replay_epoch(shop.checkpoint, epoch, writer())
    sums = {row["item"]: row["sum"] for row in found.out.to_pylist()}
    assert sums == {"x": 4, "first": 1, "second": 1}
    assert contents(shop.folder) == before


def test_another_query_is_refused_and_told_what_differs(shop: Shop) -> None:
    (epoch,) = shop.run(large(shop.read(), 10), (1, 10))
    with pytest.raises(ConfigError, match=r"not the query.*source\.steps"):
        replay_epoch(shop.checkpoint, epoch, shop.writer(large(shop.read(), 11)))
    rate = shop.spark.readStream.format("rate").load()
    with pytest.raises(ConfigError, match=r"changed query cannot .*source\.format"):
        replay_epoch(
            shop.checkpoint,
            epoch,
            shop.writer(large(shop.read(), 10)),
            changed=shop.writer(rate),
        )


def test_a_changed_query_may_count_from_the_first_epoch_on_alone(shop: Shop) -> None:
    plain = shop.read().select("item")
    epochs = shop.run(plain, (1, 10), (2,))
    counts = write_stream(shop.read().groupBy("item").count()).format("noop").outputMode("update")
    with pytest.raises(ConfigError, match="steps with state"):
        replay_epoch(shop.checkpoint, epochs[-1], shop.writer(plain), changed=counts)


def test_epochs_that_are_not_there_are_refused(shop: Shop) -> None:
    plain = shop.read().select("item")
    (epoch,) = shop.run(plain, (1, 10))
    with pytest.raises(ConfigError, match=r"these can: 0 to \d+"):
        replay_epoch(shop.checkpoint, epoch + 1_000, shop.writer(plain))
    open_one = shop.checkpoint.epochs()[-1] + 1
    with pytest.raises(ConfigError, match=r"where it ends is not .*dead-letters") as refused:
        replay_epoch(shop.checkpoint, open_one, shop.writer(plain))
    assert refused.value.epoch == open_one
    with pytest.raises(ConfigError, match="no checkpoint"):
        replay_epoch(str(shop.folder / "elsewhere"), 0, shop.writer(plain))


def test_what_the_source_does_not_have_any_more_is_told(shop: Shop) -> None:
    plain = shop.read().select("item", "amount")
    (epoch,) = shop.run(plain, (1, 10))
    (shop.folder / "in" / "a.json").write_text('{"item":"x","amount":1}')
    with pytest.raises(SourceError, match="has read 2 records, and its source has 1"):
        replay_epoch(shop.checkpoint, epoch, shop.writer(plain))
    shop.sell("b", 1)  # else the folder would be one that is not mounted
    (shop.folder / "in" / "a.json").unlink()
    forgiving = shop.read(ignoreMissingFiles="true").select("item", "amount")
    for read in (plain, forgiving):  # as the query may be told to go on without
        with pytest.raises(SourceError, match=r"cannot be run again: .*a\.json") as refused:
            replay_epoch(shop.checkpoint, epoch, shop.writer(read))
        assert "choose a later epoch" in str(refused.value.hint)


def test_a_socket_is_refused_before_anything_is_connected(spark: SparkSession, shop: Shop) -> None:
    plain = shop.read().select("item")
    (epoch,) = shop.run(plain, (1,))
    lines = spark.readStream.format("socket").option("host", "localhost").option("port", 9).load()
    with pytest.raises(ConfigError, match=r"socket\[.* cannot be read again"):
        replay_epoch(shop.checkpoint, epoch, write_stream(lines).format("noop"))


def test_state_that_is_gone_is_told(shop: Shop) -> None:
    counts = shop.read().groupBy("item").count()

    def writer() -> Any:
        return (
            write_stream(counts)
            .format("noop")
            .outputMode("update")
            .option("checkpointLocation", str(shop.folder / "checkpoint"))
            .trigger(continuous="100 milliseconds")
        )

    query = writer().start()
    shop.sell("a", 1, 2)
    query.processAllAvailable()
    shop.sell("b", 3)
    query.processAllAvailable()
    assert query.drain(WAIT_S)
    for path in (shop.folder / "checkpoint" / "state").rglob("*.arrow"):
        path.unlink()
    with pytest.raises(ConfigError, match=r"without the state .*\.arrow is gone"):
        replay_epoch(shop.checkpoint, shop.checkpoint.committed_epoch(), writer())


def test_chance_and_time_are_noted(shop: Shop) -> None:
    lucky = shop.read().select("item", F.rand().alias("luck"), F.current_timestamp().alias("at"))
    (epoch,) = shop.run(lucky, (1, 10))
    found = replay_epoch(shop.checkpoint, epoch, shop.writer(lucky))
    assert len(found.notes) == 2
    assert found.notes[0].startswith("Rand")
    assert "CurrentTimestamp" in found.notes[1]
    assert "Note: Rand" in str(found)


def test_a_changed_query_that_fails_on_the_epoch_says_where(shop: Shop) -> None:
    plain = shop.read().select("item", "amount")
    (epoch,) = shop.run(plain, (1, 0))
    changed = shop.writer(shop.read().select(F.expr("1 / amount").alias("quotient")))
    with pytest.raises(TransformError, match="DIVIDE_BY_ZERO"):
        replay_epoch(shop.checkpoint, epoch, shop.writer(plain), changed=changed)
    assert sorted(committed(shop.folder / "out", "amount")) == [0, 1]


def test_sources_of_others_are_read_again_and_told_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    spark.dataSource.register(ShelfSource)
    shelf = tmp_path / "shelf"

    def writer() -> Any:
        return (
            write_stream(spark.readStream.format("shelf").option("path", str(shelf)).load())
            .format("noop")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .option("minEpochsToRetain", 1_000)
            .trigger(continuous="100 milliseconds")
        )

    put(shelf, 3)
    query = writer().start()
    query.processAllAvailable()
    put(shelf, 4)
    query.processAllAvailable()
    assert query.drain(WAIT_S)
    epoch = max(each["batchId"] for each in query.recentProgress if each["numInputRows"])
    committed_then = calls(shelf, "commit")
    put(shelf, 5)
    found = replay_epoch(str(tmp_path / "checkpoint"), epoch, writer())
    assert sorted(row["id"] for row in found.out.to_pylist()) == [3, 4, 5, 6]
    assert calls(shelf, "commit") == committed_then


class Total(StatefulProcessor):
    def init(self, handle: Any) -> None:
        self.total = handle.getValueState("total", "amount BIGINT")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        (before,) = self.total.get() or (0,)
        now = before + sum(row.amount for row in rows)
        self.total.update((now,))
        yield Row(item=key[0], total=now)

    def close(self) -> None:
        return None


def test_functions_of_all_kinds_and_state_of_ones_own(shop: Shop) -> None:
    @F.pandas_udf("bigint")
    def plus_one(amount: pd.Series) -> pd.Series:
        return amount + 1

    def doubled(frames: Any) -> Any:
        for frame in frames:
            frame["amount"] = 2 * frame["amount"]
            yield frame

    def totals() -> DataFrame:
        df = shop.read().select("item", plus_one("amount").alias("amount"))
        df = df.mapInPandas(doubled, "item STRING, amount BIGINT")
        df = df.select(F.substring("item", 1, 0).alias("item"), "amount")
        return df.groupBy("item").transformWithState(
            Total(), "item STRING, total BIGINT", outputMode="Update", timeMode="None"
        )

    def writer() -> Any:
        return shop.writer(totals(), path=None).format("noop").outputMode("update")

    query = writer().option("minEpochsToRetain", 1_000).start()
    for number, amounts in enumerate(((1, 2), (3,))):
        shop.sell("ab"[number], *amounts)
        query.processAllAvailable()
    assert query.drain(WAIT_S)
    epoch = max(each["batchId"] for each in query.recentProgress if each["numInputRows"])
    before = contents(shop.folder)
    found = replay_epoch(shop.checkpoint, epoch, writer())
    assert found.out.to_pylist() == [{"item": "", "total": 4 + 6 + 8}]
    assert contents(shop.folder) == before
    assert "EvalPython plus_one" in str(found)


def _ignored(messages: Any, epoch: int) -> None: ...


def _consumed(batches: Any) -> None:
    for _ in batches:
        pass


def started_on_threads(writer: Any, checkpoint: Checkpoint) -> ContinuousQuery:
    """The query, with more tasks than the session of the tests has slots."""
    planned = plan_request(writer.request)
    definition = QueryDefinition(
        name=None,
        streams=planned.streams,
        stages=planned.stages,
        sink=SinkBinding(DriverSink(_ignored, _ignored), PlainTaskWriter(_consumed), "nothing"),
        checkpoint=checkpoint,
        epoch_interval_ms=100,
        options=planned.options,
        shuffle_partitions=2,
    )
    execution = ContinuousExecution(definition, ThreadLauncher())
    execution.start()
    return ContinuousQuery(execution, str)


def test_both_sides_of_a_join_and_of_a_union_are_shown(shop: Shop) -> None:
    left = shop.read().select("amount", F.col("item").alias("sold"))
    right = shop.read().where("amount > 1").select("amount", F.col("item").alias("bought"))
    joined = left.join(right, "amount").select("sold", "bought")
    more = shop.read().select(F.col("item").alias("sold"), F.lit("-").alias("bought"))

    def writer() -> Any:
        return shop.writer(joined.unionByName(more))

    query = started_on_threads(writer(), shop.checkpoint)
    shop.sell("a", 1, 2)
    query.processAllAvailable()
    assert query.drain(WAIT_S)
    epoch = next(each["batchId"] for each in query.recentProgress if each["numInputRows"])
    last = max(each["batchId"] for each in query.recentProgress if each["numInputRows"])
    rows = []
    for number in range(epoch, last + 1):
        found = replay_epoch(shop.checkpoint, number, writer())
        rows += [tuple(row.values()) for row in found.out.to_pylist()]
    assert sorted(rows) == [("a1", "-"), ("a2", "-"), ("a2", "a2")]
    assert "JoinStreams" in str(found)


def test_a_batch_that_spark_itself_has_run(shop: Shop) -> None:
    def writer(least: int) -> Any:
        return shop.writer(large(shop.read(), least)).trigger(availableNow=True)

    for name, amounts in (("a", (1, 10)), ("b", (5, 20, 30))):
        shop.sell(name, *amounts)
        assert writer(10).start().awaitTermination(WAIT_S)
    before = contents(shop.folder)
    found = replay_epoch(shop.checkpoint, 1, writer(10), changed=writer(25))
    assert sorted(row["twice"] for row in found.out.to_pylist()) == [40, 60]
    assert found.difference is not None
    assert found.difference.only_before.to_pylist() == [{"item": "b20", "twice": 40}]
    assert contents(shop.folder) == before
    (note,) = found.notes
    assert "does not tell its query" in note
