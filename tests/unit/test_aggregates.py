"""Aggregates that are folded in parts."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from engine.errors import TransformError
from engine.execution.observed import observed_metrics
from engine.expressions.row_context import Rows
from engine.expressions.tree import Expr
from engine.pipeline import aggregates
from engine.pipeline.pipeline import (
    Aggregate,
    Filter,
    Observe,
    Pipeline,
    Project,
    SourceRelation,
)
from engine.pipeline.pruning import prune
from engine.progress.counters import EpochCounters
from engine.task.observing import Observation
from engine.task.transform import compile_steps
from engine.wire.messages import EpochCommitMessage


def column(dtype: pa.DataType, ordinal: int = 0) -> Expr:
    return Expr("Column", (), dtype, True, {"ordinal": ordinal, "name": f"c{ordinal}"})


def folded(function: str, parts: list[pa.Array], dtype: pa.DataType, mode: str = "ANSI") -> Any:
    """Each part in a task of its own."""
    aggregate = Aggregate(function, (column(parts[0].type),), dtype, mode)
    start = aggregates.initial(aggregate)
    states = [aggregates.updated(aggregate, start, [part], len(part)) for part in parts]
    return aggregates.value(aggregate, aggregates.merged(aggregate, states)).as_py()


def test_floating_numbers_are_added_one_after_the_other() -> None:
    values = [0.1] * 1000
    total = 0.0
    for each in values:
        total += each
    assert folded("Sum", [pa.array(values)], pa.float64()) == total


def test_whole_numbers_are_added_exactly() -> None:
    large = pa.array([2**63 - 1, 2**63 - 1, -(2**63), -(2**63) + 2])
    assert folded("Sum", [large, large.slice(0, 0)], pa.int64()) == 0
    with pytest.raises(TransformError, match="ARITHMETIC_OVERFLOW"):
        folded("Sum", [large.slice(0, 1), large.slice(0, 1)], pa.int64())
    assert folded("Sum", [large.slice(0, 2)], pa.int64(), "LEGACY") == -2
    assert folded("Sum", [large.slice(0, 2)], pa.int64(), "TRY") is None


def test_decimals() -> None:
    nines = pa.array([Decimal(10**38 - 1)] * 2, pa.decimal128(38, 0))
    with pytest.raises(TransformError, match="NUMERIC_VALUE_OUT_OF_RANGE"):
        folded("Sum", [nines], pa.decimal128(38, 0))
    assert folded("Sum", [nines], pa.decimal128(38, 0), "LEGACY") is None
    thirds = pa.array([Decimal("1.00"), Decimal("0.00"), Decimal("0.00")], pa.decimal128(5, 2))
    assert folded("Average", [thirds], pa.decimal128(9, 6)) == Decimal("0.333333")


@pytest.mark.parametrize("function", ["Sum", "Average", "Min", "Max"])
def test_of_no_values_there_is_none(function: str) -> None:
    nothing = pa.array([None, None], pa.float64())
    assert folded(function, [nothing, nothing], pa.float64()) is None


def test_nan_is_the_largest() -> None:
    parts = [pa.array([1.0, math.nan]), pa.array([math.nan]), pa.array([-math.inf])]
    assert math.isnan(folded("Max", parts, pa.float64()))
    assert folded("Min", parts, pa.float64()) == -math.inf
    assert math.isnan(folded("Min", parts[1:2], pa.float64()))


def test_a_batch_that_fails_counts_without_its_bad_rows() -> None:
    """It is run again in parts: no row counts twice."""
    count = Aggregate("Count", (column(pa.int64()),), pa.int64())
    observe = Observe("seen", (count,), (column(pa.int64()),), pa.schema([("n", pa.int64())]))
    hundred = Expr("Literal", (), pa.int64(), False, {"value": 100})
    quotient = Expr(
        "IntegralDivide", (hundred, column(pa.int64())), pa.int64(), True, {"eval_mode": "ANSI"}
    )
    schema = pa.schema([("c0", pa.int64())])
    steps = (observe, Project((quotient,), schema))
    pipeline = Pipeline(SourceRelation("x", {}, schema), steps, schema)

    def without_zeros(run: Any, batch: pa.RecordBatch) -> list[pa.RecordBatch | None]:
        good = []
        for start in range(batch.num_rows):
            try:
                good.append(run(batch.slice(start, 1)))
            except TransformError:
                continue
        return good

    transform = compile_steps(pipeline, without_zeros)
    batch = pa.RecordBatch.from_pydict({"c0": [1, 0, 5, 0]}, schema=schema)
    for _ in range(2):  # epochs
        list(transform.stream(iter([batch])))
        assert transform.observed() == {"seen": (2,)}


def test_pruning_keeps_what_is_observed() -> None:
    schema = pa.schema([(name, pa.int64()) for name in "abc"])
    condition = Expr("IsNotNull", (column(pa.int64(), 1),), pa.bool_(), False)
    total = Aggregate("Sum", (column(pa.int64(), 2),), pa.int64())
    observe = Observe("seen", (total,), (column(pa.int64()),), pa.schema([("t", pa.int64())]))
    kept = Project((column(pa.int64(), 0),), pa.schema([("a", pa.int64())]))
    source = SourceRelation("x", {}, schema)
    pipeline = Pipeline(source, (observe, Filter(condition), kept), kept.schema)
    narrow = prune(pipeline, [0, 1, 2])
    batch = pa.RecordBatch.from_pydict({"a": [1, 2], "b": [None, 1], "c": [10, 20]}, schema=schema)
    transform = compile_steps(narrow)
    list(transform.stream(iter([batch])))
    counters = EpochCounters(observed=transform.observed())
    report = EpochCommitMessage("r", 0, 0, (), None, counters)
    assert observed_metrics([narrow], [[report]]) == {"seen": {"t": 30}}


def test_of_no_task_it_is_that_of_no_rows() -> None:
    count = Aggregate("Count", (), pa.int64())
    observe = Observe("seen", (count,), (column(pa.int64()),), pa.schema([("n", pa.int64())]))
    schema = pa.schema([])
    pipeline = Pipeline(SourceRelation("x", {}, schema), (observe,), schema)
    assert observed_metrics([pipeline], [[]]) == {"seen": {"n": 0}}
    assert Observation(observe, [lambda rows: []])(Rows(3, lambda _: None)).num_rows == 3
