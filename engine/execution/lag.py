"""How far a query is behind the ends of its sources, as far as these look where they end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from engine.errors import ConfigError
from engine.execution.definition import StreamBinding
from engine.progress.report import StreamProgress, numbers_of
from engine.sources.contract import DataSourceContinuousReader, Offset
from engine.sources.offset_order import lag_of, reached
from engine.wire.messages import EpochCommitMessage


def stream_progress(
    stream: StreamBinding, start: Offset | None, end: Offset, parts: Sequence[EpochCommitMessage]
) -> StreamProgress:
    """What an epoch has done for one stream.

    :param start: where it began; None: at the beginning. ``end`` is exclusive.
    :param parts: the reports of the stream's tasks.
    """
    known_end = stream.reader.knownEnd()
    return StreamProgress(
        stream.description,
        start,
        end,
        [part.counters for part in parts],
        known_end,
        _lag(end, known_end),
    )


def lags(streams: Sequence[StreamBinding], committed: Sequence[Offset]) -> list[Any]:
    """Of each stream by partition, in the shape of its offset; None for one that has not looked.

    :param committed: one offset per stream; empty before it is known where they begin.
    """
    offsets = committed or (None,) * len(streams)
    return [
        _lag(offset, stream.reader.knownEnd())
        for offset, stream in zip(offsets, streams, strict=True)
    ]


def total_lag(look: Callable[[], Sequence[Any]]) -> int | None:
    """Of all partitions of all streams that know where they end; None if none does, or one fails to
    tell: a heartbeat, or the end of a query, does not fail of that.

    :param look: as :func:`lags`.
    """
    try:
        known = [sum(numbers_of(lag)) for lag in look() if lag is not None]
    except Exception:
        return None
    return round(sum(known)) if known else None


def has_reached(reader: DataSourceContinuousReader, committed: Offset, wanted: Offset) -> bool:
    """Whether everything before ``wanted`` is committed.

    :raises ConfigError: the two have no order that is known.
    """
    told = reader.hasReached(committed, wanted)
    return reached(committed, wanted) if told is None else told


def _lag(committed: Offset | None, known_end: Offset | None) -> Any:
    if known_end is None:
        return None
    try:
        return lag_of(committed, known_end)
    except ConfigError:  # offsets that only their source understands
        return None
