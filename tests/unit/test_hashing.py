"""Hashes of columns whose values differ much in length."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from engine.expressions.compile import compile_expression
from engine.expressions.row_context import Rows
from engine.expressions.tree import Expr


@pytest.mark.parametrize("dtype", [pa.binary(), pa.list_(pa.int32())], ids=str)
@pytest.mark.parametrize(("op", "out"), [("Murmur3Hash", pa.int32()), ("XxHash64", pa.int64())])
def test_a_long_value_among_short_ones(op: str, out: pa.DataType, dtype: pa.DataType) -> None:
    draw = random.Random(7)
    lengths = [*range(70), 0, 5_003, 3, 64, 801]
    draw.shuffle(lengths)
    values: list[bytes | None] = [draw.randbytes(length) for length in lengths]
    column = pa.array([*values, None, b"end"], pa.binary())
    if dtype != pa.binary():
        column = pa.array([v and list(v) for v in column.to_pylist()], dtype)
    evaluate = compile_expression(
        Expr(op, (Expr("Column", (), dtype, True, {"ordinal": 0}),), out, False, {"seed": 42})
    )
    together = evaluate(Rows(len(column), lambda _: column)).to_pylist()
    alone = [
        evaluate(Rows(1, lambda _, row=row: column.slice(row, 1)))[0].as_py()
        for row in range(len(column))
    ]
    assert together == alone
    assert len(set(together)) >= 70
