"""Why an epoch that is run again need not be what it was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Final

from engine.expressions.tree import NONDETERMINISTIC, Expr
from engine.pipeline.pipeline import Pipeline, PythonFunction, StaticJoin
from engine.pipeline.stateful import UPDATE

_NOW: Final = frozenset({"CurrentTimestamp", "Now", "LocalTimestamp", "CurrentDate", "CurrentTime"})


def notes_on(pipelines: Sequence[Pipeline]) -> list[str]:
    """In words, for people; none of a query whose epochs are always the same."""
    parts = [part for each in pipelines for step in each.steps for part in _parts(step)]
    ops = {part.op for part in parts if isinstance(part, Expr)}
    notes = []
    if chance := sorted(ops & NONDETERMINISTIC):
        notes.append(f"{', '.join(chance)}: other values than the epoch had.")
    if now := sorted(ops & _NOW):
        notes.append(f"{', '.join(now)}: the time of this replay, not of the epoch.")
    names = [p.name for p in parts if isinstance(p, PythonFunction) and not p.deterministic]
    if names:
        listed = ", ".join(sorted(set(names)))
        notes.append(f"{listed}: not deterministic, other values than the epoch had.")
    if any(isinstance(part, StaticJoin) for part in parts):
        notes.append("The tables that the stream is joined with are as they are now.")
    if any(getattr(part, "output_mode", None) == UPDATE for part in parts):
        notes.append(
            "Output mode update: the last row of a key is that of the epoch, how many come before "
            "it depends on how the records arrive."
        )
    return notes


def _parts(value: Any) -> Iterator[Any]:
    """A step and all that it is made of."""
    if isinstance(value, Expr):
        yield from value.walk()
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from _parts(each)
    elif is_dataclass(value):
        yield value
        for field in fields(value):
            yield from _parts(getattr(value, field.name))
