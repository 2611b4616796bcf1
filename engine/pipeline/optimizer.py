"""A pipeline with the same results and less work. Pure: a pipeline in, a pipeline out.

- Filters move to the front: before projections, functions and generators whose results they do not
  need. So a function does not see a row that a filter beside it drops, as in Spark. Most are there
  already: see :mod:`engine.plan.spark_rules`.
- A row that a generator drops, for its list is empty, is dropped before something raises for it.
- Subexpressions that occur several times in one step are computed once per batch.
- Zero is not added, nor subtracted: Spark's windows do so several times each.
- Columns that nobody uses are not computed, and not read where the reader can leave them out.

What may raise is never computed for a row, or for a column, that would not have needed it before,
nor is what can tell by other means for which rows it was computed.
As in Spark, it may be that an error does not come any more: that of a column that nobody uses, or
of a row that is dropped later.

Constant subtrees are computed when they are compiled, see :mod:`engine.expressions.compile`.

Source: Spark's ``ExtractPythonUDFs``, ``InferFiltersFromGenerate``, ``ColumnPruning``,
``EquivalentExpressions``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from engine.expressions.compile import evaluation_order, may_raise
from engine.expressions.datum import constant_value, minds_rows
from engine.expressions.registry import KERNELS
from engine.expressions.tree import NONDETERMINISTIC, Expr
from engine.pipeline.pipeline import (
    EvalPython,
    Filter,
    Generate,
    Pipeline,
    Project,
    StaticJoin,
    Step,
    Watermark,
    schema_behind,
)

_BOUND: Final = frozenset({"LambdaFunction", "NamedLambdaVariable"})
"""Nodes whose meaning depends on what stands above them."""


def optimize(pipeline: Pipeline) -> Pipeline:
    """The same results with less work; the source's columns stay."""
    steps = [_without_zeros(step) for step in pipeline.steps]
    return replace(pipeline, steps=tuple(_share(_push_filters(steps), pipeline.source.schema)))


# -- filters ------------------------------------------------------------------------------------


def _push_filters(steps: list[Step]) -> list[Step]:
    done: list[Step] = []
    for step in steps:
        if isinstance(step, Filter):
            for condition in conjuncts(step.condition):
                position, condition = _placed(done, condition)
                done.insert(position, Filter(condition))
            continue
        if isinstance(step, Generate) and (has_elements := _has_elements(step)) is not None:
            position, has_elements = _placed(done, has_elements)
            if any(_may_raise(passed) for passed in done[position:]):
                done.insert(position, Filter(has_elements))
        done.append(step)
    return done


def _placed(steps: Sequence[Step], condition: Expr) -> tuple[int, Expr]:
    """Where a filter goes: behind all the steps, or as far before as it may; and how it reads
    there. It passes another filter only on its way to the front of something else, and only if it
    cannot raise: the other filter may be there to keep rows away from it."""
    position = best = len(steps)
    moving: Expr | None = condition
    while position and moving is not None:
        position -= 1
        step = steps[position]
        if isinstance(step, Filter):
            if may_raise(condition) or not is_deterministic(step.condition):
                break
        elif (moving := _before(step, moving)) is not None:
            best, condition = position, moving
    return best, condition


def _before(step: Step, condition: Expr) -> Expr | None:
    """The condition in terms of the step's input; None if it must stay behind the step."""
    if not is_deterministic(condition):
        return None
    if isinstance(step, Project):
        return _through(step.columns, condition)
    if isinstance(step, Watermark):  # a row that is filtered out does not move it, as in Spark
        return None if step.ordinal in ordinals(condition) else condition
    if isinstance(step, EvalPython) and not all(f.deterministic for f in step.functions):
        return None
    if isinstance(step, (Generate, StaticJoin)) and may_raise(condition):
        return None  # it would for a row that the step drops
    if isinstance(step, (EvalPython, Generate, StaticJoin)):
        return condition if all(ordinal < step.width for ordinal in ordinals(condition)) else None
    return None


