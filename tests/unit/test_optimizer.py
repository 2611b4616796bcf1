"""An optimized pipeline has the same results, on generated pipelines and on chosen ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import TransformError
from engine.expressions.releases import SPARK_VERSION
from engine.expressions.tree import Expr
from engine.pipeline.optimizer import optimize
from engine.pipeline.pipeline import (
    Expand,
    Filter,
    Generate,
    Pipeline,
    Project,
    SourceRelation,
    StaticJoin,
    Step,
    Watermark,
    schema_behind,
)
from engine.pipeline.pruning import pruned
from engine.sources.contract import DataSourceContinuousReader
from engine.task.transform import compile_steps

INT = pa.int64()
LIST = pa.list_(INT)
SOURCE = pa.schema([("a", INT), ("b", INT), ("l", LIST)])
ROWS = pa.record_batch(
    [
        pa.array([1, 2, None, 0, 7, -3], INT),
        pa.array([0, 2, 5, None, 7, 10], INT),
        pa.array([[1], [], None, [2, None], [3, 4, 5], [0]], LIST),
    ],
    schema=SOURCE,
)
TABLE = pa.record_batch({"k": pa.array([1, 2, 2, 7], INT), "v": pa.array([10, 20, None, 70], INT)})


def column(schema: pa.Schema, index: int) -> Expr:
    field = schema.field(index)
    return Expr("Column", (), field.type, True, {"ordinal": index, "name": field.name})


def literal(value: Any, dtype: pa.DataType = INT) -> Expr:
    return Expr("Literal", (), dtype, value is None, {"value": value})


def op(name: str, *children: Expr, dtype: pa.DataType = INT) -> Expr:
    return Expr(name, children, dtype, True, {"eval_mode": "ANSI"})


def comparison(name: str, left: Expr, right: Expr) -> Expr:
    return op(name, left, right, dtype=pa.bool_())


def pipeline(*steps: Step) -> Pipeline:
    schema = SOURCE
    for step in steps:
        schema = schema_behind(step, schema)
    return Pipeline(SourceRelation("rate", {}, SOURCE), steps, schema)


def numbers(schema: pa.Schema) -> st.SearchStrategy[Expr]:
    places = [index for index, field in enumerate(schema) if field.type == INT]
    leaves = st.one_of(
        st.sampled_from([column(schema, index) for index in places]) if places else st.nothing(),
        st.integers(-2, 9).map(literal),
    )
    return st.recursive(
        leaves,
        lambda inner: (
            st.builds(
                lambda name, left, right: op(name, left, right),
                st.sampled_from(["Add", "Multiply", "Subtract", "Remainder"]),
                inner,
                inner,
            )
            | st.builds(
                lambda test, left, right: op("If", comparison("LessThan", test, left), left, right),
                inner,
                inner,
                inner,
            )
        ),
        max_leaves=6,
    )


@st.composite
def conditions(draw: st.DrawFn, schema: pa.Schema) -> Expr:
    name = st.sampled_from(["LessThan", "EqualTo", "GreaterThanOrEqual"])
    parts = draw(
        st.lists(st.tuples(name, numbers(schema), numbers(schema)), min_size=1, max_size=3)
    )
    condition = comparison(*parts[0])
    for part in parts[1:]:
        condition = op("And", condition, comparison(*part), dtype=pa.bool_())
    return condition


@st.composite
def pipelines(draw: st.DrawFn) -> Pipeline:
    steps: list[Step] = []
    schema = SOURCE
    for _ in range(draw(st.integers(1, 5))):
        kind = draw(st.sampled_from(["filter", "project", "pass", "generate", "expand", "join"]))
        lists = [index for index, field in enumerate(schema) if field.type == LIST]
        width = len(schema)
        step: Step
        if kind == "filter":
            step = Filter(draw(conditions(schema)))
        elif kind == "project":
            columns = draw(st.lists(numbers(schema), min_size=1, max_size=4))
            step = Project(tuple(columns), pa.schema([(f"p{i}", INT) for i in range(len(columns))]))
        elif kind == "pass":
            order = draw(st.permutations(range(width)))
            columns = [column(schema, index) for index in order]
            step = Project(tuple(columns), pa.schema([schema.field(index) for index in order]))
        elif kind == "generate" and lists:
            made = pa.schema([("pos", pa.int32()), ("e", INT)])
            step = Generate(
                "PosExplode", (column(schema, lists[0]),), draw(st.booleans()), made, width
            )
        elif kind == "expand":
            rows = tuple((draw(numbers(schema)), draw(numbers(schema))) for _ in range(2))
            step = Expand(rows, pa.schema([("u", INT), ("v", INT)]))
        else:
            key, how = (
                draw(numbers(schema)),
                draw(st.sampled_from(["inner", "outer", "semi", "anti"])),
            )
            step = StaticJoin(how, (key,), (TABLE["k"],), (False,), None, TABLE, width)
        steps.append(step)
        schema = schema_behind(step, schema)
    return pipeline(*steps)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(pipelines())
def test_results_are_the_same(before: Pipeline) -> None:
    after = optimize(before)
    assert after.schema == before.schema
    try:
        expected = compile_steps(before)(ROWS)
    except TransformError:
        return  # which may, but need not come any more
    assert compile_steps(after)(ROWS).to_pylist() == expected.to_pylist()


@settings(max_examples=100, deadline=None, derandomize=True)
@given(pipelines())
def test_results_are_the_same_without_needless_columns(before: Pipeline) -> None:
    asked: list[str] = []
    after, _ = pruned(before, _Reader(asked))
    names = asked or SOURCE.names
    assert after.source.schema.names == names
    assert after.schema == before.schema
    try:
        expected = compile_steps(before)(ROWS)
    except TransformError:
        return
    assert compile_steps(after)(ROWS.select(names)).to_pylist() == expected.to_pylist()


class _Reader(DataSourceContinuousReader):
    """Knows only how to leave columns out."""

    def __init__(self, asked: list[str]) -> None:
        self.asked = asked

    def initialOffset(self) -> Any:
        raise AssertionError("this reader is only pruned, never read")

    def partitions(self, start: Any) -> Any:
        raise AssertionError("this reader is only pruned, never read")

    def open(self, partition: Any, until: Any = None) -> Any:
        raise AssertionError("this reader is only pruned, never read")

    def mergeOffsets(self, offsets: Any) -> Any:
        raise AssertionError("this reader is only pruned, never read")

    def prune(self, columns: Sequence[str]) -> _Reader:
        self.asked += columns
        return self


def test_only_used_columns_are_read_and_computed() -> None:
    schema = pa.schema([("x", INT), ("y", INT)])
    both = Project((op("Add", column(SOURCE, 0), literal(1)), column(SOURCE, 1)), schema)
    one = Project((column(schema, 1),), pa.schema([("y", INT)]))
    asked: list[str] = []
    plan, _ = pruned(pipeline(both, one), _Reader(asked))
    assert asked == ["b"]
    assert [step.columns for step in plan.steps if isinstance(step, Project)] == [
        (column(pa.schema([("b", INT)]), 0),),
        (column(pa.schema([("y", INT)]), 0),),
    ]


def test_a_row_needs_a_column() -> None:
    asked: list[str] = []
    plan, _ = pruned(pipeline(Project((literal(1),), pa.schema([("one", INT)]))), _Reader(asked))
    assert asked == ["a"]
    assert compile_steps(plan)(ROWS.select(["a"]))["one"].to_pylist() == [1] * 6


def test_a_filter_moves_before_a_projection_that_passes_its_column_on() -> None:
    inverse = op("Remainder", literal(10), column(SOURCE, 0))
    projected = Project((column(SOURCE, 1), inverse), pa.schema([("b", INT), ("r", INT)]))
    condition = comparison("GreaterThanOrEqual", column(projected.schema, 0), literal(2))
    first, second = optimize(pipeline(projected, Filter(condition))).steps
    assert first == Filter(comparison("GreaterThanOrEqual", column(SOURCE, 1), literal(2)))
    assert second == projected


def test_a_filter_stays_behind_what_it_needs() -> None:
    summed = Project((op("Add", column(SOURCE, 0), literal(1)),), pa.schema([("s", INT)]))
    condition = Filter(comparison("LessThan", column(summed.schema, 0), literal(2)))
    assert optimize(pipeline(summed, condition)).steps == (summed, condition)


def test_a_filter_that_may_raise_stays_behind_its_guard() -> None:
    schema = pa.schema([("y", INT), ("a", INT)])
    projected = Project((op("Multiply", *[column(SOURCE, 0)] * 2), column(SOURCE, 0)), schema)
    guard = comparison("LessThan", literal(0), column(schema, 0))
    risky = comparison("EqualTo", op("Remainder", literal(10), column(schema, 1)), literal(0))
    plan = optimize(pipeline(projected, Filter(op("And", guard, risky, dtype=pa.bool_()))))
    assert [type(step) for step in plan.steps] == [Project, Filter, Filter]
    assert compile_steps(plan)(ROWS)["a"].to_pylist() == [1, 2]


def test_what_a_projection_computes_first_a_filter_computes_in_its_place() -> None:
    variable = Expr("NamedLambdaVariable", (), INT, True, {"name": "c"})
    positive = comparison("LessThan", literal(0), column(SOURCE, 0))
    whole = op("And", positive, comparison("EqualTo", variable, literal(0)), dtype=pa.bool_())
    tenth = op("Remainder", literal(10), column(SOURCE, 0))
    let = Expr("Let", (tenth, whole), pa.bool_(), True, {"name": "c"})
    projected = Project((let, column(SOURCE, 0)), pa.schema([("x", pa.bool_()), ("a", INT)]))
    with pytest.raises(TransformError, match="REMAINDER_BY_ZERO"):
        compile_steps(pipeline(projected))(ROWS)
    plan = optimize(pipeline(projected, Filter(column(projected.schema, 0))))
    assert [type(step) for step in plan.steps] == [Filter, Project]
    assert compile_steps(plan)(ROWS)["a"].to_pylist() == [1, 2]


def test_what_occurs_twice_is_computed_once() -> None:
    total = op("Add", column(SOURCE, 0), column(SOURCE, 1))
    columns = (op("Multiply", total, total), op("Subtract", total, literal(1)))
    schema = pa.schema([("x", INT), ("y", INT)])
    plan = optimize(pipeline(Project(columns, schema)))
    assert sum(node.op == "Add" for s in plan.steps for c in s.columns for node in c.walk()) == 1
    assert compile_steps(plan)(ROWS).schema == schema


@pytest.mark.parametrize("certain", [False, True])
def test_what_is_in_branches_only_is_not_computed_for_all_rows(certain: bool) -> None:
    ten = op("Remainder", literal(10), column(SOURCE, 0))
    zero = comparison("EqualTo", column(SOURCE, 0), literal(0))
    choice = op("If", zero, literal(-1), op("Add", ten, ten))
    columns = (choice, choice, ten) if certain else (choice, op("Add", choice, literal(1)))
    schema = pa.schema([(f"x{index}", INT) for index in range(len(columns))])
    transform = compile_steps(optimize(pipeline(Project(columns, schema))))
    if certain:
        with pytest.raises(TransformError, match="REMAINDER_BY_ZERO"):
            transform(ROWS)
    else:
        assert transform(ROWS)["x0"].to_pylist() == [0, 0, None, -1, 6, 2]


@pytest.mark.parametrize("kind", ["If", "Coalesce", "And", "CreateNamedStruct"])
def test_what_a_condition_or_a_struct_uses_again_is_computed_once(kind: str) -> None:
    total = op("Add", column(SOURCE, 0), column(SOURCE, 1))
    is_large = comparison("GreaterThan", total, literal(3))
    field = literal("t", pa.string())
    made = {
        "If": op("If", is_large, total, literal(0)),
        "Coalesce": op("Coalesce", total, op("Add", literal(1), total)),
        "And": op("And", is_large, comparison("LessThan", total, literal(9)), dtype=pa.bool_()),
        "CreateNamedStruct": op(
            "CreateNamedStruct", field, total, field, total,
            dtype=pa.struct([("t", INT), ("u", INT)]),
        ),
    }[kind]  # fmt: skip
    before = pipeline(Project((made,), pa.schema([("x", made.dtype)])))
    plan = optimize(before)
    assert sum(node == total for s in plan.steps for c in s.columns for node in c.walk()) == 1
    assert compile_steps(plan)(ROWS).equals(compile_steps(before)(ROWS))


def test_what_a_later_condition_asks_is_not_computed_for_all_rows() -> None:
    ten = op("Remainder", literal(10), column(SOURCE, 0))
    is_zero = comparison("EqualTo", column(SOURCE, 0), literal(0))
    is_large = comparison("GreaterThan", ten, literal(0))
    choice = op("CaseWhen", is_zero, literal(-1), is_large, ten, literal(0))
    found = compile_steps(optimize(pipeline(Project((choice,), pa.schema([("x", INT)])))))(ROWS)
    assert found["x"].to_pylist() == [0, 0, 0, -1, 3, 1]


def test_constants_stay_where_kernels_see_them() -> None:
    schema = pa.schema([("v", pa.string()), ("w", pa.string())])
    text = pa.string()
    pattern = op("Concat", literal("a", text), literal("b", text), dtype=text)
    columns = tuple(comparison("RLike", column(schema, index), pattern) for index in range(2))
    step = Project(columns, pa.schema([("x", pa.bool_()), ("y", pa.bool_())]))
    before = Pipeline(SourceRelation("rate", {}, schema), (step,), step.schema)
    rows = pa.record_batch([pa.array(["ab", "a"]), pa.array(["b", "cab"])], schema=schema)
    result = compile_steps(optimize(before))(rows)
    assert result.to_pydict() == {"x": [True, False], "y": [False, True]}


def test_what_a_null_skips_is_not_computed_for_all_rows() -> None:
    divided = op("Remainder", literal(10), column(SOURCE, 1))
    divided.params["null_safe"] = True
    total = op("Add", column(SOURCE, 0), divided)
    total.params["null_safe"] = True
    guarded = op(
        "If", comparison("GreaterThan", column(SOURCE, 1), literal(0)), divided, literal(0)
    )
    step = Project((total, guarded), pa.schema([("x", INT), ("y", INT)]))
    rows = pa.record_batch(
        [pa.array([None, 1], INT), pa.array([0, 3], INT), pa.nulls(2, LIST)], schema=SOURCE
    )
    result = compile_steps(optimize(pipeline(step)))(rows)
    assert result.to_pydict() == {"x": [None, 2], "y": [0, 1]}


def test_rows_that_a_filter_leaves_out_do_not_move_the_watermark() -> None:
    of_another = Filter(comparison("GreaterThan", column(SOURCE, 1), literal(2)))
    assert optimize(pipeline(Watermark(0, 0), of_another)).steps == (of_another, Watermark(0, 0))


def test_a_filter_of_the_event_time_stays_behind_its_watermark() -> None:
    of_the_time = Filter(comparison("GreaterThan", column(SOURCE, 0), literal(2)))
    assert optimize(pipeline(Watermark(0, 0), of_the_time)).steps == (Watermark(0, 0), of_the_time)


def _computed(before: Pipeline) -> list[str]:
    """What the optimized pipeline computes, node by node; its results are those of before."""
    after = optimize(before)
    assert compile_steps(after)(ROWS).to_pylist() == compile_steps(before)(ROWS).to_pylist()
    columns = [c for step in after.steps if isinstance(step, Project) for c in step.columns]
    return [node.op for each in columns for node in each.walk()]


def test_what_raises_for_no_row_is_computed_once_wherever_it_stands() -> None:
    rest = op("Remainder", column(SOURCE, 0), literal(3))
    is_negative = comparison("LessThan", rest, literal(0))
    positive = op("If", is_negative, op("Add", rest, literal(3)), rest)
    begun = op("Subtract", column(SOURCE, 0), positive)
    begun.params["null_safe"] = True  # so the remainder is not asked of every row
    computed = _computed(pipeline(Project((begun,), pa.schema([("x", INT)]))))
    assert computed.count("Remainder") == 1


def test_what_stands_twice_in_what_stands_twice_is_computed_once() -> None:
    rest = op("Remainder", column(SOURCE, 0), literal(3))
    squared = op("Multiply", rest, rest)
    columns = (squared, op("Add", squared, literal(1)))
    computed = _computed(pipeline(Project(columns, pa.schema([("x", INT), ("y", INT)]))))
    assert (computed.count("Remainder"), computed.count("Multiply")) == (1, 1)


def test_what_stands_beside_what_holds_it_twice_is_computed_once() -> None:
    rest = op("Remainder", column(SOURCE, 0), literal(3))
    larger = op("Add", rest, literal(1))
    columns = (op("Multiply", larger, larger), rest)
    computed = _computed(pipeline(Project(columns, pa.schema([("x", INT), ("y", INT)]))))
    assert (computed.count("Remainder"), computed.count("Add")) == (1, 1)


def test_what_stands_in_two_of_one_another_and_beside_them_is_computed_once() -> None:
    rest = op("Remainder", column(SOURCE, 0), literal(3))
    larger = op("Add", rest, literal(1))
    squared = op("Multiply", larger, literal(7))
    columns = (squared, op("Subtract", squared, literal(1)), rest)
    schema = pa.schema([("x", INT), ("y", INT), ("z", INT)])
    computed = _computed(pipeline(Project(columns, schema)))
    assert [computed.count(name) for name in ("Remainder", "Add", "Multiply")] == [1, 1, 1]


def test_what_is_shared_in_turn_has_names_of_its_own() -> None:
    """``continuous replay`` shows the columns of each step by their names."""
    total = op("Add", column(SOURCE, 0), column(SOURCE, 1))
    is_small = comparison("LessThan", total, literal(3))  # free once the total is a column
    is_zero = comparison("EqualTo", column(SOURCE, 0), literal(0))
    choice = op(
        "If",
        is_zero,
        op("If", is_small, literal(1), literal(2)),
        op("If", is_small, literal(3), literal(4)),
    )
    schema = pa.schema([("x", INT), ("y", INT)])
    before = pipeline(Project((total, choice), schema))
    assert _computed(before).count("LessThan") == 1
    steps = [step for step in optimize(before).steps if isinstance(step, Project)]
    assert len(steps) == 3
    for step in steps:
        assert len(set(step.schema.names)) == len(step.schema.names)


class Watched(dict[str, Any]):
    """Parameters that tell how often all of them were looked at."""

    looks = 0

    def items(self) -> Any:
        Watched.looks += 1
        return super().items()


def test_a_deep_tree_is_looked_at_once() -> None:
    """Two columns of a hundred additions would take a minute, if each were compared anew."""
    deep = column(SOURCE, 0)
    for number in range(60):
        deep = Expr("Add", (deep, literal(number + 1)), INT, True, Watched(eval_mode="ANSI"))
    columns = (deep, op("Multiply", deep, literal(7)))
    Watched.looks = 0
    plan = optimize(pipeline(Project(columns, pa.schema([("x", INT), ("y", INT)]))))
    assert len(plan.steps) == 2
    assert Watched.looks <= 4 * 60


def test_a_text_is_computed_where_it_is_asked_for() -> None:
    text = op("Cast", column(SOURCE, 0), dtype=pa.string())
    text.params.update({"timezone": "UTC", "to_type": pa.string()})
    upper = op("Upper", text, dtype=pa.string())
    upper.params[SPARK_VERSION] = "4.2.0"
    is_zero = comparison("EqualTo", column(SOURCE, 0), literal(0))
    choice = op(
        "If",
        is_zero,
        op("Concat", upper, upper, dtype=pa.string()),
        literal("", pa.string()),
        dtype=pa.string(),
    )
    plan = optimize(pipeline(Project((choice,), pa.schema([("x", pa.string())]))))
    assert plan.steps == (Project((choice,), pa.schema([("x", pa.string())])),)


def test_zero_is_not_added() -> None:
    a, zero = column(SOURCE, 0), literal(0)
    nothing = op("Subtract", op("Add", a, zero), zero)
    is_more = comparison("GreaterThan", nothing, zero)
    before = pipeline(Filter(is_more), Project((nothing,), pa.schema([("x", INT)])))
    assert "Add" not in _computed(before)
    assert "Subtract" not in _computed(before)
    assert optimize(before).steps[0] == Filter(comparison("GreaterThan", a, zero))


def test_zero_is_added_to_what_it_changes() -> None:
    double = pa.float64()
    lowest = op("Add", literal(-0.0, double), literal(0.0, double), dtype=double)
    added = op("Add", column(SOURCE, 0), literal(None))
    schema = pa.schema([("x", double), ("y", INT)])
    plan = optimize(pipeline(Project((lowest, added), schema)))
    assert plan.steps == (Project((lowest, added), schema),)
    assert str(compile_steps(plan)(ROWS)["x"][0].as_py()) == "0.0"
