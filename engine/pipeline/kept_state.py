"""What a step keeps, in words that stay the same while it means the same: a state is of one query
alone, so another one must not go on from it."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from engine.expressions.types import sql_name
from engine.pipeline.stateful import (
    Deduplicate,
    GroupSessions,
    JoinSide,
    JoinStreams,
    RunCustomState,
    StatefulStep,
)


def what_is_kept(step: StatefulStep) -> dict[str, str | list[str]]:
    """The parts of a step that its state depends on, by name. Where two queries have the same, one
    may go on with what the other knows."""
    parts: dict[str, str | list[str]] = {"operation": type(step).__name__}
    if isinstance(step, JoinStreams):
        parts["kind"] = step.kind
        parts |= _of_side("left", step.left) | _of_side("right", step.right)
        return parts
    if isinstance(step, RunCustomState):
        return {
            **parts,
            "keys": _columns(step.input, step.keys),
            "output mode": step.output_mode,
        }
    if isinstance(step, Deduplicate):
        time = "none" if step.event_time is None else step.schema.names[step.event_time]
        within = "" if step.within_us is None else f", for {step.within_us // 1000} ms"
        return {**parts, "keys": _columns(step.schema, step.keys), "event time": f"{time}{within}"}
    grouped = len(step.schema) - len(step.aggregates)
    parts["keys"] = _columns(step.schema, range(grouped))
    parts["aggregates"] = _columns(step.schema, range(grouped, len(step.schema)))
    parts["output mode"] = step.output_mode
    if isinstance(step, GroupSessions):
        return {**parts, "event time": "the session" if step.has_watermark else "none"}
    time = "none" if step.event_time is None else step.schema.names[step.event_time]
    return {**parts, "event time": time}


def _of_side(name: str, side: JoinSide) -> dict[str, list[str]]:
    return {
        f"{name} keys": _columns(side.schema, side.keys),
        f"{name} columns": _columns(side.schema, range(len(side.schema))),
    }


def _columns(schema: pa.Schema, places: Iterable[int]) -> list[str]:
    fields = [schema.field(place) for place in places]
    return [f"{field.name} {sql_name(field.type)}" for field in fields]
