"""The steps of a pipeline as one function on record batches: the hot loop of a task.

What makes it fast:

- a column that a step passes on is the same Arrow column: nothing is copied;
- behind a filter only those columns are materialised that a later step, or the sink, uses;
- a filter that keeps every row copies nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from engine.expressions import current_time
from engine.expressions.compile import compile_expression, to_array
from engine.expressions.registry import Context
from engine.expressions.tree import Expr
from engine.plan.pipeline import Filter, Pipeline, Project
from engine.task.rows import Rows

Transform = Callable[[pa.RecordBatch], pa.RecordBatch]
_Step = Callable[[Rows], Rows]


def compile_steps(pipeline: Pipeline) -> Transform:
    """What a task does to every batch that its reader returns.

    The result has exactly ``pipeline.schema``; it may have no rows. The function is not to be
    called by two threads at once.

    :raises TransformError: (the function) an expression failed on a value.
    """
    context = Context(pipeline.session_timezone)
    schema = pipeline.schema
    steps: list[_Step] = []
    trees: list[Expr] = []
    for step in pipeline.steps:
        if isinstance(step, Filter):
            steps.append(_filter(step.condition, context))
            trees.append(step.condition)
        elif isinstance(step, Project):
            steps.append(_project(step.columns, context))
            trees.extend(step.columns)
    uses_time = any(node.op in current_time.OPS for tree in trees for node in tree.walk())
    empty = _batch([pa.nulls(0, dtype) for dtype in schema.types], schema, 0)
    width = len(schema)

    def transform(batch: pa.RecordBatch) -> pa.RecordBatch:
        if uses_time:
            current_time.begin_batch()
        rows = Rows(batch.num_rows, batch.column)
        for step in steps:
            if rows.num_rows == 0:  # an expression that raises has no row to raise for
                return empty
            rows = step(rows)
        return _batch([rows.column(index) for index in range(width)], schema, rows.num_rows)

    def label(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch if batch.schema == schema else _batch(batch.columns, schema, batch.num_rows)

    return transform if steps else label


def _filter(condition: Expr, context: Context) -> _Step:
    evaluate = compile_expression(condition, context)

    def keep(rows: Rows) -> Rows:
        return rows.filter(to_array(evaluate(rows), rows.num_rows, condition.dtype))

    return keep


def _project(columns: Sequence[Expr], context: Context) -> _Step:
    evaluators = [(compile_expression(column, context), column.dtype) for column in columns]

    def compute(rows: Rows) -> Rows:
        count = rows.num_rows
        arrays = [to_array(evaluate(rows), count, dtype) for evaluate, dtype in evaluators]
        return Rows(count, arrays.__getitem__)

    return compute


def _batch(arrays: Sequence[pa.Array], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    if arrays:
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
    # A batch without columns has a number of rows all the same.
    return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
