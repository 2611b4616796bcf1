"""Which columns of the source a pipeline uses, and the pipeline over these alone.

Works from the sink to the source: each step says what it needs of its input to make what is needed
of its output. Steps that make nothing any more are left out, functions only if they are
deterministic.

Source: Spark's ``ColumnPruning``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from engine.expressions.tree import Expr
from engine.pipeline.optimizer import moved, ordinals
from engine.pipeline.pipeline import (
    EvalPython,
    Expand,
    Filter,
    Generate,
    MapBatches,
    Observe,
    Pipeline,
    Project,
    StaticJoin,
    Step,
    Watermark,
    schema_behind,
)
from engine.sources.contract import DataSourceContinuousReader

Places = Mapping[int, int]  # from a column's old position to its new one


def pruned(
    pipeline: Pipeline, reader: DataSourceContinuousReader
) -> tuple[Pipeline, DataSourceContinuousReader]:
    """The pipeline without what nobody uses, and the reader without columns that nobody uses, if it
    can leave them out. At least one column is read, for it carries the number of rows; and so are
    those that tell which record a row is."""
    schema = pipeline.source.schema
    of_records = [i for i, name in enumerate(schema.names) if name in reader.recordColumns]
    needed = sorted({*_needed_of_source(pipeline), *of_records})
    names = [schema.names[index] for index in needed]
    narrow = reader.prune(names) if len(needed) < len(schema) else None
    if narrow is None:
        return prune(pipeline, range(len(schema))), reader
    return prune(pipeline, needed), narrow


def prune(pipeline: Pipeline, source_columns: range | list[int]) -> Pipeline:
    """The pipeline over some columns of its source, which must hold all that it uses."""
    schema = pipeline.source.schema
    places: Places = {index: place for place, index in enumerate(source_columns)}
    narrow = pa.schema([schema.field(index) for index in source_columns])
    before, present = schema, narrow
    steps: list[Step] = []
    for step, needed in zip(pipeline.steps, _needs(pipeline)[1:], strict=True):
        made = _narrowed(step, needed, places, len(before), len(present))
        before = schema_behind(step, before)
        if made is not None:
            new, places = made
            steps.append(new)
            present = schema_behind(new, present)
    if list(places.items()) != [(index, index) for index in range(len(pipeline.schema))]:
        columns = tuple(
            Expr("Column", (), f.type, f.nullable, {"ordinal": places[i], "name": f.name})
            for i, f in enumerate(pipeline.schema)
        )
        steps.append(Project(columns, pipeline.schema))
    return replace(pipeline, source=replace(pipeline.source, schema=narrow), steps=tuple(steps))


def _needed_of_source(pipeline: Pipeline) -> set[int]:
    return _needs(pipeline)[0] or {0}


def _needs(pipeline: Pipeline) -> list[set[int]]:
    """In front of each step, and at the end, the positions of the columns that are needed."""
    widths = [len(pipeline.source.schema)]
    schema = pipeline.source.schema
    for step in pipeline.steps:
        schema = schema_behind(step, schema)
        widths.append(len(schema))
    needs = [set(range(widths[-1]))]
    for step, width in zip(reversed(pipeline.steps), reversed(widths[:-1]), strict=True):
        needs.insert(0, _needed(step, needs[0], width))
    return needs


def _needed(step: Step, after: set[int], width: int) -> set[int]:
    if isinstance(step, Filter):
        return after | ordinals(step.condition)
    if isinstance(step, Watermark):
        return after | {step.ordinal}
    if isinstance(step, Observe):
        return after | _of(*step.inputs)
    if isinstance(step, Project):
        return _of(*(step.columns[index] for index in after))
    if isinstance(step, MapBatches):
        return set(range(width))
    if isinstance(step, Expand):
        return _of(*(projection[index] for projection in step.projections for index in after))
    kept = {index for index in after if index < width}
    if isinstance(step, EvalPython):
        return kept | (_of(*step.arguments) if _runs(step, after) else set())
    if isinstance(step, Generate):
        return kept | _of(*step.arguments)
    residual = set() if step.residual is None else ordinals(step.residual)
    return kept | _of(*step.keys) | {index for index in residual if index < width}


def _narrowed(
    step: Step, needed: set[int], places: Places, before: int, present: int
) -> tuple[Step, Places] | None:
    """The step over its input's new positions, and those of its output; None if it is needless."""
    if isinstance(step, Filter):
        return Filter(moved(step.condition, places)), places
    if isinstance(step, Watermark):
        return replace(step, ordinal=places[step.ordinal]), places
    if isinstance(step, Observe):
        return _observing(step, places), places
    if isinstance(step, MapBatches):
        return step, {index: index for index in range(len(step.schema))}
    if isinstance(step, (Project, Expand)):
        kept = sorted(needed)
        schema = pa.schema([step.schema.field(index) for index in kept])
        lists = [step.columns] if isinstance(step, Project) else list(step.projections)
        columns = [tuple(moved(each[index], places) for index in kept) for each in lists]
        after = {index: place for place, index in enumerate(kept)}
        if isinstance(step, Project):
            return Project(columns[0], schema), after
        return Expand(tuple(columns), schema), after
    appended = len(schema_behind(step, pa.schema([])))
    after = {**places, **{before + index: present + index for index in range(appended)}}
    if isinstance(step, StaticJoin):
        keys = tuple(moved(key, places) for key in step.keys)
        both = {**places, **{before + i: present + i for i in range(step.table.num_columns)}}
        residual = None if step.residual is None else moved(step.residual, both)
        return replace(step, keys=keys, residual=residual, width=present), after
    if isinstance(step, EvalPython) and not _runs(step, needed):
        return None
    arguments = tuple(moved(argument, places) for argument in step.arguments)
    return replace(step, arguments=arguments, width=present), after


def _observing(step: Observe, places: Places) -> Observe:
    aggregates = [
        replace(each, arguments=tuple(moved(argument, places) for argument in each.arguments))
        for each in step.aggregates
    ]
    return replace(step, aggregates=tuple(aggregates))


def _runs(step: EvalPython, needed: set[int]) -> bool:
    made = range(step.width, step.width + len(step.functions))
    return not needed.isdisjoint(made) or not all(f.deterministic for f in step.functions)


def _of(*expressions: Expr) -> set[int]:
    return {ordinal for expr in expressions for ordinal in ordinals(expr)}
