"""The steps of a pipeline as one function on record batches: the hot loop of a task.

What makes it fast:

- a column that a step passes on is the same Arrow column: nothing is copied;
- behind a filter only those columns are materialised that a later step uses;
- a filter that keeps every row copies nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from engine.expressions import current_time
from engine.expressions.compile import compile_expression, to_array
from engine.expressions.registry import Context
from engine.expressions.tree import Expr
from engine.plan.pipeline import Filter, Pipeline, Project, Step

Transform = Callable[[pa.RecordBatch], pa.RecordBatch]


def compile_steps(pipeline: Pipeline) -> Transform:
    """What a task does to every batch that its reader returns.

    The result has exactly ``pipeline.schema``; it may have no rows. The function is not to be
    called by two threads at once.

    :raises TransformError: (the function) an expression failed on a value.
    """
    context = Context(pipeline.session_timezone)
    functions: list[Transform] = []
    schema = pipeline.source.schema
    places = list(range(len(schema)))  # where each of the step's columns is in the real batch
    trees: list[Expr] = []
    for position, step in enumerate(pipeline.steps):
        if isinstance(step, Filter):
            condition = _moved(step.condition, places)
            kept = sorted(_needed(pipeline.steps[position + 1 :], len(places)))
            # Any one column will do to keep the number of rows.
            kept = kept or [next(index for index, place in enumerate(places) if place >= 0)]
            schema = pa.schema([schema.field(places[index]) for index in kept])
            taken = [places[index] for index in kept]
            functions.append(_filter(condition, taken, schema, context))
            trees.append(condition)
            places = [kept.index(i) if i in kept else -1 for i in range(len(places))]
        elif isinstance(step, Project):
            columns = [_moved(column, places) for column in step.columns]
            schema = step.schema
            functions.append(_project(columns, schema, context))
            trees.extend(columns)
            places = list(range(len(schema)))
    if not functions or schema != pipeline.schema:
        functions.append(_label(pipeline.schema))
    uses_time = any(node.op in current_time.OPS for tree in trees for node in tree.walk())
    return _chain(functions, pipeline.schema, uses_time)


def _chain(functions: Sequence[Transform], schema: pa.Schema, uses_time: bool) -> Transform:
    empty = _batch([pa.nulls(0, dtype) for dtype in schema.types], schema, 0)

    def apply(batch: pa.RecordBatch) -> pa.RecordBatch:
        if uses_time:
            current_time.begin_batch()
        for function in functions:
            if batch.num_rows == 0:  # an expression that raises has no row to raise for
                return empty
            batch = function(batch)
        return batch

    return apply


def _needed(steps: Sequence[Step], width: int) -> set[int]:
    """Which of ``width`` columns these steps, or the sink behind them, use."""
    needed: set[int] = set()
    for step in steps:
        if isinstance(step, Filter):
            needed |= _ordinals(step.condition)
        elif isinstance(step, Project):
            return needed.union(*(_ordinals(column) for column in step.columns))
    return set(range(width))


def _ordinals(expr: Expr) -> set[int]:
    return {node.params["ordinal"] for node in expr.walk() if node.op == "Column"}


def _moved(expr: Expr, columns: Sequence[int]) -> Expr:
    """The expression with its columns where they really are."""
    if expr.op == "Column":
        return replace(expr, params={**expr.params, "ordinal": columns[expr.params["ordinal"]]})
    return replace(expr, children=tuple(_moved(child, columns) for child in expr.children))


def _filter(
    condition: Expr, taken: Sequence[int], schema: pa.Schema, context: Context
) -> Transform:
    evaluate = compile_expression(condition, context)

    def apply(batch: pa.RecordBatch) -> pa.RecordBatch:
        mask = to_array(evaluate(batch), batch.num_rows, condition.dtype)
        selected = mask.true_count
        arrays = [batch.column(index) for index in taken]
        if selected < batch.num_rows:
            rows = pc.indices_nonzero(mask)
            arrays = [pc.take(array, rows, boundscheck=False) for array in arrays]
        return _batch(arrays, schema, selected)

    return apply


def _project(columns: Sequence[Expr], schema: pa.Schema, context: Context) -> Transform:
    evaluators = [compile_expression(column, context) for column in columns]
    types = schema.types

    def apply(batch: pa.RecordBatch) -> pa.RecordBatch:
        rows = batch.num_rows
        arrays = [
            to_array(evaluate(batch), rows, dtype)
            for evaluate, dtype in zip(evaluators, types, strict=True)
        ]
        return _batch(arrays, schema, rows)

    return apply


def _label(schema: pa.Schema) -> Transform:
    def apply(batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch.schema == schema:
            return batch
        return _batch(batch.columns, schema, batch.num_rows)

    return apply


def _batch(arrays: Sequence[pa.Array], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    if arrays:
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
    # A batch without columns has a number of rows all the same.
    return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
