"""A checkpoint: the directory in which a query survives.

::

    metadata              {"id":"<query id>"}                                  as Spark has it
    offsets/<epoch>       where the epoch ends                                 as Spark has it
    commits/<epoch>       the epoch is done                                    as Spark has it
    prepared/<epoch>      the writers' messages, to finish the epoch with
    control/              lease with the summary, generations, requests, fingerprint of the query
    progress/recent       the last progress reports
    progress/history      what was measured for a week, at falling resolution
    pins/<name>           a committed epoch that outlives retention
    rewound/<generation>/ what rewinds have moved out of the logs

Everything here also reads checkpoints of Spark's own queries, which have the first three. Reading
needs no lease and disturbs nobody: leftovers of crashes are invisible, and entries that a running
query removes in the meantime are looked for again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from engine.base.json_text import JSON
from engine.checkpoint.folder import CheckpointFolder
from engine.checkpoint.lease import LeaseRecord, read_holder, read_lease
from engine.checkpoint.pins import (
    Pin,
    PinnedEpoch,
    add_pin,
    all_pins,
    committed_entries,
    get_pin,
    pinned_epochs,
    remove_pin,
)
from engine.checkpoint.query_state import QueryState
from engine.checkpoint.rewind import RewindReport, rewind
from engine.checkpoint.rewindable import RewindableSink
from engine.checkpoint.summary import Summary, summarize


@dataclass(frozen=True)
class CheckpointStatus:
    """What a checkpoint tells about its query; times in milliseconds since 1970.

    :param id: the query's id; None if the checkpoint was never used.
    :param epoch: the last committed epoch, -1 if there is none.
    :param offsets: end offsets of that epoch, one per source; empty if there is none.
    :param run_id: of the run that holds the lease or held it last; it and all that follows is None
        if there was none.
    :param error: why that run failed.
    :param application: Spark's application id; ``application_url`` is where its web page is.
    :param message: what the run does now, in words; of one that is lost, which process it was and
        when it was heard last; None of one that has ended.
    :param restarts: how often this run was restarted in place; ``last_error`` is why the last time,
        ``next_attempt_at_ms`` when the next attempt begins, if it waits for it,
        ``failing_since_ms`` when the first of its failures was since it has last committed.
    :param error_class: of ``error``, else of ``last_error``: what `continuous errors` knows it by;
        None of an error that is none of the engine's.
    """

    id: str | None
    epoch: int
    offsets: tuple[JSON | None, ...]
    state: QueryState = QueryState.UNKNOWN
    run_id: str | None = None
    generation: int | None = None
    error: str | None = None
    host: str | None = None
    pid: int | None = None
    application: str | None = None
    application_url: str | None = None
    heartbeat_at_ms: int | None = None
    started_at_ms: int | None = None
    message: str | None = None
    restarts: int = 0
    last_error: str | None = None
    next_attempt_at_ms: int | None = None
    failing_since_ms: int | None = None
    error_class: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {**asdict(self), "state": self.state.value, "offsets": list(self.offsets)}


@dataclass(frozen=True)
class QueryLook:
    """What one look at a query shows.

    :param status: of a look of one read without offsets, and as of the last heartbeat.
    """

    status: CheckpointStatus
    summary: Summary

    @property
    def is_sure(self) -> bool:
        """Whether nobody but its run could tell more: one that died has told nothing of its last
        moment."""
        state = self.status.state
        return state.is_active or state.has_ended


class Checkpoint(CheckpointFolder):
    """See the module. The folder itself, its logs and epochs are told by
    :class:`~engine.checkpoint.folder.CheckpointFolder`."""

    # -- pins and rewinding ---------------------------------------------------------------------

    def pin(self, name: str, epoch: int | None = None, *, sink: Any = None) -> Pin:
        """Give a committed epoch a name, and keep it for :meth:`rewind` until :meth:`unpin`.

        :param epoch: None: the last committed one.
        :param sink: the query's stream writer, if it can take rows back: then it still can when its
            own log has been compacted. See :func:`engine.sinks.reopen.reopen_sink`.
        :raises ConfigError: the name cannot be used, or the epoch is not there; lists those that
            are.
        """
        epoch = self.committed_epoch() if epoch is None else epoch
        committed_entries(self, epoch)  # else the sink would complain, of what is not its fault
        position = RewindableSink.of(sink).position
        kept = None if position is None else position(epoch)
        return add_pin(self, name, epoch, self._clock.now_ms(), kept)

    def unpin(self, name: str) -> None:
        """Forget a pin.

        :raises ConfigError: there is none of this name; lists those that are there.
        """
        remove_pin(self.storage, name)

    def pins(self) -> list[Pin]:
        """All pins, lowest epoch first."""
        return all_pins(self.storage)

    def pinned_epochs(self) -> list[PinnedEpoch]:
        """The same without what the pins hold, which may be much: names, epochs and times."""
        return pinned_epochs(self.storage)

    def rewind(
        self,
        to_epoch: int | None = None,
        *,
        to_pin: str | None = None,
        sink: Any = None,
        accept_repeats: bool = False,
        expected_epoch: int | None = None,
    ) -> RewindReport:
        """Take a query that does not run back to the end of a committed epoch. The next start reads
        on from there, as a higher generation.

        :param to_epoch: the last epoch that stays; or ``to_pin``, the name of a pin.
        :param sink: the query's stream writer, which takes the rows of later epochs back. See
            :func:`engine.sinks.reopen.reopen_sink`.
        :param accept_repeats: go on with a sink that cannot: it gets those rows again.
        :param expected_epoch: refuse unless this one is the last committed one still.
        :raises ConfigError: the epoch is not there (lists those that are), or the sink cannot take
            rows back; nothing has changed.
        :raises ConcurrentRunError: a run holds the checkpoint, or ``expected_epoch`` is not the
            last committed one.
        """
        if to_pin is not None:
            target: int | Pin = get_pin(self.storage, to_pin)
        else:
            assert to_epoch is not None, "an epoch or a pin"
            target = to_epoch
        return rewind(
            self,
            target,
            sink=sink,
            accept_repeats=accept_repeats,
            expected_epoch=expected_epoch,
            clock=self._clock,
        )

    # -- the whole ------------------------------------------------------------------------------

    def holder(self) -> LeaseRecord | None:
        """The run that holds the lease or held it last; None if there was never one."""
        return read_holder(self.storage)

    def status(self, committed: Callable[[], Iterable[int]] | None = None) -> CheckpointStatus:
        """Who runs the query, in which state, and how far it has come.

        :param committed: lists the committed epochs, for a caller who needs the listing as well;
            None: :meth:`epochs`.
        :raises CheckpointCorruptError: the metadata or the last epoch's offsets are unreadable.
        """
        # The holder first: a run that commits and then ends has not ended without that commit.
        holder = self.holder()
        epoch, offsets = self._last_committed(committed or self.epochs)
        status = CheckpointStatus(id=self.query_id(), epoch=epoch, offsets=offsets)
        return status if holder is None else self._with_holder(status, holder)

    def glance(self) -> QueryLook | None:
        """Nearly the same with one read, by the summary that a run keeps up to date; None if there
        is none. See :mod:`engine.checkpoint.summary` and
        :func:`engine.checkpoint.lease.read_lease`.

        :raises CheckpointError: the storage cannot be read.
        """
        lease = read_lease(self.storage)
        if lease is None or lease.summary is None:
            return None
        told = lease.summary
        status = CheckpointStatus(id=told.query_id, epoch=told.epoch, offsets=())
        return QueryLook(self._with_holder(status, lease), told)

    def look(self, committed: Callable[[], Iterable[int]] | None = None) -> QueryLook:
        """One read where a summary tells enough, else all reads.

        :param committed: see :meth:`status`.
        :raises CheckpointError: the checkpoint cannot be read.
        """
        found = self.glance()
        if found is not None and found.is_sure:
            return found
        status = self.status(committed)
        told = summarize(self, status.epoch)
        heard_ms = status.heartbeat_at_ms
        return QueryLook(status, told if heard_ms is None else told.as_of(heard_ms))

    def _with_holder(self, status: CheckpointStatus, holder: LeaseRecord) -> CheckpointStatus:
        state = holder.observed_state(self._clock.now_ms())
        message = None if state.is_over else holder.message
        return replace(
            status,
            state=state,
            run_id=holder.run_id,
            generation=holder.generation,
            error=holder.error,
            host=holder.host,
            pid=holder.pid,
            application=holder.application,
            application_url=holder.application_url,
            heartbeat_at_ms=holder.heartbeat_at_ms,
            started_at_ms=holder.started_at_ms,
            message=holder.silence if state is QueryState.LOST else message,
            restarts=holder.restarts,
            last_error=holder.last_error,
            next_attempt_at_ms=holder.next_attempt_at_ms if state.is_active else None,
            failing_since_ms=holder.failing_since_ms,
            error_class=holder.error_class,
        )

    def _last_committed(
        self, committed: Callable[[], Iterable[int]]
    ) -> tuple[int, tuple[JSON | None, ...]]:
        epoch = max(committed(), default=-1)
        while epoch >= 0:
            offsets = self.committed_offsets(epoch)
            if offsets is not None:
                return epoch, offsets
            epoch = self.committed_epoch()  # removed since the listing: others are there
        return epoch, ()
