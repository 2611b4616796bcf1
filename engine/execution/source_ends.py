"""Where the sources end, and how far what is committed is behind that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.errors import ConfigError
from engine.execution.definition import StreamBinding
from engine.progress.report import StreamProgress
from engine.sources.contract import DataSourceContinuousReader, Offset
from engine.sources.offset_order import lag_of, reached
from engine.wire.messages import EpochCommitMessage


def stream_progress(
    stream: StreamBinding, start: Offset | None, end: Offset, parts: Sequence[EpochCommitMessage]
) -> StreamProgress:
    """What an epoch has brought one stream."""
    known_end = stream.reader.knownEnd()
    counters = [part.counters for part in parts]
    return StreamProgress(
        stream.description, start, end, counters, known_end, lag_of_source(end, known_end)
    )


def lag_of_source(committed: Offset | None, known_end: Offset | None) -> Any:
    """How far an offset is behind the end that the source saw last, by partition; None if it has
    seen none, or its offsets have no order that is known."""
    if known_end is None:
        return None
    try:
        return lag_of(committed, known_end)
    except ConfigError:  # offsets that only their source understands
        return None


def has_reached(reader: DataSourceContinuousReader, committed: Offset, wanted: Offset) -> bool:
    """Whether everything before ``wanted`` is committed.

    :raises ConfigError: the two have no order that is known.
    """
    told = reader.hasReached(committed, wanted)
    return reached(committed, wanted) if told is None else told
