"""One attempt to run a query: take the checkpoint, recover, and run epochs until something ends it.

An attempt that fails may be followed by another one of the same query in the same process (see
:mod:`engine.execution.restart_budget`). Each takes the checkpoint as a new generation, so that
    whatever the one
before has left behind, a task that hangs for example, is told apart.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from engine.base.background import Background
from engine.base.clock import Clock
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.lease import Lease
from engine.checkpoint.query_state import QueryState
from engine.coordinator.commit_runner import EpochRunner
from engine.coordinator.events import DrainAsked, RunFailed, StopAsked
from engine.coordinator.restart_table import RestartPlan
from engine.errors import (
    CheckpointError,
    ContinuousError,
    NotEnoughSlotsError,
    SinkUnavailableError,
    SourceError,
    StaleRunError,
)
from engine.execution.admission import admit
from engine.execution.definition import QueryDefinition
from engine.execution.launcher import Launcher, LeavingTasks
from engine.execution.lease_keeper import LeaseKeeper
from engine.execution.run import SLOT_WAIT_S, ContinuousRun, RunListener
from engine.execution.survey import plan_restart
from engine.sources.contract import Offset
from engine.task.spec import TaskSpec
from engine.wire.messages import RecordsArrived

logger = logging.getLogger(__name__)
SLOT_POLL_S = 0.02
_BACKGROUND_S = 5.0
EndEvent = DrainAsked | StopAsked | RunFailed


class AttemptListener(RunListener, Protocol):
    """Hears how an attempt goes."""

    def on_recovered(self, committed_epoch: int) -> None:
        """What an earlier run has prepared is committed; epochs go on behind this one."""


class Attempt:
    """See the module. Not reusable.

    :param run_id: of the query's start; all its attempts have the same.
    :param listener: hears how the epochs go.
    :param look: what the lease says with each heartbeat.
    :param lease: of the attempt before, until this one has its own.
    :ivar later: does what nobody waits for, until :meth:`run` returns.
    :ivar committed_offsets: where the last committed epoch ends, per stream; None before the first.
    """

    def __init__(
        self,
        definition: QueryDefinition,
        launcher: Launcher,
        clock: Clock,
        *,
        leaving: LeavingTasks,
        query_id: str,
        run_id: str,
        listener: AttemptListener,
        look: Callable[[], Mapping[str, Any]],
        lease: Lease | None = None,
    ) -> None:
        self.committed_offsets: tuple[Offset, ...] | None = None
        self.is_reconfiguring = False
        self._definition = definition
        self._launcher = launcher
        self._leaving = leaving
        self._clock = clock
        self._query_id = query_id
        self._run_id = run_id
        self._listener = listener
        self._began_s = clock.monotonic_s()
        self._changed = threading.Condition()
        self._look = look
        self._lease = lease
        self._keeper: LeaseKeeper | None = None
        self.later = Background("continuous-background")
        self._plan: RestartPlan | None = None
        self._end_asked: EndEvent | None = None
        self._run: ContinuousRun | None = None

    # -- before a task runs ---------------------------------------------------------------------

    def recover(self) -> None:
        """Take the checkpoint, finish what an earlier run has prepared, and see that the tasks
        will find slots.

        :raises ContinuousError: the query cannot go on from this checkpoint, or not now.
        """
        checkpoint = self._definition.checkpoint
        lease = self._take(checkpoint)
        with _blaming(SinkUnavailableError, "The sink could not recover"):
            admit(self._definition, lease)
            plan = plan_restart(checkpoint, self._definition.sink, lease.check)
            for epoch in plan.recommit:
                logger.info("committing epoch %d again", epoch)
                self._runner.commit_again(epoch, sink_has_it=epoch in plan.skip_sink_commit)
        self.committed_offsets = self._logged_offsets(plan.start_from)
        self._check_slots(len(self._partitions()))
        self._plan = plan
        self._listener.on_recovered(plan.first_epoch - 1)

    def _take(self, checkpoint: Checkpoint) -> Lease:
        definition, options = self._definition, self._definition.options
        lease = self._lease = Lease.acquire(
            checkpoint,
            run_id=self._run_id,
            application=self._launcher.application,
            application_url=self._launcher.application_url,
            heartbeat_interval_ms=options.lease_heartbeat_ms,
            clock=self._clock,
        )
        self._keeper = LeaseKeeper(lease, checkpoint, self.tell, self._clock)
        self._keeper.start(self._look)  # a sink may take its time to recover
        self._runner = EpochRunner(
            checkpoint=checkpoint,
            lease=lease,
            query_id=self._query_id,
            sources=[stream.reader for stream in definition.streams],
            sink=definition.sink.writer,
            codec=definition.sink.codec,
            min_epochs_to_retain=options.min_epochs_to_retain,
            keeps_letters=definition.sink.write_letters is not None,
            later=self.later,
        )
        return lease

    def _logged_offsets(self, epoch: int | None) -> tuple[Offset, ...] | None:
        if epoch is None:
            return None
        checkpoint, streams = self._definition.checkpoint, self._definition.streams
        entry = checkpoint.offsets.get(epoch)  # committed, says the plan
        offsets = None if entry is None else entry.offsets
        if offsets is None or len(offsets) != len(streams) or None in offsets:
            raise CheckpointError(
                f"The checkpoint {checkpoint.url} holds the offsets {offsets} of epoch {epoch}, "
                f"and the query reads {len(streams)} stream(s).",
                hint="It belongs to another query: use the checkpoint of this one.",
                epoch=epoch,
            )
        return offsets

    def _partitions(self) -> list[tuple[int, Any]]:
        """(stream, its own description) of each partition from the committed offsets on."""
        streams = self._definition.streams
        with _blaming(SourceError, "The source cannot tell its partitions"):
            starts = self.committed_offsets or [s.reader.initialOffset() for s in streams]
            found = [
                (index, partition)
                for index, (stream, start) in enumerate(zip(streams, starts, strict=True))
                for partition in stream.reader.partitions(start)
            ]
        empty = set(range(len(streams))) - {index for index, _ in found}
        if empty:
            names = ", ".join(streams[index].description for index in sorted(empty))
            raise SourceError(
                f"The source {names} has no partitions.",
                hint="Its partitions(start) must return at least one.",
            )
        return found

    def _check_slots(self, needed: int) -> None:
        """Tasks that a moment ago were killed may hold their slots a little longer."""
        deadline_s = self._clock.monotonic_s() + SLOT_WAIT_S
        while True:
            slots = self._launcher.slots()
            if slots is None or slots.free >= needed:
                return
            if slots.total < needed or self._clock.monotonic_s() >= deadline_s:
                raise NotEnoughSlotsError(
                    f"The query has {needed} partitions and needs as many free task slots, but "
                    f"{slots.free} of the {slots.total} slots are free.",
                    hint="Reduce the source's partitions, stop other jobs, or add cores "
                    "(spark.master local[N], or more executors).",
                )
            self._clock.sleep(SLOT_POLL_S)

    # -- epochs ---------------------------------------------------------------------------------

    def run(self) -> ContinuousError | None:
        """Recover if that is still to be done, and run epochs until the end; why the attempt
        failed, or None if it ended as asked."""
        try:
            if self._plan is None:
                self.recover()
            assert self._plan is not None
            error, next_epoch = None, self._plan.first_epoch
            if self._plan.replay is not None:
                error, next_epoch = self._replay(next_epoch), next_epoch + 1
            if error is None and self._end_asked is None:
                error = self._run_epochs(next_epoch, until=None)
        except ContinuousError as exc:
            error = exc
        finally:
            if not self.later.close(_BACKGROUND_S):
                logger.warning("the cleaning up behind the last epoch hangs, and is left behind")
        return error or self.asked_error

    def _replay(self, epoch: int) -> ContinuousError | None:
        """Run an epoch again whose end an earlier run (Spark's, which prepares nothing) has logged
        and perhaps published in part: exactly to that end."""
        entry = self._definition.checkpoint.offsets.get(epoch)
        assert entry is not None, f"offsets/{epoch} vanished"
        logger.info("running epoch %d again, to its logged offsets", epoch)
        error = self._run_epochs(epoch, until=entry.offsets)
        if error is None:
            self.committed_offsets = entry.offsets
        return error

    def _run_epochs(
        self, first_epoch: int, until: tuple[Offset, ...] | None
    ) -> ContinuousError | None:
        definition = self._definition
        assert self._lease is not None
        specs = [
            TaskSpec(
                query_id=self._query_id,
                run_id=self._run_id,
                generation=self._lease.generation,
                index=index,
                first_epoch=first_epoch,
                pipeline=definition.streams[stream].pipeline,
                reader=definition.streams[stream].reader,
                stream=stream,
                source_partition=partition,
                source=definition.streams[stream].description,
                write=definition.sink.write,
                on_bad_record=definition.options.on_bad_record,
                write_letters=definition.sink.write_letters,
                address=("", 0),
                secret=b"",
                until=None if until is None else until[stream],
                tells_arrivals=definition.options.empty_epoch_interval_ms > 0,
                heartbeat_s=min(2.0, definition.options.task_timeout_s / 4),
            )
            for index, (stream, partition) in enumerate(self._partitions())
        ]
        run = ContinuousRun(
            launcher=self._launcher,
            leaving=self._leaving,
            runner=self._runner,
            specs=specs,
            interval_ms=definition.epoch_interval_ms,
            options=definition.options,
            clock=self._clock,
            listener=self._listener,
            reconfigured=self._needs_reconfiguration,
        )
        with self._changed:
            self._run = run
            if self._end_asked is not None:
                run.tell(self._end_asked)
        error = run.run()
        with self._changed:
            self._run = None
        self.is_reconfiguring = run.is_reconfiguring and error is None and self._end_asked is None
        return error

    @property
    def is_refresh_due(self) -> bool:
        """Whether tables have to be read again."""
        interval_ms = self._definition.options.refresh_interval_ms
        if interval_ms is None or self._definition.read_again is None:
            return False
        return (self._clock.monotonic_s() - self._began_s) * 1000 >= interval_ms

    def _needs_reconfiguration(self) -> bool:
        with _blaming(SourceError, "The source cannot tell its partitions"):
            streams = self._definition.streams
            return self.is_refresh_due or any(s.reader.needsReconfiguration() for s in streams)

    # -- the end --------------------------------------------------------------------------------

    def tell(self, event: EndEvent) -> None:
        """Ask for the end, or report that something outside the epochs has failed."""
        with self._changed:
            if not isinstance(self._end_asked, RunFailed):
                self._end_asked = event
            run = self._run
            self._changed.notify_all()
        if run is not None:
            run.tell(event)

    def want(self, epoch: int) -> None:
        """Somebody waits for this epoch: until it, none stays open for being empty."""
        run = self._run
        if run is not None:
            run.tell(RecordsArrived(self._run_id, -1, epoch))

    def pause(self, seconds: float) -> bool:
        """Wait before the next attempt, and keep the checkpoint meanwhile.

        :return: whether nobody asked for the end.
        """
        with self._changed:
            return not self._changed.wait_for(lambda: self._end_asked is not None, seconds)

    @property
    def end_is_asked(self) -> bool:
        """Whether somebody, or the lease's keeper, wants the end."""
        return self._end_asked is not None

    @property
    def asked_error(self) -> ContinuousError | None:
        """Why the lease's keeper wants the end, if it does."""
        return self._end_asked.error if isinstance(self._end_asked, RunFailed) else None

    @property
    def open_epoch(self) -> int | None:
        """The epoch that records arriving now belong to; None while no tasks run."""
        run = self._run
        return None if run is None else run.open_epoch

    @property
    def is_this_thread(self) -> bool:
        """Whether the caller is inside a commit of this attempt."""
        run = self._run
        return run is not None and run.is_this_thread

    def owns_checkpoint(self) -> bool:
        """Whether the lease is still ours."""
        try:
            if self._lease is not None:
                self._lease.check()
        except StaleRunError:
            return False
        return self._lease is not None

    def let_go(self) -> Lease | None:
        """Make room for the next attempt, which has to follow at once, and gets the lease.

        :raises StaleRunError: another run has taken the checkpoint.
        """
        self._stop_keeper()
        try:
            if self._lease is not None:
                self._lease.check()
        except CheckpointError as exc:  # the next attempt meets it, too, and has a budget for it
            logger.warning("the lease could not be looked at: %s", exc)
        return self._lease

    def release(self, state: QueryState, error: ContinuousError | None) -> None:
        """Give the checkpoint back.

        :raises CheckpointError: the storage cannot be written; the lease will expire.
        """
        self._stop_keeper()
        if self._lease is not None:
            self._lease.release(state, error=None if error is None else str(error))

    def _stop_keeper(self) -> None:
        if self._keeper is not None:
            self._keeper.stop()


@contextmanager
def _blaming(kind: type[ContinuousError], what: str) -> Iterator[None]:
    """Foreign errors of a source or a sink become errors of the engine, which has budgets for
    them."""
    try:
        yield
    except ContinuousError:
        raise
    except Exception as exc:
        raise kind(f"{what}: {type(exc).__name__}: {exc}") from exc
