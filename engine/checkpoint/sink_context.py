"""Whose epochs a sink gets: told by each attempt to run the query, and by a rewind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True)
class SinkContext:
    """``(query_id, timeline, epoch)`` tells one commit from another, and is the same when a restart
    commits an epoch again. The epoch alone would not do: after a rewind it comes again with other
    rows. Nor would the generation: a commit that is repeated has a higher one.

    :param query_id: survives restarts.
    :param run_id: of this start of the query.
    :param generation: counts restarts and rewinds: whoever comes with a lower one than was seen is
        a run that has lost the query, and must be refused.
    :param timeline: changes with each rewind, and with nothing else, as PostgreSQL's does with each
        recovery to an earlier point: the generation of the last rewind, 0 if there was none.
    """

    query_id: str
    run_id: str
    generation: int
    timeline: int


@dataclass(frozen=True)
class Inherited:
    """What a checkpoint has logged that another query has done.

    :param query_id: of the query that it is a copy of; None: Spark's own.
    :param epoch: the newest, -1 if there is none.
    """

    query_id: str | None
    epoch: int


@dataclass(frozen=True)
class BoundContext(SinkContext):
    """The same for a sink that has not seen the query yet.

    :param inherited: all that is logged, if this query has prepared nothing by now and was never
        rewound: this sink need not know these epochs.
    """

    inherited: Inherited | None = None


@runtime_checkable
class Binds(Protocol):
    """A sink that keeps an idempotence key of its own, or shuts earlier runs out."""

    def bind(self, context: BoundContext) -> None:
        """Called with each attempt to run the query, and by each rewind, before anything else but
        ``validate``. From the attempt on, the lease is looked at before each commit."""
