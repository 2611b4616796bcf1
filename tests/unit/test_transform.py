"""The steps of a pipeline on record batches, without Spark."""

from __future__ import annotations

import pickle
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
import pytest

from engine.errors import TransformError
from engine.expressions.compile import compile_expression, to_array
from engine.expressions.row_context import Rows
from engine.expressions.tree import Expr
from engine.pipeline.pipeline import Filter, Pipeline, Project, SourceRelation, Step, Watermark
from engine.task.transform import compile_steps

INT = pa.int64()
BOOL = pa.bool_()
TIME = pa.timestamp("us", "UTC")
NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
SOURCE = pa.schema([("a", INT), ("b", INT), ("s", pa.string())])


def column(ordinal: int, dtype: pa.DataType = INT) -> Expr:
    return Expr("Column", (), dtype, True, {"ordinal": ordinal, "name": f"c{ordinal}"})


def literal(value: Any, dtype: pa.DataType = INT) -> Expr:
    return Expr("Literal", (), dtype, value is None, {"value": value})


def op(name: str, *children: Expr, dtype: pa.DataType = INT, mode: str = "ANSI") -> Expr:
    return Expr(name, children, dtype, True, {"eval_mode": mode})


def pipeline(*steps: Step) -> Pipeline:
    schema = next((s.schema for s in reversed(steps) if isinstance(s, Project)), SOURCE)
    return Pipeline(SourceRelation("rate", {}, SOURCE), steps, schema)


def project(*columns: Expr) -> Project:
    fields = [(f"x{index}", expr.dtype) for index, expr in enumerate(columns)]
    return Project(columns, pa.schema(fields))


