"""Nodes with the user's own state → steps: from Spark's plans, and to the stages that
these start."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor

from engine.exchange.key_groups import KeyGroups
from engine.expressions.types import schema_from_spark
from engine.functions.custom_state.spec import Processor, StateVariable
from engine.pipeline.stateful import RunCustomState
from engine.plan.catalyst import scala_seq
from engine.plan.custom_state import custom_state_step, emitting, is_custom_state
from engine.state.contract import EventClock
from tests.custom_states import GROUPS, batch_of, groups_of, rows_of
from tests.parity.stateful.custom_queries import QUERIES
from tests.spark.queries import stream_of

pytestmark = pytest.mark.spark
COLUMNS = pa.schema(
    [
        ("k", pa.string()),
        ("g", pa.int32()),
        ("v", pa.float64()),
        ("n", pa.int64()),
        ("t", pa.timestamp("us", "UTC")),
    ]
)


def node_in(plan: Any) -> Any:
    """The first node with the user's own state."""
    if is_custom_state(plan.nodeName()):
        return plan
    return next(filter(None, map(node_in, scala_seq(plan.children()))), None)


def planned(
    spark: SparkSession, df: DataFrame, *, bytes_max: int = 1 << 20
) -> tuple[RunCustomState | None, list[str]]:
    """The step, and what is in its way."""
    node = node_in(df._jdf.queryExecution().analyzed())
    problems: list[str] = []
    before = schema_from_spark(_json(node.child()))
    step = custom_state_step(
        spark, node, "custom", before, problems, event_time=None, static_side_bytes_max=bytes_max
    )
    return step, problems


def _json(plan: Any) -> Any:
    return json.loads(plan.schema().json())


def run(step: RunCustomState, *rows: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """One epoch of the stage that a step starts."""
    stage = step.start(step, EventClock(), KeyGroups(range(GROUPS), groups_of))
    batches = iter([batch_of(step.input, rows)])
    return [row for result in stage(batches) for row in rows_of(result)]


@pytest.mark.parametrize("name", QUERIES)
def test_every_query_has_its_step(spark: SparkSession, name: str) -> None:
    step, problems = planned(spark, QUERIES[name].build(stream_of(spark, COLUMNS)))
    assert problems == []
    assert step is not None
    assert step.output_mode == ("append" if QUERIES[name].output_mode == "append" else "update")
    stage = step.start(step, EventClock(), KeyGroups(range(GROUPS), groups_of))
    assert stage.tables or "without state" in name


class Telling(StatefulProcessor):
    """What it is called with."""

    def init(self, handle: Any) -> None:
        self.value = handle.getValueState("value", "n BIGINT, at STRUCT<d: DATE>", 1000)
        handle.getListState("items", "n BIGINT")
        handle.getMapState("entries", "k STRING", "v DOUBLE")
        handle.deleteIfExists("old")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
        for row in rows:
            yield Row(key=repr(key), row=repr(row))


class TellingFrames(Telling):
    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
        for frame in rows:
            yield pd.DataFrame({"key": [repr(key)], "row": [repr(list(frame.columns))]})


TOLD = "key STRING, row STRING"


def test_what_is_declared(spark: SparkSession) -> None:
    df = stream_of(spark, COLUMNS).groupBy("k")
    step, problems = planned(
        spark, df.transformWithState(Telling(), TOLD, "update", "ProcessingTime")
    )
    assert problems == []
    assert step is not None
    spec = Processor.of(step.params)
    assert spec.function.name == "Telling"
    assert spec.time_mode == "processingtime"
    assert spec.deleted == {"old"}
    kinds = [(each.name, each.kind, each.ttl_ms, each.key is None) for each in spec.variables]
    assert kinds == [
        ("value", "value", 1000, True),
        ("items", "list", None, True),
        ("entries", "map", None, False),
    ]
    assert isinstance(spec.variables[0], StateVariable)
    stage = step.start(step, EventClock(), KeyGroups(range(GROUPS), groups_of))
    assert [table.name for table in stage.tables] == ["value", "items", "entries", "$procTimers"]


def test_which_columns_the_user_gets(spark: SparkSession) -> None:
    df = stream_of(spark, pa.schema([("k", pa.string()), ("n", pa.int64())]))
    by_k = df.groupBy("k")
    step, _ = planned(spark, by_k.transformWithState(Telling(), TOLD, "update", "ProcessingTime"))
    assert step is not None
    assert run(step, ("a", "a", 1)) == [("('a',)", "Row(k='a', n=1)")]
    step, _ = planned(
        spark, by_k.transformWithStateInPandas(TellingFrames(), TOLD, "update", "ProcessingTime")
    )
    assert step is not None
    assert run(step, ("a", "a", 1)) == [("('a',)", "['k', 'n']")]


def test_the_event_time_of_results(spark: SparkSession) -> None:
    df = QUERIES["chained by its event time"].build(stream_of(spark, COLUMNS))
    step, _ = planned(spark, df)
    assert step is not None
    assert Processor.of(emitting(step, 2).params).emitted_time == 2


class Raising(Telling):
    def init(self, handle: Any) -> None:
        raise KeyError("nothing there")


class Doubtful(Telling):
    def init(self, handle: Any) -> None:
        handle.getValueState("old", "n BIGINT")
        handle.getValueState("month", "i INTERVAL MONTH, v VARIANT")
        handle.deleteIfExists("old")


def _by_k(
    processor: StatefulProcessor, time_mode: str = "None"
) -> Callable[[DataFrame], DataFrame]:
    return lambda df: df.groupBy("k").transformWithState(processor, TOLD, "update", time_mode)


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (_by_k(Raising()), "init() failed: KeyError: 'nothing there'"),
        (_by_k(Telling()), "Cannot use TTL for state=value in timeMode=None"),
        (_by_k(Doubtful()), "declares and deletes old"),
        (_by_k(Doubtful()), "the values of the state variable month"),
    ],
)
def test_what_is_refused(
    spark: SparkSession, build: Callable[[DataFrame], DataFrame], reason: str
) -> None:
    _, problems = planned(spark, build(stream_of(spark, COLUMNS)))
    assert any(reason in problem for problem in problems), problems


def test_the_type_of_an_initial_states_key(spark: SparkSession) -> None:
    start = spark.createDataFrame([(1, 5)], "k INT, n INT").groupBy("k")
    df = stream_of(spark, COLUMNS).select("k", F.lit(1).alias("n")).groupBy("k")
    query = df.transformWithState(Telling(), TOLD, "update", "ProcessingTime", start)
    _, problems = planned(spark, query)
    assert any("its grouping columns have to be of the types" in each for each in problems)
