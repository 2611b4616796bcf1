"""Which columns the steps with state need, and these steps over fewer columns.

Aggregates need all that is sent to them: their inputs are computed for them. Deduplications and
joins carry along what others need.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from engine.expressions.tree import Expr
from engine.pipeline.optimizer import moved, ordinals
from engine.pipeline.stateful import (
    Aggregate,
    Deduplicate,
    GroupRows,
    GroupSessions,
    JoinSide,
    JoinStreams,
    PartGroup,
    RunCustomState,
    StatefulStep,
)

Places = Mapping[int, int]
"""From a column's old position to its new one."""


def needed_sides(step: PartGroup | StatefulStep, after: set[int], width: int) -> list[set[int]]:
    """Of each of its inputs, the positions of the columns that are needed.

    :param after: those that are needed of its output.
    :param width: how many columns its first input has.
    """
    if isinstance(step, Deduplicate):
        times = set() if step.event_time is None else {step.event_time}
        return [after | {*step.keys} | times]
    if isinstance(step, JoinStreams):
        return _needed_of_join(step, after)
    if isinstance(step, RunCustomState) or _is_partial(step):
        return [set(range(width))]
    if isinstance(step, GroupSessions):
        return [{*step.keys, step.session} | _of(step.aggregates)]
    return [{*step.keys} | _of(step.aggregates)]


def over(
    step: PartGroup | StatefulStep, sides: Sequence[Places]
) -> tuple[PartGroup | StatefulStep, Places]:
    """The step over its inputs' new positions, and those of its output."""
    if isinstance(step, JoinStreams):
        return _join_over(step, sides)
    (places,) = sides
    if isinstance(step, Deduplicate):
        time = None if step.event_time is None else places[step.event_time]
        schema = _picked(step.schema, places)
        keys = tuple(places[key] for key in step.keys)
        return replace(step, keys=keys, event_time=time, schema=schema), places
    unchanged = {index: index for index in range(len(step.schema))}
    if isinstance(step, RunCustomState) or _is_partial(step):
        return step, unchanged
    keys = tuple(places[key] for key in step.keys)
    aggregates = tuple(_moved(each, places) for each in step.aggregates)
    if isinstance(step, GroupSessions):
        session = places[step.session]
        return replace(step, keys=keys, session=session, aggregates=aggregates), unchanged
    return replace(step, keys=keys, aggregates=aggregates), unchanged


def _is_partial(step: PartGroup | StatefulStep) -> bool:
    """Whether its input is that of a :class:`PartGroup`, which computes what is needed alone."""
    return isinstance(step, GroupRows) and step.is_partial


def _of(aggregates: Sequence[Aggregate]) -> set[int]:
    conditions = [each.condition for each in aggregates if each.condition is not None]
    arguments = [argument for each in aggregates for argument in each.arguments]
    return {ordinal for expr in (*arguments, *conditions) for ordinal in ordinals(expr)}


def _moved(aggregate: Aggregate, places: Places) -> Aggregate:
    condition = aggregate.condition
    return replace(
        aggregate,
        arguments=tuple(moved(argument, places) for argument in aggregate.arguments),
        condition=None if condition is None else moved(condition, places),
    )


def _needed_of_join(step: JoinStreams, after: set[int]) -> list[set[int]]:
    width = len(step.left.schema)
    used = after | (set() if step.condition is None else ordinals(step.condition))
    left = {place for place in used if place < width}
    right = {place - width for place in used if place >= width}
    return [left | _own(step.left), right | _own(step.right)]


def _own(side: JoinSide) -> set[int]:
    times = set() if side.event_time is None else {side.event_time}
    return {*side.keys} | times | (set() if side.evicts is None else ordinals(side.evicts))


def _join_over(step: JoinStreams, sides: Sequence[Places]) -> tuple[JoinStreams, Places]:
    left, right = (
        _side_over(side, places)
        for side, places in zip((step.left, step.right), sides, strict=True)
    )
    before, now = len(step.left.schema), len(left.schema)
    both = {**sides[0], **{before + old: now + new for old, new in sides[1].items()}}
    behind = {old: new for old, new in both.items() if old < len(step.schema)}
    condition: Expr | None = None if step.condition is None else moved(step.condition, both)
    schema = _picked(step.schema, behind)
    return replace(step, left=left, right=right, condition=condition, schema=schema), behind


def _side_over(side: JoinSide, places: Places) -> JoinSide:
    return JoinSide(
        _picked(side.schema, places),
        tuple(places[key] for key in side.keys),
        None if side.event_time is None else places[side.event_time],
        None if side.evicts is None else moved(side.evicts, places),
    )


def _picked(schema: pa.Schema, places: Places) -> pa.Schema:
    return pa.schema([schema.field(old) for old in sorted(places, key=places.__getitem__)])
