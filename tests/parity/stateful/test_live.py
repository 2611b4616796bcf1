"""Some of the queries as they are started by their users, in Spark's tasks, fed step by step."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from engine import write_stream
from engine.errors import ConfigError
from engine.query.writer import ContinuousStreamWriter
from engine.sinks import memory
from tests.parity.stateful.comparing import last_of_each, made
from tests.parity.stateful.spark_side import hand_out, run_in_spark
from tests.parity.stateful.steps import EVENTS, steps
from tests.parity.stateful.templates import TEMPLATES
from tests.spark.queries import compare_tables

pytestmark = pytest.mark.spark

WAIT_S = 60
BY_NAME = {template.name: template for template in TEMPLATES}
CASES = [
    ("windows sliding", "append"),
    ("windows sliding", "complete"),
    ("count(*)", "update"),
    ("sessions of five minutes", "append"),
    ("deduplicated by k", "append"),
    ("deduplicated within", "append"),
    pytest.param(
        *("windows of windows", "append"),
        marks=pytest.mark.skip(reason="it needs three task slots, and this session has two"),
    ),
]


def reading(spark: SparkSession, folder: Path) -> None:
    """The view ``e`` is what comes to the folder."""
    (folder / "events").mkdir(parents=True)
    schema = spark.createDataFrame(EVENTS.empty_table()).schema
    df = spark.readStream.schema(schema).parquet(str(folder / "events"))
    df.createOrReplaceTempView("e0")
    df.withWatermark("at", "5 minutes").createOrReplaceTempView("e")


@pytest.mark.sampled(0.3)
@pytest.mark.parametrize(("name", "mode"), CASES)
def test_fed_step_by_step(spark: SparkSession, tmp_path: Path, name: str, mode: str) -> None:
    template, given = BY_NAME[name], steps()
    reading(spark, tmp_path / "spark")
    theirs = run_in_spark(made(spark, template.sql), mode, tmp_path / "spark", given)
    reading(spark, tmp_path / "here")
    table = f"live {name} {mode}".replace(" ", "_").replace("(*)", "")
    writer = write_stream(made(spark, template.sql)).format("memory").queryName(table)
    writer = writer.outputMode(mode).trigger(continuous="50 milliseconds")
    query = writer.option("checkpointLocation", str(tmp_path / "ours")).start()
    for number, step in enumerate(given):
        hand_out(tmp_path / "here", number, step)
        query.processAllAvailable()
        # In the first one the watermark of these rows begins, which closes rows at its end.
        assert query.awaitEpoch(query.status["epoch"] + 3, WAIT_S)
    assert query.drain(WAIT_S)
    mine = memory.table(table)
    if mode == "complete":
        theirs = theirs[-1:]
    elif mode == "update":
        theirs, (mine,) = last_of_each(theirs, template.keys), last_of_each([mine], template.keys)
    wanted = pa.concat_tables(theirs)
    assert compare_tables(wanted, mine.cast(wanted.schema)) == []


def test_state_stays_with_its_engine(spark: SparkSession, tmp_path: Path) -> None:
    reading(spark, tmp_path / "in")
    df = made(spark, BY_NAME["windows sliding"].sql)
    run_in_spark(df, "append", tmp_path / "in", steps()[:2])
    of_spark = str(tmp_path / "in" / "checkpoint")
    with pytest.raises(ConfigError, match="read by Spark alone"):
        into(df, "spark_s", of_spark).trigger(continuous="100 milliseconds").start()

    ours = str(tmp_path / "ours")
    query = into(df, "ours", ours).trigger(continuous="100 milliseconds").start()
    assert query.awaitEpoch(1, WAIT_S)
    assert query.drain(WAIT_S)
    with pytest.raises(ConfigError, match="Spark's micro-batches do not read"):
        into(df, "ours", ours).trigger(processingTime="1 second").start()
    changed = made(spark, BY_NAME["windows short"].sql.replace("sum(n)", "max(n)"))
    with pytest.raises(ConfigError, match=r"stage\.aggregates: .* → .*max\(e\.n\)"):
        into(changed, "changed", ours).trigger(continuous="100 milliseconds").start()


def into(df: DataFrame, name: str, checkpoint: str) -> ContinuousStreamWriter:
    writer = write_stream(df).format("memory").queryName(name)
    return writer.option("checkpointLocation", checkpoint)
