"""Which columns of the source a pipeline uses, and the pipeline over these alone.

Works from the sink to the source: each step says what it needs of its input to make what is needed
of its output. Steps that make nothing any more are left out, functions only if they are
deterministic.

Source: Spark's ``ColumnPruning``.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    Tap,
    Watermark,
    schema_behind,
)
from engine.pipeline.stateful import Exchanged, JoinStreams, PartGroup, StatefulStep
from engine.pipeline.stateful_columns import Places, needed_sides, over
from engine.sources.contract import DataSourceContinuousReader


def pruned(
    pipeline: Pipeline, reader: DataSourceContinuousReader
) -> tuple[Pipeline, DataSourceContinuousReader]:
    """The pipeline without what nobody uses, and the reader without columns that nobody uses, if it
    can leave them out. At least one column is read, for it carries the number of rows; and so are
    those that tell which record a row is."""
    schema = pipeline.source.schema
    of_records = [i for i, name in enumerate(schema.names) if name in reader.recordColumns]
    (used,) = needed_of_source(pipeline)
    needed = sorted({*used, *of_records})
    names = [schema.names[index] for index in needed]
    narrow = reader.prune(names) if len(needed) < len(schema) else None
    if narrow is None:
        return prune(pipeline, range(len(schema))), reader
    return prune(pipeline, needed), narrow


def prune(pipeline: Pipeline, source_columns: Sequence[int]) -> Pipeline:
    """The pipeline over some columns of its source, which must hold all that it uses."""
    return prune_to(pipeline, [source_columns])


def prune_to(
    pipeline: Pipeline,
    inputs: Sequence[Sequence[int]] | None,
    outputs: Sequence[int] | None = None,
) -> Pipeline:
    """The pipeline over some columns of each of its inputs, and with some of its own.

    :param inputs: must hold all that it uses; None: all columns stay.
    :param outputs: None: all.
    """
    schemas = _inputs(pipeline)
    if inputs is None:
        inputs = [range(len(schema)) for schema in schemas]
    if outputs is None:
        outputs = range(len(pipeline.schema))
    sides: list[Places] = [{old: new for new, old in enumerate(each)} for each in inputs]
    narrow = [
        pa.schema([schema.field(index) for index in each])
        for schema, each in zip(schemas, inputs, strict=True)
    ]
    places, before, present = sides[0], schemas[0], narrow[0]
    steps: list[Step] = []
    needs = _needs(pipeline, outputs)[1:]
    for number, (step, needed) in enumerate(zip(pipeline.steps, needs, strict=True)):
        if isinstance(step, PartGroup | StatefulStep):
            made: tuple[Step, Places] | None = over(step, sides if number == 0 else [places])
        else:
            made = _narrowed(step, needed, places, len(before), len(present))
        before = schema_behind(step, before)
        if made is not None:
            new, places = made
            steps.append(new)
            present = schema_behind(new, present)
    schema = pa.schema([pipeline.schema.field(index) for index in outputs])
    wanted = {old: new for new, old in enumerate(outputs)}
    if places != wanted or len(present) != len(schema):
        columns = tuple(
            Expr("Column", (), f.type, f.nullable, {"ordinal": places[i], "name": f.name})
            for i, f in zip(outputs, schema, strict=True)
        )
        steps.append(Project(columns, schema))
    source = pipeline.source
    if isinstance(source, Exchanged):
        source = replace(source, sides=tuple(narrow))
    else:
        source = replace(source, schema=narrow[0])
    return replace(pipeline, source=source, steps=tuple(steps), schema=schema)


def needed_of_source(pipeline: Pipeline) -> list[set[int]]:
    """Of each of its inputs, the positions of the columns that it uses; at least one."""
    needs = _needs(pipeline, range(len(pipeline.schema)))
    sides = [needs[0]]
    if len(_inputs(pipeline)) > 1:
        first = pipeline.steps[0]
        assert isinstance(first, JoinStreams), "nothing else has two inputs"
        sides = needed_sides(first, needs[1], len(pipeline.source.schema))
    return [side or {0} for side in sides]


def _inputs(pipeline: Pipeline) -> tuple[pa.Schema, ...]:
    source = pipeline.source
    return source.sides if isinstance(source, Exchanged) else (source.schema,)


def _needs(pipeline: Pipeline, outputs: Sequence[int]) -> list[set[int]]:
    """In front of each step, and at the end, the positions of the columns that are needed; of a
    join of two streams, those of the left."""
    widths = [len(pipeline.source.schema)]
    schema = pipeline.source.schema
    for step in pipeline.steps:
        schema = schema_behind(step, schema)
        widths.append(len(schema))
    needs = [set(outputs)]
    for step, width in zip(reversed(pipeline.steps), reversed(widths[:-1]), strict=True):
        needs.insert(0, _needed(step, needs[0], width))
    return needs


def _needed(step: Step, after: set[int], width: int) -> set[int]:
    if isinstance(step, PartGroup | StatefulStep):
        return needed_sides(step, after, width)[0]
    if isinstance(step, Filter):
        return after | ordinals(step.condition)
    if isinstance(step, Watermark):
        return after | {step.ordinal}
    if isinstance(step, Observe):
        return after | _of(*step.inputs)
    if isinstance(step, Project):
        return _of(*(step.columns[index] for index in after))
    if isinstance(step, MapBatches | Tap):
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
    assert not isinstance(step, PartGroup | StatefulStep), "see stateful_columns"
    if isinstance(step, Filter):
        return Filter(moved(step.condition, places)), places
    if isinstance(step, Watermark):
        return replace(step, ordinal=places[step.ordinal]), places
    if isinstance(step, Observe):
        return _observing(step, places), places
    if isinstance(step, Tap):
        return step, places
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
