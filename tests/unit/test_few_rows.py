"""Few rows are computed in Python, with the results of the kernels; those have all that is rare."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa
import pytest

from engine.errors import TransformError
from engine.expressions.few_rows import FewRows, in_python
from engine.expressions.few_values import FEW, array_of
from engine.expressions.registry import Context
from engine.expressions.releases import SPARK_VERSION
from engine.expressions.tree import Expr
from engine.expressions.types import TIMESTAMP
from engine.expressions.vectors import to_list
from engine.pipeline.pipeline import Filter, Pipeline, Project, SourceRelation, Step
from engine.task.transform import compile_steps

INT, BOOL, TEXT, DOUBLE = pa.int64(), pa.bool_(), pa.string(), pa.float64()
SOURCE = pa.schema(
    [("a", INT), ("b", INT), ("s", TEXT), ("x", DOUBLE), ("t", BOOL), ("d", TIMESTAMP)]
)
HIGHEST = 2**63 - 1
PLAIN = {
    "a": [7, -7, 0, 3, HIGHEST // 4, -5],
    "b": [2, 3, -1, -2, 1, 10],
    "s": ["b", "ä", "", "straße", "z" * 20, "\U00010000"],
    "x": [0.5, -0.0, float("nan"), float("inf"), 1e308, 5e-324],
    "t": [True, False, True, True, False, False],
    "d": [0, -1, 10**15, 2**62, -(2**62), 1_700_000_000_123_456],
}


def column(name: str) -> Expr:
    ordinal = SOURCE.get_field_index(name)
    params = {"ordinal": ordinal, "name": name}
    return Expr("Column", (), SOURCE.field(name).type, True, params)


def literal(value: Any, dtype: pa.DataType = INT) -> Expr:
    return Expr("Literal", (), dtype, value is None, {"value": value})


def op(name: str, *children: Expr, dtype: pa.DataType = INT, mode: str = "ANSI") -> Expr:
    params = {"eval_mode": mode, "null_safe": True, "time_zone_id": "UTC", SPARK_VERSION: "4.2.0"}
    return Expr(name, children, dtype, True, params)


A, B, S, X, T, D = (column(name) for name in "absxtd")
POSITIVE = op("GreaterThan", A, literal(0), dtype=BOOL)
NOT_ZERO = op("Not", op("EqualTo", A, literal(0), dtype=BOOL), dtype=BOOL)
SIMPLE = {
    "column": A,
    "sum": op("Add", A, B),
    "difference": op("Subtract", op("Multiply", A, literal(2)), B),
    "of doubles": op("Multiply", op("Subtract", X, X, dtype=DOUBLE), X, dtype=DOUBLE),
    "quotient": op(
        "Divide", op("Cast", A, dtype=DOUBLE), op("Cast", B, dtype=DOUBLE), dtype=DOUBLE
    ),
    "whole quotient": op("IntegralDivide", A, B),
    "remainder": op("Remainder", A, B),
    "of a moment": op("Remainder", op("PreciseTimestampConversion", D), literal(10_000_000)),
    "moment": op("PreciseTimestampConversion", A, dtype=TIMESTAMP),
    "moment of milliseconds": op("MillisToTimestamp", B, dtype=TIMESTAMP),
    "moment of microseconds": op("MicrosToTimestamp", A, dtype=TIMESTAMP),
    "seconds": op("UnixSeconds", D),
    "milliseconds": op("UnixMillis", D),
    "later": op("GreaterThan", D, literal(5, TIMESTAMP), dtype=BOOL),
    "narrower": op("Cast", B, dtype=pa.int8()),
    "text of a number": op("Cast", A, dtype=TEXT),
    "comparison": op("LessThanOrEqual", A, B, dtype=BOOL),
    "of texts": op("LessThan", S, literal("z", TEXT), dtype=BOOL),
    "of booleans": op("GreaterThanOrEqual", T, POSITIVE, dtype=BOOL),
    "same": op("EqualNullSafe", A, B, dtype=BOOL),
    "both": op("And", POSITIVE, op("Or", T, NOT_ZERO, dtype=BOOL), dtype=BOOL),
    "null": op("IsNull", A, dtype=BOOL),
    "not null": op("IsNotNull", A, dtype=BOOL),
    "upper": op("Upper", S, dtype=TEXT),
    "lower": op("Lower", S, dtype=TEXT),
    "if": op("If", POSITIVE, op("Add", A, B), op("Subtract", A, B)),
    "case": op("CaseWhen", POSITIVE, B, T, A, literal(-1)),
    "branch that is not taken": op("If", NOT_ZERO, op("IntegralDivide", B, A), literal(0)),
}
LEFT_TO_KERNELS = {
    "beyond": op("Multiply", A, literal(8)),
    "on its way beyond": op(
        "Subtract", op("Multiply", A, literal(8)), op("Multiply", A, literal(8))
    ),
    "moment beyond": op("SecondsToTimestamp", A, dtype=TIMESTAMP),
    "too narrow": op("Cast", A, dtype=pa.int8()),
    "by zero": op("IntegralDivide", B, A),
    "rest by zero": op("Remainder", B, A),
    "by zero of doubles": op("Divide", X, op("Cast", A, dtype=DOUBLE), dtype=DOUBLE),
}
NO_FORM = {
    "NaN is in no order": op("LessThan", X, literal(1.0, DOUBLE), dtype=BOOL),
    "NULL otherwise": op("CaseWhen", POSITIVE, A),
    "a NULL": op("Add", A, literal(None)),
    "no formula": op("Add", A, op("Length", S, dtype=INT)),
    "of another type": op("Cast", A, dtype=pa.float32()),
    "no column": literal(1),
}


def batch(**columns: list[Any]) -> pa.RecordBatch:
    values = PLAIN | columns
    rows = len(next(iter(columns.values()))) if columns else len(PLAIN["a"])
    arrays = [pa.array(values[field.name][:rows], field.type) for field in SOURCE]
    return pa.RecordBatch.from_arrays(arrays, schema=SOURCE)


def in_few(expr: Expr, of: pa.RecordBatch) -> list[Any] | None:
    compute = in_python(expr, Context())
    assert compute is not None
    return compute(FewRows(of.num_rows, of.column))


def pipeline(*steps: Step) -> Pipeline:
    schema = next((s.schema for s in reversed(steps) if isinstance(s, Project)), SOURCE)
    return Pipeline(SourceRelation("rate", {}, SOURCE), steps, schema)


def project(*columns: Expr) -> Project:
    return Project(columns, pa.schema([(f"x{i}", each.dtype) for i, each in enumerate(columns)]))


def bits(table: pa.RecordBatch) -> list[list[Any]]:
    table.validate(full=True)
    return [
        [struct.pack("d", v) if isinstance(v, float) else v for v in to_list(column)]
        for column in table.columns
    ]


def alike(steps: Pipeline, of: pa.RecordBatch) -> list[list[Any]]:
    """The results of few rows, which are those of the same rows of a long batch."""
    few = bits(compile_steps(steps)(of))
    times = FEW + 1
    longer = pa.Table.from_batches([of] * times).combine_chunks().to_batches()[0]
    long = bits(compile_steps(steps)(longer))
    assert [column * times for column in few] == long
    return few


@pytest.mark.parametrize("name", SIMPLE)
def test_a_simple_tree(name: str) -> None:
    expr = SIMPLE[name]
    values = in_few(expr, batch())
    assert values is not None  # or Python would have nothing to say of it, ever
    assert array_of(values, expr.dtype).type == expr.dtype
    alike(pipeline(project(expr)), batch())


@pytest.mark.parametrize("name", LEFT_TO_KERNELS)
def test_an_error_is_left_to_the_kernels(name: str) -> None:
    expr = LEFT_TO_KERNELS[name]
    assert in_few(expr, batch()) is None
    with pytest.raises(TransformError):
        compile_steps(pipeline(project(expr)))(batch())
    tried = Expr(expr.op, expr.children, expr.dtype, True, {**expr.params, "eval_mode": "TRY"})
    if name not in ("on its way beyond", "moment beyond"):
        alike(pipeline(project(tried)), batch())


@pytest.mark.parametrize("name", NO_FORM)
def test_a_tree_without_a_form(name: str) -> None:
    assert in_python(NO_FORM[name], Context()) is None


@pytest.mark.parametrize("name", SIMPLE)
def test_nulls_are_left_to_the_kernels(name: str) -> None:
    expr = SIMPLE[name]
    of = batch(**{each: [None, *values[1:]] for each, values in PLAIN.items()})
    assert in_few(expr, of) is None
    alike(pipeline(project(expr)), of)


def test_a_filter_in_front() -> None:
    steps = pipeline(
        Filter(POSITIVE), project(op("Add", A, B), op("Upper", S, dtype=TEXT), T, X, S, A, POSITIVE)
    )
    sums, upper, *_, positive = alike(steps, batch())
    assert sums == [9, 1, HIGHEST // 4 + 1]
    assert upper == ["B", "STRASSE", "Z" * 20]
    assert positive == [True] * 3


def test_columns_with_nulls_pass_a_filter() -> None:
    of = batch(b=[None, 1, 2, 3, None, 5], s=[None, "a", None, "b", "c", None])
    assert alike(pipeline(Filter(POSITIVE)), of)[:3] == [
        [7, 3, HIGHEST // 4],
        [None, 3, None],
        [None, "b", "c"],
    ]


def test_nothing_is_copied_if_all_rows_are_kept() -> None:
    of = batch(a=[1, 2, 3])
    result = compile_steps(pipeline(Filter(POSITIVE)))(of)
    assert [c.buffers()[-1].address for c in result.columns] == [
        c.buffers()[-1].address for c in of.columns
    ]


def test_no_row_is_left() -> None:
    steps = pipeline(Filter(POSITIVE), project(op("IntegralDivide", A, literal(0))))
    assert compile_steps(steps)(batch(a=[0, -1])).num_rows == 0


def test_what_is_computed_is_filtered() -> None:
    steps = pipeline(
        project(op("Add", A, B), S, op("Upper", S, dtype=TEXT)),
        Filter(Expr("GreaterThan", (A, literal(5)), BOOL, True)),
    )
    assert alike(steps, batch()) == [[9, HIGHEST // 4 + 1], ["b", "z" * 20], ["B", "Z" * 20]]


def test_slices() -> None:
    steps = pipeline(Filter(POSITIVE), project(op("Add", A, B), S, NOT_ZERO, T))
    whole = batch()
    for start in range(whole.num_rows):
        alike(steps, whole.slice(start))


def test_a_text_that_is_no_utf8() -> None:
    octets = pa.array([b"a\xff", b"b", b"c"], pa.binary()).view(TEXT)
    of = batch(a=[1, 0, 2]).set_column(2, "s", octets)
    result = compile_steps(pipeline(Filter(POSITIVE), project(op("Lower", S, dtype=TEXT), S)))(of)
    assert result.column(1).cast(pa.binary()).to_pylist() == [b"a\xff", b"c"]
    assert in_few(op("Lower", S, dtype=TEXT), of) is None


def test_a_constant_that_is_no_utf8() -> None:
    constant = op("Cast", literal(b"\xff", pa.binary()), dtype=TEXT)
    steps = pipeline(
        project(
            op("EqualTo", S, constant, dtype=BOOL),
            op("LessThan", S, constant, dtype=BOOL),
            op("Cast", op("If", POSITIVE, S, constant, dtype=TEXT), dtype=pa.binary()),
        )
    )
    assert alike(steps, batch(s=["\ufffd", "b", "\U00010000"], a=[1, 0, 0])) == [
        [False] * 3,
        [True] * 3,
        [b"\xef\xbf\xbd", b"\xff", b"\xff"],
    ]


def test_a_tree_that_is_too_deep() -> None:
    expr = A
    for _ in range(200):
        expr = op("Add", expr, literal(1))
    assert in_python(expr, Context()) is None
    alike(pipeline(project(expr)), batch(a=[1, 2]))