def batch(a: list[int | None], b: list[int | None] | None = None) -> pa.RecordBatch:
    columns = [
        pa.array(a, INT),
        pa.array(b or a, INT),
        pa.array([f"row {index}" for index in range(len(a))], pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SOURCE)


def greater(ordinal: int, value: int) -> Filter:
    return Filter(op("GreaterThan", column(ordinal), literal(value), dtype=BOOL))


def test_no_steps_hand_the_batch_on() -> None:
    rows = batch([1, 2])
    assert compile_steps(pipeline())(rows) is rows


def test_the_result_has_the_schema_of_the_pipeline() -> None:
    schema = pa.schema([pa.field("a", INT, nullable=False), *list(SOURCE)[1:]])
    result = compile_steps(Pipeline(SourceRelation("rate", {}, SOURCE), (), schema))(batch([1]))
    assert result.schema.field("a").nullable is False


def test_a_filter_keeps_only_what_is_true() -> None:
    result = compile_steps(pipeline(greater(0, 1)))(batch([1, 2, None, 3]))
    assert result.to_pydict() == {"a": [2, 3], "b": [2, 3], "s": ["row 1", "row 3"]}


def test_a_filter_that_keeps_all_rows_copies_nothing() -> None:
    rows = batch([2, 3])
    result = compile_steps(pipeline(greater(0, 1)))(rows)
    for before, after in zip(rows.columns, result.columns, strict=True):
        assert [b and b.address for b in after.buffers()] == [
            b and b.address for b in before.buffers()
        ]


def test_a_column_that_is_passed_on_is_not_copied() -> None:
    rows = batch([2, 3])
    steps = pipeline(project(column(2, pa.string()), op("Add", column(0), literal(1))))
    result = compile_steps(steps)(rows)
    assert result.column(0).buffers()[2].address == rows.column(2).buffers()[2].address
    assert result.column(1).to_pylist() == [3, 4]


def test_columns_behind_filters_are_found_again() -> None:
    steps = pipeline(
        project(column(0), column(1), column(2, pa.string()), literal(NOON, TIME)),
        Watermark(3, 0),
        greater(1, 10),
        greater(0, 1),
        project(column(2, pa.string()), op("Add", column(1), literal(1))),
        Filter(op("LessThan", column(1), literal(100), dtype=BOOL)),
        project(column(1)),
    )
    result = compile_steps(steps)(batch([1, 2, 3, 4], [11, 12, 3, 200]))
    assert result.to_pydict() == {"x0": [13]}


def test_a_projection_of_constants_behind_a_filter_keeps_the_number_of_rows() -> None:
    steps = pipeline(greater(1, 0), greater(1, 1), project(literal(7), literal(None)))
    assert compile_steps(steps)(batch([1, 2, 3])).to_pydict() == {"x0": [7, 7], "x1": [None, None]}


def test_no_rows_raise_nothing() -> None:
    failing = op(
        "Divide", literal(1.0, pa.float64()), literal(0.0, pa.float64()), dtype=pa.float64()
    )
    transform = compile_steps(pipeline(greater(0, 100), project(failing)))
    result = transform(batch([1, 2]))
    assert result.num_rows == 0
    assert result.schema.names == ["x0"]
    with pytest.raises(TransformError, match=r"^\[DIVIDE_BY_ZERO\]"):
        transform(batch([101]))


def test_overflow_is_an_error_of_spark() -> None:
    transform = compile_steps(pipeline(project(op("Multiply", column(0), literal(2)))))
    with pytest.raises(TransformError, match=r"^\[ARITHMETIC_OVERFLOW\]"):
        transform(batch([2**62]))


@pytest.mark.parametrize("divisor", [2, 3, -3, 8])
@pytest.mark.parametrize("values", [[0, 1, 7, 2**63 - 1], [-7, -1, 5, -(2**63), None], []])
def test_remainder_of_slices(divisor: int, values: list[int | None]) -> None:
    transform = compile_steps(pipeline(project(op("Remainder", column(0), literal(divisor)))))
    expected = [None if v is None else abs(v) % abs(divisor) * (-1 if v < 0 else 1) for v in values]
    for start in range(len(values) + 1):
        rows = batch(values).slice(start)
        assert transform(rows).column(0).to_pylist() == expected[start:]


def test_a_pipeline_survives_pickling() -> None:
    steps = pipeline(greater(0, 1), project(op("Add", column(0), literal(1))))
    again = pickle.loads(pickle.dumps(steps))
    assert again == steps
    assert compile_steps(again)(batch([1, 2])).to_pydict() == {"x0": [3]}


def test_a_batch_without_columns_has_its_rows() -> None:
    steps = pipeline(greater(0, 1), Project((), pa.schema([])))
    assert compile_steps(steps)(batch([1, 2, 3])).num_rows == 2


def test_a_branch_that_may_raise_sees_only_its_rows() -> None:
    zero = op("EqualTo", column(1), literal(0), dtype=BOOL)
    choice = Expr("If", (zero, literal(-1), op("Remainder", column(0), column(1))), INT)
    steps = pipeline(greater(0, 1), project(choice))
    rows = batch([1, 7, 8, 9], [0, 4, 0, 5])
    assert compile_steps(steps)(rows).to_pydict() == {"x0": [3, -1, 4]}


def variable(name: str) -> Expr:
    return Expr("NamedLambdaVariable", (), INT, True, {"name": name})


def lambda_of(body: Expr, *names: str) -> Expr:
    return Expr("LambdaFunction", (body,), body.dtype, True, {"arguments": names})


def array_of(*columns: Expr) -> Expr:
    return op("CreateArray", *columns, dtype=pa.list_(INT))


def test_lambdas_see_columns_behind_a_filter_and_the_variables_around_them() -> None:
    inner = lambda_of(op("Add", op("Multiply", variable("v"), variable("w")), column(1)), "w")
    nested = op("ArrayTransform", array_of(column(0), literal(3)), inner, dtype=pa.list_(INT))
    outer = op(
        "ArrayTransform",
        array_of(column(0), literal(2)),
        lambda_of(nested, "v"),
        dtype=pa.list_(pa.list_(INT)),
    )
    result = compile_steps(pipeline(greater(0, 1), project(outer)))(batch([1, 5, 7], [0, 10, 20]))
    assert result.to_pydict() == {
        "x0": [[[5 * 5 + 10, 5 * 3 + 10], [2 * 5 + 10, 2 * 3 + 10]],
               [[7 * 7 + 20, 7 * 3 + 20], [2 * 7 + 20, 2 * 3 + 20]]],
    }  # fmt: skip


def test_a_branch_within_a_lambda_keeps_the_variables() -> None:
    failing = op("IntegralDivide", column(1), variable("v"))
    safe = op("If", op("EqualTo", variable("v"), literal(0), dtype=BOOL), literal(-1), failing)
    tree = op(
        "ArrayTransform", array_of(column(0), literal(2)), lambda_of(safe, "v"), dtype=pa.list_(INT)
    )
    result = compile_steps(pipeline(project(tree)))(batch([0, 5], [10, 20]))
    assert result.to_pydict() == {"x0": [[-1, 5], [4, 10]]}


def test_try_finds_the_rows_that_fail() -> None:
    tree = op("TryEval", op("IntegralDivide", literal(12), column(0)))
    transform = compile_steps(pipeline(greater(1, -1), project(tree)))
    assert transform(batch([1, 0, 3, 4, 0], [1, 1, 1, -1, 1])).to_pydict() == {
        "x0": [12, None, 4, None]
    }


class CountedRows(Rows):
    """Counts how often it is asked for a column."""

    __slots__ = ("asked",)

    def __init__(self, batch: pa.RecordBatch) -> None:
        super().__init__(batch.num_rows, batch.column)
        self.asked = 0

    def column(self, index: int | str) -> pa.Array:
        self.asked += 1
        return super().column(index)


def test_an_error_deep_inside_is_looked_for_once_a_level() -> None:
    depth = 12
    tree = op("IntegralDivide", literal(1), column(1))
    for _ in range(depth):
        tree = Expr("Add", (column(0), tree), INT, True, {"eval_mode": "ANSI", "null_safe": True})
    evaluate = compile_expression(tree)
    failing = CountedRows(batch([1, 2], [1, 0]))
    with pytest.raises(TransformError, match=r"^\[DIVIDE_BY_ZERO\]"):
        evaluate(failing)
    assert failing.asked <= 2 * (depth + 1) ** 2
    assert to_array(evaluate(CountedRows(batch([1, None], [1, 0]))), 2, INT).to_pylist() == [
        depth + 1,
        None,
    ]
