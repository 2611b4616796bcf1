"""The life of a query: recover, launch, run epochs, end.

All that can go wrong before a task runs is raised by :meth:`ContinuousExecution.start`. What goes
wrong later ends the query and is kept in :attr:`ContinuousExecution.error`.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from engine.admission import admit
from engine.checkpoint.lease import Lease
from engine.clock import Clock, SystemClock
from engine.coordinator.coordinator import Phase
from engine.coordinator.events import DrainAsked, RunFailed, StopAsked
from engine.coordinator.restart import RestartPlan
from engine.coordinator.runner import CommittedEpoch, EpochRunner
from engine.definition import QueryDefinition
from engine.errors import CheckpointError, ContinuousError, NotEnoughSlotsError
from engine.keeper import LeaseKeeper
from engine.launcher import Launcher
from engine.messages import EpochCommitMessage
from engine.progress.report import QueryIdentity, epoch_progress
from engine.recovery import plan_restart
from engine.run import ContinuousRun, EpochTimes
from engine.sources.reader import Offset
from engine.states import QueryState
from engine.task.spec import TaskSpec

logger = logging.getLogger(__name__)
RECENT_PROGRESS_MAX = 100
_PHASE_STATES = {
    Phase.STARTING: QueryState.STARTING,
    Phase.RUNNING: QueryState.RUNNING,
    Phase.DRAINING: QueryState.DRAINING,
}


class ContinuousExecution:
    """One start of a query. Not reusable.

    :param launcher: runs the tasks.
    """

    def __init__(
        self, definition: QueryDefinition, launcher: Launcher, clock: Clock | None = None
    ) -> None:
        self.definition = definition
        self.run_id = str(uuid.uuid4())
        self.query_id = ""
        self.state = QueryState.STARTING
        self.message = "Initializing sources"
        self.error: ContinuousError | None = None
        self.committed_epoch = -1
        self.recent_progress: deque[dict[str, Any]] = deque(maxlen=RECENT_PROGRESS_MAX)
        self._launcher = launcher
        self._clock = clock or SystemClock()
        self._committed_offset: Offset | None = None
        self._changed = threading.Condition()
        self._terminated = threading.Event()
        self._run: ContinuousRun | None = None
        self._end_asked: DrainAsked | StopAsked | None = None
        self._thread: threading.Thread | None = None

    # -- starting -------------------------------------------------------------------------------

    def start(self) -> None:
        """Check everything, recover, and launch the tasks.

        :raises ContinuousError: the query cannot start; nothing is left running.
        """
        definition, checkpoint = self.definition, self.definition.checkpoint
        validate = getattr(definition.sink.writer, "validate", None)
        if validate is not None:
            validate()
        self.query_id = checkpoint.create_or_read_query_id(str(uuid.uuid4()))
        lease = Lease.acquire(
            checkpoint,
            run_id=self.run_id,
            application=self._launcher.application,
            heartbeat_interval_ms=definition.options.lease_heartbeat_ms,
            clock=self._clock,
        )
        try:
            admit(definition, lease)
            runner = EpochRunner(
                checkpoint=checkpoint,
                lease=lease,
                source=definition.reader,
                sink=definition.sink.writer,
                message_modules=definition.sink.message_modules,
                min_epochs_to_retain=definition.options.min_epochs_to_retain,
            )
            plan = plan_restart(checkpoint, definition.sink)
            start = self._recover(plan, runner)
            self._check_slots(len(definition.reader.partitions(start)))
        except BaseException as exc:
            lease.release(QueryState.FAILED, error=str(exc))
            raise
        keeper = LeaseKeeper(lease, checkpoint, self._tell, self._clock)
        self._thread = threading.Thread(
            target=self._execute,
            args=(plan, start, runner, lease, keeper),
            name=f"continuous execution {definition.name or self.query_id}",
            daemon=True,
        )
        self._thread.start()

    def _recover(self, plan: RestartPlan, runner: EpochRunner) -> Offset:
        """Finish what an earlier run has prepared; where to read from."""
        definition, checkpoint = self.definition, self.definition.checkpoint
        for epoch in plan.recommit:
            logger.info("committing epoch %d again", epoch)
            runner.commit_again(epoch, sink_has_it=epoch in plan.skip_sink_commit)
        self.committed_epoch = checkpoint.committed_epoch()
        if plan.start_from is None:
            return definition.reader.initialOffset()
        offsets = checkpoint.committed_offsets(plan.start_from)
        if offsets is None or len(offsets) != 1 or offsets[0] is None:
            raise CheckpointError(
                f"The checkpoint {checkpoint.url} holds the offsets {offsets} of epoch "
                f"{plan.start_from}, and the query has one source.",
                hint="It belongs to another query: use the checkpoint of this one.",
                epoch=plan.start_from,
            )
        (self._committed_offset,) = offsets
        return self._committed_offset

    def _check_slots(self, needed: int) -> None:
        slots = self._launcher.slots()
        if slots is not None and slots.free < needed:
            raise NotEnoughSlotsError(
                f"The query has {needed} partitions and needs as many free task slots, but "
                f"{slots.free} of the {slots.total} slots are free.",
                hint="Reduce the source's partitions, stop other jobs, or add cores "
                "(spark.master local[N], or more executors).",
            )

    # -- running --------------------------------------------------------------------------------

    def _execute(
        self,
        plan: RestartPlan,
        start: Offset,
        runner: EpochRunner,
        lease: Lease,
        keeper: LeaseKeeper,
    ) -> None:
        error: ContinuousError | None = None
        try:
            keeper.start(lambda: (self.state, self.committed_epoch))
            if plan.replay is not None:
                error = self._replay(plan.replay, start, runner, lease)
                start = self._committed_offset
            if error is None and self._end_asked is None:
                first_epoch = self.committed_epoch + 1
                error = self._run_epochs(runner, lease, first_epoch, start, until=None)
        except Exception as exc:
            logger.exception("the query failed")
            error = (
                exc
                if isinstance(exc, ContinuousError)
                else ContinuousError(f"The query failed: {type(exc).__name__}: {exc}")
            )
        finally:
            keeper.stop()
            self._terminate(error, lease)

    def _replay(
        self, epoch: int, start: Offset, runner: EpochRunner, lease: Lease
    ) -> ContinuousError | None:
        """Run an epoch again whose end an earlier run (Spark's, which prepares nothing) has logged
        and perhaps published in part: exactly to that end."""
        entry = self.definition.checkpoint.offsets.get(epoch)
        assert entry is not None, f"offsets/{epoch} vanished"
        logger.info("running epoch %d again, to its logged offsets", epoch)
        return self._run_epochs(runner, lease, epoch, start, until=entry.offsets[0])

    def _run_epochs(
        self,
        runner: EpochRunner,
        lease: Lease,
        first_epoch: int,
        start: Offset,
        until: Offset | None,
    ) -> ContinuousError | None:
        definition, options = self.definition, self.definition.options
        specs = [
            TaskSpec(
                query_id=self.query_id,
                run_id=self.run_id,
                generation=lease.generation,
                index=index,
                first_epoch=first_epoch,
                pipeline=definition.pipeline,
                reader=definition.reader,
                source_partition=partition,
                write=definition.sink.write,
                address=("", 0),
                secret=b"",
                until=until,
                heartbeat_s=min(2.0, options.task_timeout_s / 4),
            )
            for index, partition in enumerate(definition.reader.partitions(start))
        ]
        run = ContinuousRun(
            launcher=self._launcher,
            runner=runner,
            specs=specs,
            interval_ms=definition.epoch_interval_ms,
            backlog_max=options.epoch_backlog_max,
            task_start_timeout_s=options.task_start_timeout_s,
            task_timeout_s=options.task_timeout_s,
            clock=self._clock,
            on_committed=self._on_committed,
            on_phase=self._on_phase,
        )
        self._set_message(f"Waiting for {len(specs)} tasks to start")
        with self._changed:
            self._run = run
            if self._end_asked is not None:
                run.tell(self._end_asked)
        error = run.run()
        with self._changed:
            self._run = None
        return error

    def _on_phase(self, phase: Phase) -> None:
        if phase is Phase.ENDED:
            return
        self.state = _PHASE_STATES[phase]
        self._set_message(phase.value.capitalize())

    def _on_committed(
        self,
        committed: CommittedEpoch,
        reports: Sequence[EpochCommitMessage],
        times: EpochTimes,
    ) -> None:
        definition = self.definition
        report = epoch_progress(
            QueryIdentity(
                self.query_id,
                self.run_id,
                definition.name,
                definition.source_description,
                definition.sink.description,
            ),
            epoch=committed.epoch,
            started_ms=times.started_ms,
            closed_ms=times.closed_ms,
            committed_ms=times.committed_ms,
            counters=[part.counters for part in reports],
            start_offset=self._committed_offset,
            end_offset=committed.offset,
            duration_ms=committed.duration_ms,
        )
        with self._changed:
            self.committed_epoch = committed.epoch
            self._committed_offset = committed.offset
            self.recent_progress.append(report)
            self._changed.notify_all()
        self._save_progress(throttled=True)

    # -- ending ---------------------------------------------------------------------------------

    def drain(self) -> None:
        """Ask for the open epoch to be finished and committed; then the query ends."""
        self._tell(DrainAsked())

    def stop(self) -> None:
        """Ask for the query to end now; records of the open epoch are read again next time."""
        self._tell(StopAsked())

    def _tell(self, event: DrainAsked | StopAsked | RunFailed) -> None:
        with self._changed:
            if not isinstance(event, RunFailed):
                self._end_asked = event
            run = self._run
        if run is not None:
            run.tell(event)

    def _terminate(self, error: ContinuousError | None, lease: Lease) -> None:
        definition = self.definition
        state = QueryState.STOPPED if error is None else QueryState.FAILED
        steps: list[Callable[[], object]] = [
            definition.reader.stop,
            lambda: self._save_progress(throttled=False),
            lambda: lease.release(state, error=None if error is None else str(error)),
        ]
        if definition.temporary_checkpoint and error is None:
            steps.append(definition.checkpoint.delete)
        for step in steps:  # each by itself: a source that fails must not leave the lease held
            try:
                step()
            except Exception:
                logger.exception("the query did not end cleanly")
        with self._changed:
            self.error, self.state = error, state
            self.message = "Stopped" if error is None else f"Terminated with exception: {error}"
            self._terminated.set()
            self._changed.notify_all()

    # -- looking --------------------------------------------------------------------------------

    @property
    def is_active(self) -> bool:
        """Whether the query has not ended yet."""
        return not self._terminated.is_set()

    def await_termination(self, timeout_s: float | None) -> bool:
        """Wait for the end; whether it came within the time."""
        return self._terminated.wait(timeout_s)

    def await_epoch(self, epoch: int, timeout_s: float | None) -> bool:
        """Wait until ``epoch`` is committed, the query has ended, or the time is over; whether it
        is committed."""
        with self._changed:
            self._changed.wait_for(
                lambda: self.committed_epoch >= epoch or self._terminated.is_set(), timeout_s
            )
            return self.committed_epoch >= epoch

    @property
    def open_epoch(self) -> int:
        """The epoch that records arriving now belong to."""
        with self._changed:
            run = self._run
            return run.coordinator.open_epoch if run else self.committed_epoch + 1

    def _set_message(self, message: str) -> None:
        self.message = message

    def _save_progress(self, *, throttled: bool) -> None:
        now_ms = self._clock.now_ms()
        if throttled and now_ms - getattr(self, "_progress_saved_ms", 0) < 1_000:
            return
        self._progress_saved_ms = now_ms
        try:
            self.definition.checkpoint.progress.write(list(self.recent_progress))
        except (OSError, ContinuousError) as exc:
            logger.warning("progress was not saved: %s", exc)
