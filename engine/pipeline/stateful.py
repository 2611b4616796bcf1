"""Steps that remember something from one record to the next.

Each stands at the beginning of a stage, behind an :class:`Exchange`, so that all rows of a key meet
in one task; or among the steps of a stream whose keys stay in its partitions, where they meet
anyhow. Positions are those of the columns that it gets.

==================  ===========================================================================
step                of Spark's
==================  ===========================================================================
PartGroup           the partial half of ``HashAggregate``: in front of the exchange
GroupRows           ``Aggregate`` by keys and windows
GroupSessions       ``Aggregate`` by a ``session_window``
Deduplicate         ``Deduplicate``, ``DeduplicateWithinWatermark``
JoinStreams         ``Join`` of two streams
RunCustomState      ``FlatMapGroupsInPandasWithState``, ``TransformWithStateInPySpark``
==================  ===========================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from engine.base.output_modes import APPEND as APPEND
from engine.base.output_modes import COMPLETE as COMPLETE
from engine.base.output_modes import UPDATE as UPDATE
from engine.expressions.tree import Expr

SIDE: Final = b"side"
"""In the metadata of a batch's schema: ``0`` for the left input of a join, ``1`` for the right."""


@dataclass(frozen=True)
class Exchange:
    """Where the rows behind the last step go: to the task of another pipeline that owns their key.

    :param stage: the number of that pipeline among all of the query.
    :param side: which of its inputs they are: 1 for the right side of a join, else 0.
    :param keys: positions of the key's columns; none: one task gets all rows.
    """

    stage: int
    keys: tuple[int, ...]
    side: int = 0


@dataclass(frozen=True)
class Exchanged:
    """What the first step of a pipeline gets that reads no source: the rows that others send.

    :param sides: the columns of each of its inputs.
    :param senders: the numbers of the pipelines that send, for each side.
    """

    sides: tuple[pa.Schema, ...]
    senders: tuple[tuple[int, ...], ...]

    @property
    def schema(self) -> pa.Schema:
        """Of the batches; those of a join tell their side in the metadata of their schema."""
        return self.sides[0]


@dataclass(frozen=True)
class Aggregate:
    """An aggregate function over rows.

    :param function: Spark's class name, e.g. ``Count``.
    :param dtype: of the result.
    :param eval_mode: ``ANSI``, ``TRY`` or ``LEGACY``: what becomes of a sum that is too large.
    :param condition: rows for which it is not true are passed over (``FILTER (WHERE ...)``).
    :param distinct: equal arguments count once.
    :param params: what else Spark's class is constructed with, by the names there.
    """

    function: str
    arguments: tuple[Expr, ...]
    dtype: pa.DataType
    eval_mode: str = "LEGACY"
    condition: Expr | None = None
    distinct: bool = False
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PartGroup:
    """Fold the rows of each batch that have the same key, where that makes them fewer.

    :param keys: positions of the key's columns in the input.
    :param schema: the key's columns, then the states of the aggregates.
    """

    keys: tuple[int, ...]
    aggregates: tuple[Aggregate, ...]
    schema: pa.Schema


@dataclass(frozen=True)
class GroupRows:
    """Aggregates of all rows with the same key, over epochs.

    :param keys: positions of the key's columns in the input.
    :param schema: the key's columns, then one for each aggregate.
    :param output_mode: ``append``: a row when the watermark has passed its event time; ``update``:
        each row that has changed, at once; ``complete``: all rows at the end of each epoch.
    :param event_time: which of the keys the watermark is compared with: a timestamp, or a window,
        of which it is the end; None: rows stay for ever.
    :param is_partial: the input is that of a :class:`PartGroup`: key, then states.
    """

    name: str
    keys: tuple[int, ...]
    aggregates: tuple[Aggregate, ...]
    schema: pa.Schema
    output_mode: str
    event_time: int | None = None
    is_partial: bool = False


@dataclass(frozen=True)
class GroupSessions:
    """Aggregates of all rows with the same key whose sessions touch.

    :param keys: positions of the key's columns without the session.
    :param session: the position of the session that each row begins, a struct of start and end.
    :param places: where each of ``keys``, and last the session, stands in ``schema``.
    :param schema: key and session, as the query's text orders them, then one for each aggregate.
    """

    name: str
    keys: tuple[int, ...]
    session: int
    aggregates: tuple[Aggregate, ...]
    places: tuple[int, ...]
    schema: pa.Schema
    output_mode: str
    has_watermark: bool = True


@dataclass(frozen=True)
class Deduplicate:
    """The first row of each key.

    :param event_time: the position, in the input, of the time that the watermark is compared with;
        None: keys stay for ever.
    :param within_us: a key stays for so long behind its first row's time
        (``dropDuplicatesWithinWatermark``). None: it stays until the watermark has passed
        ``event_time``, if that is one of the keys; else late rows are left out, and keys stay.
    """

    name: str
    keys: tuple[int, ...]
    schema: pa.Schema
    event_time: int | None = None
    within_us: int | None = None


@dataclass(frozen=True)
class JoinSide:
    """One of the two streams of a join.

    :param keys: positions of the columns that have to be equal.
    :param event_time: the position of its event time, if it has one.
    :param evicts: a row is done with when the watermark is at this or behind it: an expression over
        the row, in microseconds; None: it stays for ever.
    """

    schema: pa.Schema
    keys: tuple[int, ...]
    event_time: int | None
    evicts: Expr | None


@dataclass(frozen=True)
class JoinStreams:
    """Rows of two streams that belong together.

    :param kind: ``inner``, ``left``, ``right``, ``full`` or ``semi`` (rows of the left).
    :param condition: over the left's columns and the right's: what else a match must fulfil.
    :param schema: the left's columns and the right's; for ``semi`` the left's.
    """

    name: str
    kind: str
    left: JoinSide
    right: JoinSide
    condition: Expr | None
    schema: pa.Schema


@dataclass(frozen=True)
class RunCustomState:
    """The user's own state per key: ``applyInPandasWithState``, ``transformWithState``.

    :param keys: positions of the grouping columns.
    :param schema: what the function returns.
    :param start: makes the stage, on the executor, of the step, the task's
        :class:`~engine.state.contract.EventClock` and its
        :class:`~engine.exchange.key_groups.KeyGroups`; carried along because the heart of the
        engine must not import pyspark.
    :param params: what it needs, see :mod:`engine.functions.custom_state.spec`.
    :param event_time: the position of the column by which a row is late; a time, or a window, of
        which it is the end. None: no row is.
    """

    name: str
    keys: tuple[int, ...]
    input: pa.Schema
    schema: pa.Schema
    start: Callable[[RunCustomState, Any, Any], Any]
    output_mode: str
    params: Mapping[str, Any]
    event_time: int | None = None


StatefulStep = GroupRows | GroupSessions | Deduplicate | JoinStreams | RunCustomState


def leaves_out_late_rows(step: StatefulStep) -> bool:
    """Whether rows behind the watermark are late for it."""
    if isinstance(step, GroupSessions):
        return step.has_watermark
    if isinstance(step, JoinStreams):
        return any(side.event_time is not None for side in (step.left, step.right))
    return step.event_time is not None
