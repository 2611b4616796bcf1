"""``percentile`` and ``approx_percentile`` beyond what the model of all aggregates covers."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from engine.errors import TransformError
from engine.expressions.releases import SPARK_VERSION
from engine.pipeline.stateful import Aggregate
from engine.state.aggregates.functions import why_not
from tests.unit.test_grouped_aggregates import (
    DOUBLE,
    LONG,
    Rows,
    aggregate,
    column,
    folded,
    list_of,
    literal,
    results,
)

OLD_SPARK, NEW_SPARK = {SPARK_VERSION: "4.2.1"}, {SPARK_VERSION: "4.3.0"}


def test_percentiles() -> None:
    """As Spark 4.2 answers."""

    def percentile(wanted: Any, rows: list[Any], **params: Any) -> Any:
        is_list = isinstance(wanted, list)
        dtype = list_of(DOUBLE) if is_list else DOUBLE
        percentage = literal(wanted, pa.list_(DOUBLE) if is_list else DOUBLE)
        arguments = (column(LONG), percentage, column(LONG, 2))
        what = Aggregate("Percentile", arguments, dtype, params={**OLD_SPARK, **params})
        fold = folded(what, [[(1, (value, None, count)) for value, count in rows]])
        return results(fold)[:2]

    once = [(9, 1), (1, 1), (5, 1)]
    assert percentile([0.1, 0.5, 0.99], once) == [None, [1.8, 5.0, 8.92]]
    assert percentile(0.3, [(1, 2), (5, 1), (9, 0)]) == [None, 1.0]
    assert percentile(0.25, once, reverse=True) == [None, 7.0]
    assert percentile(0.3, [(1, 1), (2, 1)]) == [None, 1.2999999999999998]
    assert percentile(0.3, [(1, 1), (2, 1)], **NEW_SPARK) == [None, 1.3]
    with pytest.raises(TransformError, match="NEGATIVE_VALUES_IN_FREQUENCY_EXPRESSION"):
        percentile(0.3, [(1, -2)])


def test_approximate_percentiles_pass_through_doubles() -> None:
    far, near = 2**63 - 1, 2**53 + 1
    what = Aggregate("ApproximatePercentile", (column(LONG), literal(1.0, DOUBLE)), LONG)
    rows: list[Rows] = [[(0, (near, None)), (1, (far, None)), (1, (3, None)), (2, (None, None))]]
    assert results(folded(what, rows))[:3] == [2**53, far, None]
    several = literal([0.0, 0.3, 1.0], list_of(DOUBLE))
    what = Aggregate("ApproximatePercentile", (column(DOUBLE), several), list_of(DOUBLE))
    rows = [[(1, (value, None)) for value in (4.0, 1.0, 3.0, 2.0, -0.5)]]
    assert results(folded(what, rows))[:2] == [None, [-0.5, 1.0, 4.0]]
    what = aggregate("ApproximatePercentile", [pa.decimal128(16, 2), DOUBLE], DOUBLE)
    assert why_not(what) == "the percentage has to be constant"
