"""What Python makes of few rows of an expression, beside what the kernels make of them."""

from __future__ import annotations

import math
import struct
from itertools import zip_longest
from typing import Any

import pyarrow as pa

from engine.expressions.few_rows import FewRows, in_python
from engine.expressions.few_values import FEW, array_of
from engine.expressions.registry import Context
from engine.expressions.row_context import Rows
from tests.spark.our_side import OurResult
from tests.spark.values import plain_values


def compare_in_python(result: OurResult, rows: Rows, context: Context) -> None:
    """What Python makes of few rows is what the kernels make of them, to the bit; each row alone,
    and those for which it makes something, together. If not, that is an error of the row."""
    compute = in_python(result.expr, context)
    if compute is None:
        return
    alone = [row for row in range(rows.num_rows) if compute(_few(rows, [row])) is not None]
    pieces = [alone[start : start + FEW] for start in range(0, len(alone), FEW)]
    for some in [[row] for row in alone] + pieces:
        values = compute(_few(rows, some))
        made = [] if values is None else plain_values(array_of(values, result.expr.dtype))
        for row, value in zip_longest(some, made):
            if row in result.errors or _bits_of(value) != _bits_of(result.values[row]):
                result.errors[row] = f"Python makes {value!r} of few rows"


def _few(rows: Rows, chosen: list[int]) -> FewRows:
    return FewRows(len(chosen), rows.taken(pa.array(chosen, pa.int32())).column)


def _bits_of(value: Any) -> Any:
    """NaN is not equal to itself, and -0.0 is equal to 0.0."""
    is_number = isinstance(value, float) and not math.isnan(value)
    return struct.pack("d", value) if is_number else str(value)
