from __future__ import annotations

import pyarrow as pa
import pytest

from engine.errors import TransformError
from engine.expressions.compile import compile_expression
from engine.expressions.row_context import Rows
from engine.expressions.tree import Expr

_COLUMN = Expr("Column", (), pa.float64(), True, {"ordinal": 0})


@pytest.mark.parametrize("op", ["Ceil", "Floor"])
@pytest.mark.parametrize("value", [1e300, -1e300, 2.0**63])
def test_what_no_bigint_holds_is_an_error_where_spark_says_so(op: str, value: float) -> None:
    """As Spark 4.3 does in ANSI mode; before, it took the nearest one."""
    column = pa.array([1.5, None, float("nan"), value])
    batch = Rows(4, lambda _: column)
    strictly = Expr(op, (_COLUMN,), pa.int64(), True, {"fail_on_error": True})
    with pytest.raises(TransformError, match="ARITHMETIC_OVERFLOW"):
        compile_expression(strictly)(batch)
    nearest = 2**63 - 1 if value > 0 else -(2**63)
    one = 2 if op == "Ceil" else 1
    for params in ({}, {"fail_on_error": False}):
        evaluate = compile_expression(Expr(op, (_COLUMN,), pa.int64(), True, params))
        assert evaluate(batch).to_pylist() == [one, None, 0, nearest]
    assert compile_expression(strictly)(Rows(3, lambda _: column.slice(0, 3))).to_pylist() == [
        one, None, 0,
    ]  # fmt: skip
