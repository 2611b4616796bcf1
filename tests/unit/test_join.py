"""The hash join of a batch with a table, without Spark."""

from __future__ import annotations

import math
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from engine.expressions.row_context import Rows
from engine.expressions.tree import Expr
from engine.pipeline.pipeline import StaticJoin
from engine.task.hash_join import join
from engine.task.pairs import PAIRS_MAX

INT = pa.int64()
STAMP = pa.timestamp("us", "UTC")


def step(kind: str, keys: list[pa.Array], table: pa.RecordBatch, *, null_safe: bool) -> StaticJoin:
    columns = tuple(
        Expr("Column", (), key.type, True, {"ordinal": index, "name": ""})
        for index, key in enumerate(keys)
    )
    return StaticJoin(kind, columns, tuple(keys), (null_safe,) * len(keys), None, table, 1)


def rows_of(*columns: pa.Array) -> Rows:
    return Rows(len(columns[0]), columns.__getitem__)


VALUES: dict[pa.DataType, list[Any]] = {
    pa.bool_(): [True, False],
    pa.int8(): [-128, 0, 127],
    INT: [-(2**63), 0, 2**63 - 1],
    pa.float32(): [0.0, -0.0, math.nan, -math.nan, math.inf],
    pa.float64(): [0.0, -0.0, math.nan, -math.nan, -math.inf, 5e-324],
    pa.date32(): [date(1970, 1, 1), date(1, 1, 1)],
    STAMP: [datetime(2020, 1, 1, tzinfo=timezone.utc), datetime(1969, 1, 1, tzinfo=timezone.utc)],
    pa.decimal128(5, 2): [Decimal("0.00"), Decimal("-1.50")],
    pa.string(): ["", "a", "ß", "a\0"],
    pa.binary(): [b"", b"\xff"],
}


def form(value: Any) -> Any:
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


@pytest.mark.parametrize("null_safe", [False, True])
@pytest.mark.parametrize("dtype", VALUES, ids=str)
def test_keys_of_every_type(dtype: pa.DataType, null_safe: bool) -> None:
    stream = pa.array([*VALUES[dtype], None, *VALUES[dtype]], dtype)
    for given in ([*VALUES[dtype][1:], None, *VALUES[dtype][1:]], VALUES[dtype][:1], [None], []):
        key = pa.array(given, dtype)
        table = pa.record_batch({"place": pa.array(range(len(key)), INT)})
        found = join(
            step("inner", [key], table, null_safe=null_safe), lambda rows: [rows.column(0)], None
        )(rows_of(stream))
        expected = [
            place
            for value in map(form, stream.to_pylist())
            for place, other in enumerate(map(form, key.to_pylist()))
            if value == other and (null_safe or value is not None)
        ]
        assert found.column(1).to_pylist() == expected


def test_slices_of_keys() -> None:
    table = pa.record_batch({"place": pa.array([0, 1], INT)})
    for values in ([5, 6, None, 7], [0.5, 6.0, None, 7.0], ["5", "6", None, "7"]):
        whole = pa.array(values)
        key = whole.slice(1, 2)
        run = join(step("inner", [key], table, null_safe=True), lambda r: [r.column(0)], None)
        assert run(rows_of(whole.slice(1))).column(1).to_pylist() == [0, 1]


@pytest.mark.parametrize("kind", ["inner", "outer", "semi", "anti"])
def test_a_condition_sees_a_limited_number_of_pairs_at_once(kind: str) -> None:
    table = pa.record_batch({"place": pa.array(range(2000), INT)})
    sizes: list[int] = []

    def residual(pairs: Rows) -> pa.Array:
        sizes.append(pairs.num_rows)
        return pc.equal(pc.multiply(pairs.column(0), 2), pairs.column(1))

    stream = pa.array([*range(998, 1002), None] * 300, INT)
    found = join(step(kind, [], table, null_safe=False), lambda rows: [], residual)(rows_of(stream))
    assert sum(sizes) == len(stream) * table.num_rows
    assert max(sizes) <= PAIRS_MAX
    expected = {"inner": [998, 999], "semi": [998, 999], "anti": [1000, 1001, None]}
    assert found.column(0).to_pylist() == expected.get(kind, [*range(998, 1002), None]) * 300
    if kind in ("inner", "outer"):
        places = [1996, 1998] if kind == "inner" else [1996, 1998, None, None, None]
        assert found.column(1).to_pylist() == places * 300
