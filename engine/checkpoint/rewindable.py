"""What a sink may offer to a rewind, as typed protocols that are resolved once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from engine.base.json_text import JSON
from engine.checkpoint.sink_context import Binds, BoundContext


@runtime_checkable
class TakesBack(Protocol):
    """A sink that can take the rows of committed epochs back."""

    def rewind(self, epoch: int, *position: JSON) -> None:
        """Make the rows of all later epochs disappear; again is fine.

        :param position: what :meth:`KeepsPositions.rewindPosition` returned for the epoch, if the
            target of the rewind is a pin.
        """


@runtime_checkable
class ChecksRewinds(Protocol):
    """A sink that tells before anything has changed whether it can take rows back."""

    def checkRewind(self, epoch: int, *position: JSON) -> None:
        """:raises ConfigError: the sink does not know any more what the epoch ended with."""


@runtime_checkable
class MayKeepRows(Protocol):
    """A sink that can be rewound, and may leave the rows of later epochs where they are."""

    @property
    def keepsRows(self) -> bool:
        """Whether it does: the same rows are written again, over what is there."""


@runtime_checkable
class KeepsPositions(Protocol):
    """A sink whose own log is compacted: a pin keeps what it needs to find the epoch again."""

    def rewindPosition(self, epoch: int) -> JSON:
        """What a pin of this epoch has to keep."""


@runtime_checkable
class HasSparksBatches(Protocol):
    """A sink whose log Spark's own sink writes, too: it takes Spark's batches back as well."""

    def hasBatch(self, batch: int) -> bool:
        """Whether the log has come to this batch: then it is that of Spark's query."""


@runtime_checkable
class RemembersEpochs(Protocol):
    """A sink that can tell which epochs it has."""

    def latestEpoch(self) -> int | None:
        """The newest committed epoch, None if there is none.

        A restart does not commit an epoch again that the sink has, unless the query was ever
        rewound: then it may have got that number from a run of before. So ``commit`` compares, or
        at least skips what is there.

        :raises SinkError: the sink is damaged, or cannot be asked.
        """


@dataclass(frozen=True)
class RewindableSink:
    """What of it a sink offers; None, or False, for what it does not."""

    rewind: Callable[..., None] | None = None
    check: Callable[..., None] | None = None
    position: Callable[[int], JSON] | None = None
    has_batch: Callable[[int], bool] | None = None
    remembers: bool = False
    keeps_rows: bool = False
    bind: Callable[[BoundContext], None] | None = None

    @classmethod
    def of(cls, sink: Any) -> RewindableSink:
        """:param sink: a stream writer, what :mod:`engine.sinks.reopen` returns, a resolved
        one, or None for a sink that is not known."""
        if isinstance(sink, RewindableSink):
            return sink
        return cls(
            rewind=sink.rewind if isinstance(sink, TakesBack) else None,
            check=sink.checkRewind if isinstance(sink, ChecksRewinds) else None,
            position=sink.rewindPosition if isinstance(sink, KeepsPositions) else None,
            has_batch=sink.hasBatch if isinstance(sink, HasSparksBatches) else None,
            remembers=isinstance(sink, RemembersEpochs),
            keeps_rows=isinstance(sink, MayKeepRows) and sink.keepsRows,
            bind=sink.bind if isinstance(sink, Binds) else None,
        )


NOT_REWINDABLE = RewindableSink()