def _through(columns: Sequence[Expr], condition: Expr) -> Expr | None:
    """The condition in front of a projection. What it needs is computed twice then: that is worth
    it if it keeps rows away from what may raise. What the projection computes first, the condition
    computes in its places, as Spark's does, and raises for fewer rows."""
    used = ordinals(condition)
    others = (column for ordinal, column in enumerate(columns) if ordinal not in used)
    if not all(is_deterministic(column) for column in columns):
        return None
    ops = {columns[ordinal].op for ordinal in used}
    if ops <= {"Column"} or "Let" in ops or any(map(may_raise, others)):
        return _substituted(condition, [_in_place(column) for column in columns])
    return None


def _in_place(expr: Expr) -> Expr:
    """What is computed before it where it is used."""
    if expr.op != "Let":
        return expr
    value, body = expr.children
    return _in_place(_bound(body, expr.params["name"], value))


def _bound(expr: Expr, name: str, value: Expr) -> Expr:
    if expr.op == "NamedLambdaVariable" and expr.params["name"] == name:
        return value
    return replace(expr, children=tuple(_bound(child, name, value) for child in expr.children))


def _has_elements(step: Generate) -> Expr | None:
    """What is true of the rows that a generator keeps (Spark's ``InferFiltersFromGenerate``)."""
    if step.outer or step.generator == "Stack":
        return None
    size = Expr("Size", step.arguments, pa.int32(), True, {"legacy_size_of_null": False})
    zero = Expr("Literal", (), pa.int32(), False, {"value": 0})
    return Expr("GreaterThan", (size, zero), pa.bool_(), True)


def _may_raise(step: Step) -> bool:
    return isinstance(step, Project) and any(map(may_raise, step.columns))


def conjuncts(condition: Expr) -> list[Expr]:
    """The parts of a condition that all have to be true."""
    if condition.op != "And" or not is_deterministic(condition):
        return [condition]
    return [each for child in condition.children for each in conjuncts(child)]


# -- zeros ----------------------------------------------------------------------------------------


def _without_zeros(step: Step) -> Step:
    if isinstance(step, Project):
        return replace(step, columns=tuple(map(_simplified, step.columns)))
    if isinstance(step, Filter):
        return Filter(_simplified(step.condition))
    return step


def _simplified(expr: Expr) -> Expr:
    """Whole numbers alone: -0.0 + 0 is another number than -0.0, and a decimal has a new scale."""
    expr = replace(expr, children=tuple(map(_simplified, expr.children)))
    if expr.op in ("Add", "Subtract") and pa.types.is_integer(expr.dtype):
        left, right = expr.children
        if constant_value(right) == 0 and left.dtype == expr.dtype:
            return left
    return expr


# -- common subexpressions ------------------------------------------------------------------------


def _share(steps: Sequence[Step], schema: pa.Schema, known: _Known | None = None) -> list[Step]:
    known = known or _Known()
    done: list[Step] = []
    for step in steps:
        if isinstance(step, Project):
            while common := _common(step.columns, known):
                width, before = len(schema), schema
                fields = [pa.field(f"__common_{i}", e.dtype) for i, e in enumerate(common, width)]
                schema = pa.schema([*schema, *fields])
                shared = Project((*columns_at(schema, range(width)), *common), schema)
                done += _share([shared], before, known)  # they may hold something twice, too
                places = {known(each).key: width + index for index, each in enumerate(common)}
                columns = tuple(_shared(each, places, known) for each in step.columns)
                step = replace(step, columns=columns)
        done.append(step)
        schema = schema_behind(step, schema)
    return done


def _common(columns: Sequence[Expr], known: _Known) -> list[Expr]:
    """The subtrees that occur twice or more, not only within larger ones that do, and at least once
    where they are evaluated for every row, or that may be evaluated for any: then nothing is raised
    that was not raised before, and nothing dear is computed for rows that do not ask for it.
    Constants stay where they are: some kernels need to know their value."""
    counts: Counter[int] = Counter()
    always: dict[int, Expr] = {}

    def visit(expr: Expr, certain: bool) -> None:
        facts = known(expr)
        if expr.op == "Column" or expr.op in _BOUND or not facts.reads:
            return
        counts[facts.key] += 1
        if certain or facts.is_free:
            always.setdefault(facts.key, expr)
        for_each_row = KERNELS[expr.op].always if expr.op in KERNELS else 0
        for index in evaluation_order(expr):
            visit(expr.children[index], certain and index < for_each_row)
            certain = certain and not expr.params.get("null_safe")

    for column in columns:
        visit(column, True)
    found = {key: expr for key, expr in always.items() if counts[key] > 1 and known(expr).is_fixed}
    outermost: set[int] = set()

    def look(expr: Expr) -> None:
        facts = known(expr)
        if facts.key in found:
            outermost.add(facts.key)
        elif expr.op not in _BOUND:
            for child in expr.children:
                look(child)

    for column in columns:
        look(column)
    return [expr for key, expr in found.items() if key in outermost]


