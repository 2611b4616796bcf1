"""Constants of any type: plain data in a plan, an Arrow Scalar for kernels."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest

from engine.expressions.compile import unsupported
from engine.expressions.datum import constant
from engine.expressions.malformed import with_bytes
from engine.expressions.tree import Expr
from engine.expressions.types import TIMESTAMP, YEAR_MONTH_INTERVAL, months_value


def literal(value: Any, dtype: pa.DataType) -> Expr:
    return Expr("Literal", (), dtype, value is None, {"value": value})


TEXTS = pa.list_(pa.string())
TEXT_MAP = pa.map_(pa.string(), TEXTS)
TWINS = pa.struct([("a", pa.string()), ("a", pa.int8())])


@pytest.mark.parametrize(
    "dtype", [TEXTS, pa.list_(pa.binary()), TEXT_MAP, TWINS, pa.list_(TEXTS)], ids=str
)
def test_a_text_is_no_value_of_a_nested_type(dtype: pa.DataType) -> None:
    for text in ("[]", ""):
        (why,) = unsupported(literal(text, dtype))
        assert "a constant of the type" in why


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (b"\xff", pa.string()),
        ([], TEXTS),
        (["ü😀", b"\xffa", None, ""], TEXTS),
        ([("k", ["a", b"\xc3"]), ("l", None)], TEXT_MAP),
        ((b"\xed\xa0\x80", 1), TWINS),
        ([(), None], pa.list_(pa.struct([]))),
        ([2**62, -(2**62), None], pa.list_(TIMESTAMP)),
        ([months_value(-13), None], pa.list_(YEAR_MONTH_INTERVAL)),
        (None, TEXT_MAP),
    ],
    ids=str,
)
def test_a_constant_survives_its_way_to_the_tasks(value: Any, dtype: pa.DataType) -> None:
    expr = literal(value, dtype)
    assert unsupported(expr) == []
    there = pickle.loads(pickle.dumps(expr))
    assert there == expr
    scalar = constant(there)
    assert scalar is not None
    assert scalar.type == dtype
    due = pa.array([value], with_bytes(dtype))
    assert pa.repeat(scalar, 1).cast(due.type).equals(due)
