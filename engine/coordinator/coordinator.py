"""The epoch coordinator: events in, actions out. No clock, no I/O, no threads.

Theory of operation
-------------------
Tasks produce records of the *open* epoch. When it has elapsed, the coordinator closes it (every
task gets the marker) and opens the next; no task waits for a commit. Each task then reports its
part of the closed epoch. An epoch is *complete* when every partition has reported it. Complete
epochs are committed one at a time and in order::

    ... committed | logged | committing | complete | closed, some reports missing | open
                 ^        ^                                                        ^
                 |        self.logged                                self.open_epoch
                 self.committed

Mostly an epoch is logged and committed in one. A sink that commits several epochs together gets
those that are logged when it is due: a restart finishes them, so nothing else waits for it.

Three things can be behind, and each has its limit:

- the sink: an epoch is closed only while fewer than :data:`COMPLETE_MAX` are complete and not
  logged. One is being committed, the next is at hand then, and the open one grows: a slow sink gets
  fewer and longer epochs, and memory does not fill. One that elapsed is closed once there is room;
- a task that reads: an epoch is closed only when each has reported the one before, so that all read
  in all epochs. The open one goes on until its next end;
- tasks that keep state, which write it to a slow storage for example: at most
  :data:`~engine.coordinator.behind.REDUCED_MAX` epochs wait for them alone, and the open one grows.

If it would have ended ``backlog_max`` times for want of tasks since one was logged, the run fails;
while it drains, if the final one was not finished for as long.

Invariants, checked in :meth:`EpochCoordinator.check`:

- epochs are logged and committed in order and without gaps, the final one in one;
- at most one epoch is being committed;
- an epoch is committed only with one report of each partition;
- no report is kept of an epoch that is logged or still open;
- at most :data:`_WAITING_MAX` epochs, and the final one, are closed and not logged;
- an epoch that has elapsed stays open only while there is no room.

An event costs the same whatever the number of partitions, but for the one that completes an epoch.

A query whose tasks send rows to one another is WIRING behind its start: each task is told where the
others are, and says when it has reached them.

All transitions stand in :data:`TRANSITIONS`: phase → event → handler. An event that has no entry
is our bug and raises ProtocolError. After the end, what was still under way is heard: a report, to
be aborted; how the last commit went.

Source: Spark's EpochCoordinator, with its known faults turned into rules: commits in order
(SPARK-23503), a report of a logged epoch is dropped, a lost partition is named at the limit
(SPARK-27355).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, get_args

from engine.base.listing import partitions_named
from engine.base.text_tables import count
from engine.checkpoint.epoch_state import Marks
from engine.coordinator.behind import REDUCED_MAX, Behind, late_named
from engine.coordinator.events import (
    Action,
    CloseEpoch,
    CommitEpoch,
    CommitFailed,
    DrainAsked,
    EndRun,
    EpochCommitted,
    EpochElapsed,
    EpochLogged,
    Event,
    RunFailed,
    StopAsked,
    TaskLost,
    TasksEnded,
    WireTasks,
)
from engine.coordinator.watermarks import Watermarks
from engine.errors import ContinuousError, EpochBacklogError, ProtocolError, TaskLostError
from engine.wire.messages import (
    Address,
    EpochCommitMessage,
    TaskFailed,
    TaskMessage,
    TaskStarted,
    TaskWired,
)

COMPLETE_MAX = 2
"""So many epochs may be complete and not logged before the open one has to grow."""
_WAITING_MAX = COMPLETE_MAX - 1 + REDUCED_MAX


class Phase(Enum):
    """Where a run is in its life."""

    STARTING = "starting"
    WIRING = "wiring"
    RUNNING = "running"
    REPLAYING = "replaying"
    DRAINING = "draining"
    ENDED = "ended"


class EpochCoordinator:
    """One run of a query.

    :param run_id: messages of any other run are refused.
    :param partitions: how many tasks there are. A task counts as one partition here, but
        :meth:`missing` and errors name those that it reads.
    :param first_epoch: the first epoch of this run; the one before it is committed (or is -1).
    :param backlog_max: how often the open epoch may elapse in vain for tasks that are behind.
    :param bounded: the tasks end the first epoch by themselves, at a given offset, and the run
        ends with its commit: a replay of an epoch whose end is already in the offset log.
    :param read: the numbers of the partitions that each task reads; None: its own. None of a task
        that gets its rows from others.
    :param places: of each task that gets rows from others, its pipeline and place there; else None.
    :param keeps: for each task whether it keeps state; none: those that others send rows to.
    :param watermarks: how far event time has come; None of a query without.
    :param end_watermark_ms: if ``bounded``, the watermark behind the epoch.
    """

    def __init__(
        self,
        *,
        run_id: str,
        partitions: int,
        first_epoch: int,
        backlog_max: int,
        bounded: bool = False,
        read: Sequence[Sequence[int]] | None = None,
        places: Sequence[tuple[int, int] | None] = (),
        keeps: Sequence[bool] = (),
        watermarks: Watermarks | None = None,
        end_watermark_ms: int = 0,
    ) -> None:
        self.run_id = run_id
        self.partitions = partitions
        self._read = [(task,) for task in range(partitions)] if read is None else read
        self.backlog_max = backlog_max
        self.phase = Phase.STARTING
        self.committed = self.logged = first_epoch - 1
        self.open_epoch = first_epoch
        self.committing: int | None = None
        self.started: set[int] = set()
        self.wired: set[int] = set()
        self._places = list(places) or [None] * partitions
        self._behind = Behind(list(keeps) or [place is not None for place in self._places])
        self._addresses: dict[int, Address] = {}
        self._watermarks = Watermarks(()) if watermarks is None else watermarks
        self._watermarks_ms = {first_epoch: self._watermarks.current_ms}
        self._marks: dict[int, Marks] = {}
        """Of the epochs that are not logged."""
        self.reports: dict[int, dict[int, EpochCommitMessage]] = {}
        self.final_epoch: int | None = None
        self._now_ms = 0
        self.is_overdue = False  # the open epoch has elapsed, and could not be closed
        self.refused = 0  # messages of older runs
        if bounded:
            self.final_epoch = first_epoch
            self.open_epoch = first_epoch + 1
            self._watermarks_ms[self.open_epoch] = end_watermark_ms
        else:
            self._watermarks.go_on()

    def handle(self, event: Event) -> list[Action]:
        """Take in one event.

        :return: what is to be done, in this order.
        :raises ProtocolError: the event cannot happen in this phase.
        """
        if isinstance(event, TaskMessage) and event.run_id != self.run_id:
            self.refused += 1
            return []
        handler = TRANSITIONS[self.phase].get(type(event))
        if handler is None:
            raise ProtocolError(f"{type(event).__name__} cannot happen while {self.phase.value}.")
        return handler(self, event)

    def missing(self, epoch: int) -> list[int]:
        """The partitions that have not reported the epoch, ascending."""
        reported = self.reports.get(epoch, {})
        return [
            partition
            for task, partitions in enumerate(self._read)
            if task not in reported
            for partition in partitions
        ]

    def missing_reducers(self, epoch: int) -> list[str]:
        """The tasks that get their rows from others and have not reported the epoch, named."""
        reported = self.reports.get(epoch, {})
        return [
            self._named(task)
            for task, place in enumerate(self._places)
            if place is not None and task not in reported
        ]

    @property
    def watermark_due_ms(self) -> int | None:
        """When the next marker brings a watermark that is news, by the wall clock; None: never."""
        return self._watermarks.beyond_at_ms(self._watermarks_ms[self.open_epoch])

    def check(self) -> None:
        """Assert the invariants; called after every event, so it looks at what can have changed."""
        waiting = self._waiting
        assert self.committed <= self.logged < self.open_epoch
        assert waiting <= _WAITING_MAX + (self.final_epoch is not None)
        assert self.committing is None or self.committing == self.logged + 1
        assert self.logged not in self.reports
        assert self.open_epoch not in self.reports
        assert len(self.reports) <= waiting
        assert not (self.is_overdue and self._has_room)
        assert len(self.started) <= self.partitions

    # -- handlers ---------------------------------------------------------------------------

    def _task_started(self, event: TaskStarted) -> list[Action]:
        if event.partition in self.started:
            # Spark starts a task again with the offsets that the run began with: it would read
            # again what is in the epochs since.
            return self._lose(
                event.partition,
                "was started a second time",
                hint="Its first attempt died; start the query again.",
            )
        self.started.add(event.partition)
        if event.address is not None:
            self._addresses[event.partition] = event.address
        if len(self.started) < self.partitions:
            return self._next_commit()
        if any(place is not None for place in self._places):
            self.phase = Phase.WIRING
            return [WireTasks(self._wiring())]
        self._go()
        return self._next_commit()

    def _wiring(self) -> dict[int, tuple[Address, ...]]:
        """Where the tasks of each pipeline take rows, in the order of their places."""
        placed = sorted((place, task) for task, place in enumerate(self._places) if place)
        wiring: dict[int, tuple[Address, ...]] = {}
        for (pipeline, _), task in placed:
            wiring[pipeline] = (*wiring.get(pipeline, ()), self._addresses[task])
        return wiring

    def _task_wired(self, event: TaskWired) -> list[Action]:
        self.wired.add(event.partition)
        if len(self.wired) == self.partitions:
            self._go()
        return self._next_commit()

    def _go(self) -> None:
        self.phase = Phase.RUNNING if self.final_epoch is None else Phase.REPLAYING

    def _epoch_elapsed(self, event: EpochElapsed) -> list[Action]:
        self._now_ms = event.at_ms
        if self._has_room:
            return [self._close()]
        # A task that comes to the open epoch only now has until its next end to read in it.
        self.is_overdue = not self._behind.has_late_reader
        return [] if self._behind.has_room else self._await_late()

    def _drain_elapsed(self, event: EpochElapsed) -> list[Action]:
        self._now_ms = event.at_ms
        return [] if self.logged == self.final_epoch else self._await_late()

    def _await_late(self) -> list[Action]:
        oldest = self.logged + 1
        self._behind.elapsed()
        if self._behind.held < self.backlog_max or self._is_complete(oldest):
            return []
        late, reducers = self.missing(oldest), self.missing_reducers(oldest)
        error = EpochBacklogError(
            f"The open epoch has elapsed {count(self._behind.held, 'time')}, and waits for "
            f"epoch {oldest}, which {late_named(late, reducers)} have not finished.",
            epoch=oldest,
            partition=late[0] if late else None,
            hint="See what these tasks do, or raise option epochBacklogMax.",
        )
        return self._end(error)

    def _epoch_reported(self, event: EpochCommitMessage) -> list[Action]:
        epoch, task = event.epoch, event.partition
        if epoch <= self.logged or task in self.reports.get(epoch, ()):
            return []  # repeated: the first report counts
        if epoch >= self.open_epoch:
            message = f"Task {task} reported epoch {epoch}, which is still open."
            first = self._first_partition(task)
            return self._end(ProtocolError(message, epoch=epoch, partition=first))
        reports = self.reports.setdefault(epoch, {})
        reports[task] = event
        self._behind.reported(epoch, task)
        if len(reports) == self.partitions:
            self._behind.completed(epoch)
            counters = [each.counters for each in reports.values()]
            self._marks[epoch] = self._watermarks.hear(counters, self._now_ms)
        elif not self.is_overdue:
            return []  # most reports: nothing has become possible
        return self._go_on()

    def _epoch_logged(self, event: EpochLogged) -> list[Action]:
        if event.epoch != self.committing or event.epoch == self.final_epoch:
            raise ProtocolError(f"Epoch {event.epoch} was logged, not {self.committing}.")
        self._log(event.epoch)
        return self._go_on()

    def _epoch_committed(self, event: EpochCommitted) -> list[Action]:
        self._commit(event)
        if event.epoch == self.final_epoch:
            return self._end(None)
        return self._go_on()

    def _commit(self, event: EpochCommitted) -> None:
        if event.epoch == self.committing:
            self._log(event.epoch)
        elif not self.committed < event.epoch <= self.logged:
            raise ProtocolError(f"Epoch {event.epoch} was committed, not {self.committing}.")
        self.committed = event.epoch

    def _log(self, epoch: int) -> None:
        self.logged, self.committing = epoch, None
        self._behind.logged()
        del self.reports[epoch], self._watermarks_ms[epoch]

    def _go_on(self) -> list[Action]:
        actions = self._next_commit()
        if self.is_overdue and self._has_room:
            actions.append(self._close())
        return actions

    def _commit_failed(self, event: CommitFailed) -> list[Action]:
        return self._end(event.error)

    def _task_failed(self, event: TaskFailed) -> list[Action]:
        if self._has_finished(event.partition):
            return []  # its part of the final epoch is prepared
        return self._end(event.error)

    def _run_failed(self, event: RunFailed) -> list[Action]:
        return self._end(event.error)

    def _task_lost(self, event: TaskLost) -> list[Action]:
        if self._has_finished(event.partition):
            return []
        return self._lose(
            event.partition,
            f"is lost: {event.reason}",
            hint="Start the query again: it goes on after the last committed epoch.",
        )

    def _tasks_ended(self, event: TasksEnded) -> list[Action]:
        # The launcher tells this on a way of its own, and it may overtake what the tasks say. If
        # no task has failed, each has sent its last report or has hung up: either will arrive.
        if event.error is None or all(map(self._has_finished, range(self.partitions))):
            return []
        return self._end(event.error)

    def _drain(self, event: DrainAsked) -> list[Action]:
        self.phase = Phase.DRAINING
        self.final_epoch = self.open_epoch
        return [self._close()]

    def _stop(self, event: StopAsked | DrainAsked) -> list[Action]:
        return self._end(None)

    def _ignore(self, event: Event) -> list[Action]:
        return []

    def _report_late(self, event: EpochCommitMessage) -> list[Action]:
        # Kept, so that what the task has prepared can be aborted.
        if self.logged < event.epoch < self.open_epoch:
            self.reports.setdefault(event.epoch, {}).setdefault(event.partition, event)
        return []

    def _logged_late(self, event: EpochLogged) -> list[Action]:
        self._log(event.epoch)
        return []

    def _committed_late(self, event: EpochCommitted) -> list[Action]:
        self._commit(event)
        return []

    # -- decisions --------------------------------------------------------------------------

    @property
    def _waiting(self) -> int:
        """How many epochs are closed and not logged."""
        return self.open_epoch - self.logged - 1

    @property
    def _has_room(self) -> bool:
        complete = sum(map(self._is_complete, self.reports))
        return complete < COMPLETE_MAX and self._behind.has_room

    def _is_complete(self, epoch: int) -> bool:
        return len(self.reports.get(epoch, ())) == self.partitions

    def _close(self) -> CloseEpoch:
        epoch = self.open_epoch
        self.open_epoch += 1
        self._behind.closed(epoch)
        self.is_overdue = False
        self._watermarks_ms[self.open_epoch] = self._watermarks.current_ms
        return CloseEpoch(epoch, epoch == self.final_epoch, self._watermarks.current_ms)

    def _next_commit(self) -> list[Action]:
        epoch = self.logged + 1
        if self.committing is not None or not self._is_complete(epoch):
            return []
        self.committing = epoch
        reports = self.reports[epoch]
        told = tuple(reports[p] for p in range(self.partitions))
        watermarks = self._watermarks_ms[epoch], self._watermarks_ms[epoch + 1]
        is_final, marks = epoch == self.final_epoch, self._marks.pop(epoch)
        return [CommitEpoch(epoch, told, is_final, *watermarks, marks)]

    def _has_finished(self, partition: int) -> bool:
        final = self.final_epoch
        return final is not None and (
            self.logged >= final or partition in self.reports.get(final, {})
        )

    def _lose(self, task: int, what: str, *, hint: str) -> list[Action]:
        message = f"{self._named(task)} {what}."
        message = message[0].upper() + message[1:]
        return self._end(TaskLostError(message, partition=self._first_partition(task), hint=hint))

    def _named(self, task: int) -> str:
        place = self._places[task]
        if place is None:
            return f"the task of {partitions_named(self._read[task])}"
        return f"task {place[1]} of stage {place[0]}"

    def _first_partition(self, task: int) -> int | None:
        return self._read[task][0] if self._read[task] else None

    def _end(self, error: ContinuousError | None) -> list[Action]:
        self.phase = Phase.ENDED
        self.is_overdue = False
        return [EndRun(error)]


Handler = Callable[[EpochCoordinator, Any], list[Action]]  # each takes its own event
_C = EpochCoordinator
_ANYTIME: dict[type, Handler] = {
    TaskFailed: _C._task_failed,
    TaskLost: _C._task_lost,
    TasksEnded: _C._tasks_ended,
    RunFailed: _C._run_failed,
    StopAsked: _C._stop,
}
_ENDING: dict[type, Handler] = {
    **_ANYTIME,
    TaskStarted: _C._task_started,
    EpochElapsed: _C._ignore,
    EpochCommitMessage: _C._epoch_reported,
    EpochLogged: _C._epoch_logged,
    EpochCommitted: _C._epoch_committed,
    CommitFailed: _C._commit_failed,
    DrainAsked: _C._ignore,
}
TRANSITIONS: dict[Phase, dict[type, Handler]] = {
    Phase.STARTING: {
        **_ANYTIME,
        TaskStarted: _C._task_started,
        EpochElapsed: _C._ignore,
        EpochCommitMessage: _C._epoch_reported,
        DrainAsked: _C._stop,
    },
    Phase.WIRING: {
        **_ANYTIME,
        TaskStarted: _C._task_started,
        TaskWired: _C._task_wired,
        EpochElapsed: _C._ignore,
        EpochCommitMessage: _C._epoch_reported,
        DrainAsked: _C._stop,
    },
    Phase.RUNNING: {
        **_ANYTIME,
        TaskStarted: _C._task_started,
        EpochElapsed: _C._epoch_elapsed,
        EpochCommitMessage: _C._epoch_reported,
        EpochLogged: _C._epoch_logged,
        EpochCommitted: _C._epoch_committed,
        CommitFailed: _C._commit_failed,
        DrainAsked: _C._drain,
    },
    Phase.REPLAYING: _ENDING,
    Phase.DRAINING: {**_ENDING, EpochElapsed: _C._drain_elapsed},
    Phase.ENDED: {
        **dict.fromkeys(get_args(Event), _C._ignore),
        EpochCommitMessage: _C._report_late,
        EpochLogged: _C._logged_late,
        EpochCommitted: _C._committed_late,
        CommitFailed: _C._commit_failed,
    },
}
