"""Sketches that Spark 4.2 has made with its aggregates, and what its functions make of them.

``sketches.json``: class of the function, arguments, result. Bytes are in hexadecimal digits.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from engine.expressions.compile import compile_expression, unsupported
from engine.expressions.releases import SPARK_VERSION
from engine.expressions.row_context import Rows
from engine.expressions.tree import Expr

_CASES: Final = json.loads((Path(__file__).parent / "sketches.json").read_text())
_TYPES: Final = {str: pa.binary(), bool: pa.bool_(), int: pa.int32(), float: pa.float64()}


def _values(values: list[Any]) -> pa.Array:
    dtype = _TYPES[type(values[0])]
    plain = [bytes.fromhex(value) if dtype == pa.binary() else value for value in values]
    return pa.array(plain, dtype)


@pytest.mark.parametrize("op", _CASES)
def test_as_spark_has_it(op: str) -> None:
    if op.startswith("Hll") and importlib.util.find_spec("datasketches") is None:
        pytest.skip("needs the extra sketches")
    case = _CASES[op]
    columns = [_values(values) for values in case["arguments"]]
    if case["mode"]:
        columns.append(pa.array([case["mode"]] * len(columns[0])))
    expected = pa.array(case["results"])
    if case["binary"]:
        expected = _values(case["results"])
    children = tuple(
        Expr("Column", (), column.type, True, {"ordinal": number})
        for number, column in enumerate(columns)
    )
    node = Expr(op, children, expected.type, True, {SPARK_VERSION: "4.2.0"})
    evaluate = compile_expression(node)
    assert evaluate(Rows(len(expected), lambda number: columns[number])).equals(expected)


def test_hll_needs_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    sketch = Expr("Column", (), pa.binary(), True, {"ordinal": 0})
    (reason,) = unsupported(Expr("HllSketchEstimate", (sketch,), pa.int64()))
    assert "pip install 'airflow-provider-continuous[sketches]'" in reason
