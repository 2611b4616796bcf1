"""Expressions, from a batch to what a task makes of it: µs for a batch, ns for a row of a long one.

Queries are planned by Spark from what a user would write, in ANSI mode, and run in this process
without any source or sink: the best of many calls, which knows nothing of what else runs here.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from bench.size import sized
from engine.expressions.types import schema_to_spark
from engine.plan.planner import plan_query
from engine.task.transform import compile_steps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LONG: Final = 100_000
_ROUND_S = sized(1.0, 0.3, 0.02)
"""So long a figure is measured."""


@dataclass(frozen=True)
class _Query:
    """What is measured.

    :param columns: of so many rows.
    :param select: SQL expressions; ``where`` a condition, or empty.
    :param rows: the sizes of batches.
    :param each: figures are ns for a row, not µs for a batch.
    """

    columns: Callable[[int], dict[str, Any]]
    select: Sequence[str]
    rows: Sequence[int]
    where: str = ""
    each: bool = False
    exact_math: bool = False


def _numbers(rows: int) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    a, b = rng.integers(-1000, 1000, rows), rng.integers(0, 10, rows)
    a[0], b[0] = 7, 0  # passes the filters, and the branches do not fail for it alone
    return {"a": pa.array(a), "b": pa.array(b), "s": pa.array([f"name {i}" for i in a])}


def _doubles(rows: int) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    return {"x": pa.array(rng.uniform(0.5, 9, rows)), "y": pa.array(rng.uniform(-3, 3, rows))}


def _decimals(rows: int) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    price = [Decimal(int(i)).scaleb(-4) for i in rng.integers(1, 10**12, rows)]
    return {
        "a": pa.array(price, pa.decimal128(18, 4)),
        "b": pa.array(price[::-1], pa.decimal128(18, 4)),
        "c": pa.array(price, pa.decimal128(38, 18)),
        "d": pa.array(price[::-1], pa.decimal128(38, 18)),
    }


def _records(rows: int) -> dict[str, Any]:
    texts = [
        json.dumps({"id": i, "name": f"name {i}", "price": i / 7, "ok": i % 2 == 0, "n": i % 100})
        for i in range(rows)
    ]
    return {"s": pa.array(texts)}


_RECORD: Final = "from_json(s, 'id BIGINT, name STRING, price DOUBLE, ok BOOLEAN, n INT')"
_THREE: Final = ("a * 2 AS x", "b + a AS y")
_QUERIES: Final = {
    "CASE WHEN b <> 0 THEN a / b ELSE 0 END": _Query(
        _numbers, ["CASE WHEN b <> 0 THEN a / b ELSE 0 END"], (10, _LONG)
    ),
    "IF(b <> 0, a DIV b, a * 2 + 1)": _Query(
        _numbers, ["IF(b <> 0, a DIV b, a * 2 + 1)"], (10, _LONG)
    ),
    "IF(a > 0, a * 2 + 1, a - b)": _Query(_numbers, ["IF(a > 0, a * 2 + 1, a - b)"], (10, _LONG)),
    "from_json, 5 fields": _Query(_records, [_RECORD], (1, 1_000)),
    "filter, 3 projections": _Query(
        _numbers, [*_THREE, "a - b AS z"], (1, 10, _LONG), where="a > 0"
    ),
    "filter, 3 projections, one of them upper": _Query(
        _numbers, [*_THREE, "upper(s) AS s"], (1, 10, _LONG), where="a > 0"
    ),
    "a / b of DECIMAL(18,4)": _Query(_decimals, ["a / b"], (_LONG,), each=True),
    "a / b of DECIMAL(38,18)": _Query(_decimals, ["c / d"], (_LONG,), each=True),
    "exp(y)": _Query(_doubles, ["exp(y)"], (_LONG,), each=True),
    "ln(x)": _Query(_doubles, ["ln(x)"], (_LONG,), each=True),
    "pow(x, y)": _Query(_doubles, ["pow(x, y)"], (_LONG,), each=True),
    "pow(x, y), exactMath": _Query(_doubles, ["pow(x, y)"], (_LONG,), each=True, exact_math=True),
}
ENGINES = tuple(_QUERIES)


class _Planned(DataSource):
    """A stream that is only planned."""

    @classmethod
    def name(cls) -> str:
        return "planned"

    def streamReader(self, schema: Any) -> Any:
        raise AssertionError("this stream is only planned, never read")


def figures(spark: SparkSession, query: _Query, round_s: float) -> dict[str, float]:
    """The best time for each size of a batch."""
    spark.dataSource.register(_Planned)
    spark.conf.set("spark.sql.ansi.enabled", "true")
    result = {}
    for rows in query.rows:
        table = pa.table(query.columns(rows))
        schema = StructType.fromJson(schema_to_spark(table.schema))
        df = spark.readStream.format("planned").schema(schema).load()
        df = (df.where(query.where) if query.where else df).selectExpr(*query.select)
        (pipeline,) = plan_query(df, exact_math=query.exact_math)
        best_ns = _best_ns(compile_steps(pipeline), table.to_batches()[0], round_s)
        if query.each:
            result["ns a row"] = best_ns / rows
        else:
            result[f"{rows:,} row{'s' * (rows > 1)}, µs"] = best_ns / 1_000
    return result


def _best_ns(transform: Callable[[Any], Any], batch: pa.RecordBatch, round_s: float) -> float:
    """Short ones are called some times at once, so that the clock does not count; not for longer
    than the machine leaves a process alone."""
    times = 20 if batch.num_rows <= 10 else 1
    best, end = float("inf"), time.perf_counter() + round_s
    while time.perf_counter() < end:
        start = time.perf_counter_ns()
        for _ in range(times):
            transform(batch)
        best = min(best, (time.perf_counter_ns() - start) / times)
    return best


def main(engine: str) -> None:
    """Measure one query in this process and print its figures as JSON."""
    from bench.session import session

    with session() as spark:
        print(json.dumps(figures(spark, _QUERIES[engine], _ROUND_S)))
