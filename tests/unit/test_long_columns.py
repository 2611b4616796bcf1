"""What long columns have ways of their own for gives there what it gives for single rows."""

from __future__ import annotations

import itertools
import struct
from typing import Any

import pyarrow as pa
import pytest

from engine.errors import TransformError
from engine.expressions.buffers import LONG
from engine.expressions.compile import compile_expression, to_array
from engine.expressions.registry import Evaluator
from engine.expressions.tree import Expr

_INTEGERS = (0, 1, -1, 7, -3)
_DOUBLES = (0.0, -0.0, 1.0, -2.5, 5e-324, 1e308, float("inf"), float("-inf"), float("nan"))
_WHOLE = ["Add", "Subtract", "Multiply", "Remainder", "Pmod"]


def _edges(dtype: pa.DataType) -> list[Any]:
    if pa.types.is_floating(dtype):
        return [None, *_DOUBLES]
    limit = 1 << (dtype.bit_width - 1)
    return [None, *_INTEGERS, limit - 1, -limit, limit // 2]


def _operation(op: str, dtype: pa.DataType, mode: str) -> Expr:
    columns = (Expr("Column", (), dtype, True, {"ordinal": i, "name": f"c{i}"}) for i in (0, 1))
    return Expr(op, tuple(columns), dtype, True, {"eval_mode": mode, "null_safe": True})


def _values(expr: Expr, batch: pa.RecordBatch, evaluate: Evaluator | None = None) -> list[Any]:
    """Of doubles their bytes: NaN is not equal to itself, and -0.0 is equal to 0.0."""
    evaluate = evaluate or compile_expression(expr)
    values = to_array(evaluate(batch), batch.num_rows, expr.dtype).to_pylist()
    return [struct.pack("d", each) if isinstance(each, float) else each for each in values]


def _batch(dtype: pa.DataType, pairs: list[tuple[Any, Any]], *more: list[bool]) -> pa.RecordBatch:
    columns = [pa.array(column, dtype) for column in zip(*pairs, strict=True)]
    columns += [pa.array(each) for each in more]
    return pa.RecordBatch.from_arrays(columns, [f"c{i}" for i in range(len(columns))])


@pytest.mark.parametrize("mode", ["ANSI", "TRY", "LEGACY"])
@pytest.mark.parametrize(
    ("op", "dtype"),
    [
        *itertools.product(_WHOLE, [pa.int8(), pa.int32(), pa.int64()]),
        *itertools.product(["Divide", "Remainder", "Add"], [pa.float64()]),
        ("IntegralDivide", pa.int64()),
    ],
    ids=str,
)
def test_arithmetic_of_edges(op: str, dtype: pa.DataType, mode: str) -> None:
    expr = _operation(op, dtype, mode)
    evaluate = compile_expression(expr)
    good: list[tuple[Any, Any]] = []
    expected, errors = [], {}
    for pair in itertools.product(_edges(dtype), repeat=2):
        try:
            expected += _values(expr, _batch(dtype, [pair]), evaluate)
            good.append(pair)
        except TransformError as error:
            errors[pair] = str(error)
    times = LONG // len(good) + 1
    assert _values(expr, _batch(dtype, good * times)) == expected * times
    calm = [pair for pair in good if None not in pair and max(map(abs, pair)) < 8]
    alone = [value for pair in calm for value in _values(expr, _batch(dtype, [pair]), evaluate)]
    assert _values(expr, _batch(dtype, calm * LONG)) == alone * LONG
    for pair, message in errors.items():
        with pytest.raises(TransformError) as raised:
            _values(expr, _batch(dtype, [*good * times, pair]))
        assert str(raised.value) == message
    counts = Expr("Column", (), pa.bool_(), True, {"ordinal": 2, "name": "counts"})
    veiled = Expr("If", (counts, expr, Expr("Literal", (), dtype, True, {"value": None})), dtype)
    rows = good * times + list(errors)
    does = [True] * (len(good) * times) + [False] * len(errors)
    assert _values(veiled, _batch(dtype, rows, does)) == expected * times + [None] * len(errors)