def _shared(expr: Expr, places: Mapping[int, int], known: _Known) -> Expr:
    ordinal = places.get(known(expr).key)
    if ordinal is not None:
        params = {"ordinal": ordinal, "name": f"__common_{ordinal}"}
        return Expr("Column", (), expr.dtype, expr.nullable, params)
    children = tuple(_shared(child, places, known) for child in expr.children)
    changed = any(new is not old for new, old in zip(children, expr.children, strict=True))
    return replace(expr, children=children) if changed else expr


@dataclass(frozen=True)
class _Facts:
    """What is asked of a subtree again and again.

    :param key: the same of equal ones, and of no others.
    :param reads: a column.
    :param is_fixed: it has the same value wherever it stands, and whenever it is computed.
    :param is_free: it may be computed for any row: it is harmless, and cheap.
    """

    key: int
    reads: bool
    is_fixed: bool
    is_free: bool


class _Known:
    """The facts of each subtree, found once, from those of its children: trees are deep."""

    def __init__(self) -> None:
        self._keys: dict[tuple[object, ...], int] = {}
        self._facts: dict[int, tuple[Expr, _Facts]] = {}
        """By ``id``; that of an object which is held here is no other's."""

    def __call__(self, expr: Expr) -> _Facts:
        found = self._facts.get(id(expr))
        if found is None:
            found = self._facts[id(expr)] = expr, self._look(expr)
        return found[1]

    def _look(self, expr: Expr) -> _Facts:
        below = [self(child) for child in expr.children]
        params = repr(sorted(expr.params.items(), key=str))
        shape = (expr.op, str(expr.dtype), params, *(each.key for each in below))
        return _Facts(
            self._keys.setdefault(shape, len(self._keys)),
            expr.op == "Column" or any(each.reads for each in below),
            expr.op not in NONDETERMINISTIC | _BOUND and all(each.is_fixed for each in below),
            _is_free(expr) and all(each.is_free for each in below),
        )


def _is_free(node: Expr) -> bool:
    """Without its children. Cheap are numbers and times: no text, no decimal, nothing nested."""
    kernel = KERNELS.get(node.op)
    return (
        kernel is not None
        and pa.types.is_primitive(node.dtype)
        and not kernel.can_fail(node)
        and not minds_rows(node)
    )


# -- trees --------------------------------------------------------------------------------------


def ordinals(expr: Expr) -> set[int]:
    """The positions of the columns that a tree reads."""
    return {node.params["ordinal"] for node in expr.walk() if node.op == "Column"}


def moved(expr: Expr, places: Mapping[int, int]) -> Expr:
    """The tree over columns that stand elsewhere."""
    if expr.op == "Column":
        return replace(expr, params={**expr.params, "ordinal": places[expr.params["ordinal"]]})
    return replace(expr, children=tuple(moved(child, places) for child in expr.children))


def _substituted(expr: Expr, columns: Sequence[Expr]) -> Expr:
    """The tree over what the columns are computed from."""
    if expr.op == "Column":
        ordinal: int = expr.params["ordinal"]
        return columns[ordinal]
    children = tuple(_substituted(child, columns) for child in expr.children)
    return replace(expr, children=children)


def is_deterministic(expr: Expr) -> bool:
    """Whether it has the same value whenever it is computed."""
    return not any(node.op in NONDETERMINISTIC for node in expr.walk())


def columns_at(schema: pa.Schema, places: Sequence[int]) -> tuple[Expr, ...]:
    """The columns at these positions, passed on."""
    return tuple(
        Expr("Column", (), schema.field(i).type, schema.field(i).nullable,
             {"ordinal": i, "name": schema.field(i).name})
        for i in places
    )  # fmt: skip
