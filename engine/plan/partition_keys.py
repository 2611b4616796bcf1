"""Steps that keep state where a source is read: option ``keysStayInPartitions``.

The user says that the rows of a key are all in one partition. That is believed of the keys of the
first step with state behind a source; whatever cannot be so is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from engine.base.options import KEYS_STAY_IN_PARTITIONS
from engine.pipeline.pipeline import EvalPython, MapBatches, Step
from engine.plan.drafts import Draft
from engine.plan.event_time import is_time

_OPTION: Final = f"the option {KEYS_STAY_IN_PARTITIONS}"


def reads_alone(drafts: Iterable[Draft]) -> bool:
    """Whether one of these reads a stream, and remembers nothing so far."""
    return any(draft.source is not None and not draft.keeps_state for draft in drafts)


def why_exchanged(drafts: Sequence[Draft], keys: Sequence[Any], *, all_told: bool) -> Iterator[str]:
    """What is in the way of keeping state by partition.

    :param drafts: whose rows the step gets.
    :param keys: the attributes that it goes by.
    :param all_told: it is an aggregate in output mode complete.
    """
    if len(drafts) > 1:
        yield f"{_OPTION}: a union has partitions of several streams, and a key may be in each"
    if not keys:
        yield f"{_OPTION}: an aggregate without keys is over the rows of all partitions"
    elif all(map(is_time, keys)):
        yield f"{_OPTION}: every partition has rows of the same window; group by a further column"
    if all_told:
        yield (
            f"{_OPTION}: output mode complete returns all keys when any task has got rows, which "
            "tasks without an exchange do not know of each other; use update"
        )
    if any(_holds_back(step) for draft in drafts for step in draft.steps):
        yield (
            f"{_OPTION}: a function over an iterator of batches stands in front of the state, so "
            "nobody knows which partition its rows are from"
        )


def refused_join() -> str:
    """A join of two streams."""
    return f"{_OPTION}: the rows of a join of two streams come from partitions of both"


def refused_initial_state() -> str:
    """``initialState`` of ``transformWithState``."""
    return f"{_OPTION}: nobody knows in which partition the keys of initialState will be"


def _holds_back(step: Step) -> bool:
    return isinstance(step, MapBatches) or (isinstance(step, EvalPython) and not step.aligned)
