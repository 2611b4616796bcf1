"""Steps that make one batch out of one, compiled: see :mod:`engine.task.transform`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import pyarrow as pa

from engine.expressions.few_rows import FewRows, in_python
from engine.expressions.few_values import FEW, Values, array_of, listed
from engine.expressions.registry import Context
from engine.expressions.row_context import Rows
from engine.expressions.tree import Expr
from engine.pipeline.pipeline import (
    IDLE,
    BatchStream,
    EvalPython,
    Expand,
    Filter,
    Generate,
    Observe,
    Project,
    StaticJoin,
    Step,
    Watermark,
)
from engine.task.column_batches import as_batch
from engine.task.evaluation import columns_of, computed, mask_of
from engine.task.event_times import EventTimes
from engine.task.generate import expand, generate
from engine.task.hash_join import join
from engine.task.observing import Observation

Steps = Callable[[pa.RecordBatch], pa.RecordBatch | None]
OnFailure = Callable[[Steps, pa.RecordBatch], Sequence[pa.RecordBatch | None]]
RowsStep = Callable[[Rows], Rows]
Watching: TypeAlias = Observation | EventTimes
Arguments = Callable[[Rows], pa.RecordBatch]


def batch_by_batch(
    steps: Sequence[Step],
    schema: pa.Schema,
    context: Context,
    on_failure: OnFailure | None = None,
    watching: list[Watching] | None = None,
) -> BatchStream:
    """A row of steps; batches that end up without rows are left out.

    :param schema: of the results.
    :param on_failure: gets the steps and the batch that they have failed on, and returns the
        results of its rows that are good, or raises.
    :param watching: gets what looks at the rows, and changes none.
    """
    compiled = [each for step in steps if (each := _compile(step, context)) is not None]
    observing = [each for each in compiled if isinstance(each, (Observation, EventTimes))]
    if watching is not None:
        watching += observing
    width = len(schema)

    def compute(batch: pa.RecordBatch) -> pa.RecordBatch | None:
        few = batch.num_rows <= FEW
        rows = (FewRows if few else Rows)(batch.num_rows, batch.column)
        for step in compiled:
            if rows.num_rows == 0:  # an expression that raises has no row to raise for
                return None
            rows = step(rows)
        if rows.num_rows == 0:
            return None
        return as_batch([rows.column(index) for index in range(width)], schema, rows.num_rows)

    def run(batch: pa.RecordBatch) -> pa.RecordBatch | None:
        for each in observing:
            each.begin_batch()
        result = compute(batch)
        for each in observing:
            each.keep()
        return result

    def stream(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch is IDLE:
                yield batch
                continue
            try:
                results: Sequence[pa.RecordBatch | None] = (run(batch),)
            except Exception:
                if on_failure is None:
                    raise
                results = on_failure(run, batch)
            for result in results:
                if result is not None:
                    yield result

    return stream


def evaluate_arguments(arguments: Sequence[Expr], context: Context) -> Arguments:
    """The columns that functions get, as a batch with the names ``_0``, ``_1``..."""
    compute = columns_of(arguments, context)
    schema = pa.schema([(f"_{index}", each.dtype) for index, each in enumerate(arguments)])
    return lambda rows: as_batch(compute(rows), schema, rows.num_rows)


def _compile(step: Step, context: Context) -> RowsStep | None:
    if isinstance(step, Filter):
        return _filter(step.condition, context)
    if isinstance(step, Project):
        return _project(step.columns, context)
    if isinstance(step, EvalPython):
        return _functions(step, context)
    if isinstance(step, Generate):
        return generate(step, columns_of(step.arguments, context))
    if isinstance(step, StaticJoin):
        residual = None if step.residual is None else mask_of(step.residual, context)
        return join(step, columns_of(step.keys, context), residual)
    if isinstance(step, Observe):
        return Observation(step, [columns_of(each.arguments, context) for each in step.aggregates])
    if isinstance(step, Watermark):
        return EventTimes(step)
    if isinstance(step, Expand):
        return expand([columns_of(each, context) for each in step.projections])
    return None


def _filter(condition: Expr, context: Context) -> RowsStep:
    mask = computed(condition, context)

    def keep(rows: Rows) -> Rows:
        kept = mask(rows)
        if isinstance(rows, FewRows) and isinstance(kept, list):
            return rows.kept(kept)
        return rows.filter(kept)

    return keep


def _project(columns: Sequence[Expr], context: Context) -> RowsStep:
    """Columns that are passed on are not touched before somebody asks for them."""
    passed = {i: c.params["ordinal"] for i, c in enumerate(columns) if c.op == "Column"}
    types = [column.dtype for column in columns]
    if not passed and not any(in_python(column, context) for column in columns):
        every = columns_of(columns, context)
        return lambda rows: type(rows)(rows.num_rows, every(rows).__getitem__)
    compute = {i: computed(c, context) for i, c in enumerate(columns) if i not in passed}

    def project(rows: Rows) -> Rows:
        made = {index: of_rows(rows) for index, of_rows in compute.items()}

        def load(index: int) -> pa.Array:
            if index in passed:
                return rows.column(passed[index])
            values = made[index]
            return array_of(values, types[index]) if isinstance(values, list) else values

        if not isinstance(rows, FewRows):
            return Rows(rows.num_rows, load)

        def load_values(index: int) -> Values | None:
            if index in passed:
                return rows.values(passed[index])
            values = made[index]
            return values if isinstance(values, list) else listed(values)

        return FewRows(rows.num_rows, load, load_values)

    return project


def _functions(step: EvalPython, context: Context) -> RowsStep:
    arguments = evaluate_arguments(step.arguments, context)
    call = step.start(step)

    def append(rows: Rows) -> Rows:
        results = list(call(iter((arguments(rows),))))
        result = results[0] if len(results) == 1 else pa.concat_batches(results)
        return rows.extended(step.width, result.columns)

    return append
