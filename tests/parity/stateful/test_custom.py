"""The user's own functions and classes, here and in Spark's micro-batches, over the same steps.

Some of them as they are started by their users, in Spark's tasks; all of them without.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from engine import write_stream
from engine.errors import UnsupportedQueryError
from engine.sinks import memory
from tests.parity.stateful.comparing import last_of_each, run_here, views
from tests.parity.stateful.custom_queries import QUERIES, CustomQuery
from tests.parity.stateful.spark_side import hand_out, run_in_spark
from tests.parity.stateful.steps import Step, steps
from tests.spark.queries import compare_tables

pytestmark = pytest.mark.spark

WAIT_S = 60
STEPS = [*steps()[:2], steps()[-1]]
"""Spark's workers take seconds for each."""
_SETTINGS = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming"
    ".state.RocksDBStateStoreProvider",
}
FORMS = [
    "count in rows",
    "count in frames",
    "a map",
    "timers of event time",
    "timers of event time in frames",
    "an initial state in rows",
    "an initial state in frames",
    "groups: count",
    "groups: timeouts of event time",
    "groups: timeouts of processing time",
    "timers of processing time in frames",
]


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    before = {name: spark.conf.get(name) for name in _SETTINGS}
    for name, value in _SETTINGS.items():
        spark.conf.set(name, value)
    yield spark
    for name, old in before.items():
        assert old is not None
        spark.conf.set(name, old)


def made(spark: SparkSession, folder: Path, query: CustomQuery) -> DataFrame:
    folder.mkdir(exist_ok=True)
    views(spark, folder)
    return query.build(spark.sql("SELECT k, n AS g, d AS v, id AS n, at AS t FROM e0"))


def given(query: CustomQuery) -> list[Step]:
    """Where time passes between two steps, each engine makes another number of epochs of that."""
    return [STEPS[0], STEPS[-1]] if query.goes_by_clock else STEPS


def in_spark(df: DataFrame, query: CustomQuery, folder: Path) -> list[pa.Table]:
    return run_in_spark(
        df, query.output_mode, folder, given(query), goes_by_clock=query.goes_by_clock
    )


def compared(theirs: list[pa.Table], mine: list[pa.Table], query: CustomQuery) -> list[str]:
    assert theirs, "a query without a row shows nothing"
    left, right = pa.concat_tables(theirs), pa.concat_tables(mine)
    if query.output_mode == "update":
        others = [name for name in left.column_names if name not in query.keys]
        order = [*query.keys, *others]
        ((left,), (right,)) = (
            last_of_each([table.select(order)], len(query.keys)) for table in (left, right)
        )
    return compare_tables(left, right.cast(left.schema))


@pytest.mark.sampled(0.1)
@pytest.mark.parametrize("name", QUERIES)
def test_custom_queries(session: SparkSession, tmp_path: Path, name: str) -> None:
    query = QUERIES[name]
    df = made(session, tmp_path, query)
    mine = run_here(df, query.output_mode, given(query))
    theirs = in_spark(df, query, tmp_path)
    assert compared(theirs, mine, query) == []


@pytest.mark.sampled(0.05)
@pytest.mark.parametrize("name", QUERIES)
def test_keys_that_stay_in_their_partitions(
    session: SparkSession, tmp_path: Path, name: str
) -> None:
    query = QUERIES[name]
    df = made(session, tmp_path, query)
    if "initial state" in name:
        with pytest.raises(UnsupportedQueryError, match="which partition the keys of initialState"):
            run_here(df, query.output_mode, given(query), keys_stay=True)
        return
    mine = run_here(df, query.output_mode, given(query), keys_stay=True)
    assert compared(in_spark(df, query, tmp_path), mine, query) == []


@pytest.mark.sampled(0.2)
@pytest.mark.parametrize("name", FORMS)
def test_started_by_its_user(session: SparkSession, tmp_path: Path, name: str) -> None:
    query = QUERIES[name]
    folder = tmp_path / "spark"
    theirs = in_spark(made(session, folder, query), query, folder)
    folder = tmp_path / "here"
    table = "custom_" + "".join(each if each.isalnum() else "_" for each in name)
    writer = write_stream(made(session, folder, query)).format("memory").queryName(table)
    writer = writer.outputMode(query.output_mode).trigger(continuous="50 milliseconds")
    running = writer.option("checkpointLocation", str(tmp_path / "ours")).start()
    for number, step in enumerate(given(query)):
        hand_out(folder, number, step)
        running.processAllAvailable()
        # In the first one the watermark of these rows begins, which closes rows at its end.
        assert running.awaitEpoch(running.status["epoch"] + 3, WAIT_S)
    assert running.drain(WAIT_S)
    assert compared(theirs, [memory.table(table)], query) == []
