"""The pure coordinator: Spark's EpochCoordinatorSuite, and every order of events."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.coordinator.behind import REDUCED_MAX
from engine.coordinator.coordinator import TRANSITIONS, EpochCoordinator, Phase
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
    EpochWanted,
    Event,
    RunFailed,
    StopAsked,
    TaskLost,
    TasksEnded,
    WireTasks,
)
from engine.errors import (
    ContinuousError,
    EpochBacklogError,
    ProtocolError,
    SinkError,
    TaskLostError,
)
from engine.progress.counters import EpochCounters
from engine.wire.messages import (
    Address,
    EpochCommitMessage,
    RecordsArrived,
    StateLoading,
    TaskFailed,
    TaskStarted,
    TaskWired,
)

RUN = "run-1"


def started(partition: int, run_id: str = RUN) -> TaskStarted:
    return TaskStarted(run_id, partition, "host", 1, Address("host", 1))


def report(epoch: int, partition: int = 0, run_id: str = RUN) -> EpochCommitMessage:
    return EpochCommitMessage(run_id, partition, epoch, (epoch * 10,), None, EpochCounters())


class Driver:
    """Feeds events and commits whatever is asked for, at once unless told otherwise."""

    def __init__(
        self,
        partitions: int,
        first_epoch: int = 1,
        backlog_max: int = 10,
        read: Sequence[range] | None = None,
        reducers: int = 0,
        keeps: bool = False,
    ) -> None:
        """
        :param reducers: so many of the tasks, the last ones, get their rows from others.
        :param keeps: all tasks keep state, so that several epochs may wait for them.
        """
        places = [None] * (partitions - reducers) + [(1, place) for place in range(reducers)]
        self.coordinator = EpochCoordinator(
            run_id=RUN,
            partitions=partitions,
            first_epoch=first_epoch,
            backlog_max=backlog_max,
            read=read,
            places=places,
            keeps=[True] * partitions if keeps else (),
        )
        self.committed: list[int] = []
        self.closed: list[int] = []
        self.ended: list[ContinuousError | None] = []
        self.auto_commit = True

    def feed(self, *events: Event) -> list[Action]:
        all_actions: list[Action] = []
        for event in events:
            actions = self.coordinator.handle(event)
            self.coordinator.check()
            all_actions += actions
            for action in actions:
                if isinstance(action, CloseEpoch):
                    self.closed.append(action.epoch)
                elif isinstance(action, EndRun):
                    self.ended.append(action.error)
                elif isinstance(action, WireTasks):
                    self.feed(
                        *(TaskWired(RUN, task) for task in range(self.coordinator.partitions))
                    )
                elif self.auto_commit:
                    self.commit(action)
        return all_actions

    def commit(self, action: CommitEpoch) -> None:
        assert [r.partition for r in action.reports] == list(range(self.coordinator.partitions))
        assert {r.epoch for r in action.reports} == {action.epoch}
        self.committed.append(action.epoch)
        self.feed(EpochCommitted(action.epoch))

    def run(self, *, epochs: int) -> Driver:
        self.feed(*(started(p) for p in range(self.coordinator.partitions)))
        self.feed(*(EpochElapsed() for _ in range(epochs)))
        return self


def test_single_epoch() -> None:
    driver = Driver(3).run(epochs=1)
    driver.feed(report(1, 0), report(1, 1))
    assert driver.committed == []
    driver.feed(report(1, 2))
    assert driver.committed == [1]


def test_consecutive_epochs_in_order() -> None:
    driver = Driver(2, keeps=True).run(epochs=2)
    driver.feed(report(1, 0), report(1, 1), report(2, 0), report(2, 1))
    assert driver.committed == [1, 2]


def test_late_message_of_an_earlier_epoch() -> None:
    driver = Driver(2, keeps=True).run(epochs=2)
    driver.feed(report(1, 0), report(2, 0), report(2, 1))
    assert driver.committed == []
    driver.feed(report(1, 1))
    assert driver.committed == [1, 2]


@pytest.mark.parametrize("order", [(1, 3, 4, 2), (4, 1, 3, 2)])
def test_messages_arrive_out_of_order(order: tuple[int, ...]) -> None:
    driver = Driver(1, keeps=True).run(epochs=len(order))
    driver.feed(*(report(epoch) for epoch in order))
    assert driver.committed == sorted(order)


@given(st.data())
def test_any_order_of_messages(data: st.DataObject) -> None:
    """Whatever the order and however often repeated: every epoch once, in order."""
    partitions = data.draw(st.integers(1, 4))
    epochs = data.draw(st.integers(1, REDUCED_MAX))
    messages = [report(e, p) for e in range(1, epochs + 1) for p in range(partitions)]
    repeated = data.draw(st.lists(st.sampled_from(messages), max_size=5))
    stale = [report(1, 0, run_id="older")]
    driver = Driver(partitions, keeps=True).run(epochs=epochs)
    driver.feed(*data.draw(st.permutations(messages + repeated + stale)))
    assert driver.committed == list(range(1, epochs + 1))
    assert driver.coordinator.reports == {}
    assert driver.coordinator.refused == 1


@given(st.data())
def test_random_walk_keeps_the_invariants(data: st.DataObject) -> None:
    """Ticks, reports and slow commits interleaved in any way."""
    partitions = data.draw(st.integers(1, 3))
    reducers = data.draw(st.integers(0, partitions - 1))
    driver = Driver(partitions, backlog_max=data.draw(st.sampled_from([4, 8])), reducers=reducers)
    driver.auto_commit = False
    driver.run(epochs=0)
    next_report = [1] * partitions
    pending: list[CommitEpoch] = []
    for _ in range(data.draw(st.integers(0, 40))):
        step = data.draw(st.sampled_from(["tick", "commit", *range(partitions)]))
        actions: list[Action] = []
        if step == "tick":
            actions = driver.feed(EpochElapsed())
        elif step == "commit":
            if pending:
                actions = driver.feed(EpochCommitted(pending.pop().epoch))
        elif next_report[step] < driver.coordinator.open_epoch:
            actions = driver.feed(report(next_report[step], step))
            next_report[step] += 1
        coordinator = driver.coordinator
        assert all(coordinator.committed < e < coordinator.open_epoch for e in coordinator.reports)
        pending += [action for action in actions if isinstance(action, CommitEpoch)]
        assert len(pending) <= 1
        if driver.ended:
            late = min(next_report)
            assert isinstance(driver.ended[0], EpochBacklogError)
            assert driver.ended[0].epoch == late
            return


def test_a_late_partition_ends_the_run_at_the_backlog_limit() -> None:
    driver = Driver(2, backlog_max=10).run(epochs=10)
    driver.feed(report(1, 0))
    assert (driver.closed, driver.ended) == ([1], [])
    driver.feed(EpochElapsed())
    (error,) = driver.ended
    assert isinstance(error, EpochBacklogError)
    assert (error.epoch, error.partition) == (1, 1)
    assert "elapsed 10 times, and waits for epoch 1, which partitions [1] have not" in str(error)


def test_a_task_that_is_late_has_a_whole_epoch_to_read() -> None:
    """Nothing is read in an epoch that is closed: who is late each time would never read."""
    driver = Driver(2, backlog_max=10).run(epochs=0)
    for epoch in range(1, 50):
        driver.feed(EpochElapsed())
        assert driver.closed[-1] == epoch
        driver.feed(report(epoch, 0), *[EpochElapsed()] * 5, report(epoch, 1))
        assert driver.closed[-1] == epoch, "it goes on until it has elapsed once more"
    assert driver.ended == []


def test_a_late_partition_that_is_one_of_many_is_not_listed_at_length() -> None:
    driver = Driver(10_000, backlog_max=1).run(epochs=2)
    assert len(str(driver.ended[0])) < 300
    assert "and 9,990 more" in str(driver.ended[0])


def test_a_slow_sink_lets_the_open_epoch_grow() -> None:
    """Two complete epochs wait; what elapses meanwhile is one longer epoch."""
    driver = Driver(1, backlog_max=10)
    driver.auto_commit = False
    driver.run(epochs=0)
    for epoch in range(1, 100):
        driver.feed(EpochElapsed())
        if epoch in driver.closed:
            driver.feed(report(epoch))
    assert driver.closed == [1, 2]
    assert driver.ended == []


def test_slow_state_lets_the_open_epoch_grow() -> None:
    """What is read waits for who writes its state: no more epochs are closed than can be."""
    driver = Driver(2, backlog_max=50, reducers=1).run(epochs=0)
    written = 1
    for elapsed in range(1, 400):
        before = len(driver.closed)
        driver.feed(EpochElapsed())
        driver.feed(*(report(epoch, 0) for epoch in driver.closed[before:]))
        if elapsed % 10 == 0:
            before = len(driver.closed)
            driver.feed(report(written, 1))
            driver.feed(*(report(epoch, 0) for epoch in driver.closed[before:]))
            written += 1
            assert driver.closed[-1] == driver.coordinator.committed + REDUCED_MAX
    assert driver.ended == []


def test_a_task_that_never_writes_its_state_ends_the_run() -> None:
    read = [range(1), range(0)]
    driver = Driver(2, backlog_max=50, read=read, reducers=1).run(epochs=0)
    for elapsed in range(1, 51 + REDUCED_MAX):
        assert driver.ended == []
        driver.feed(EpochElapsed())
        if elapsed <= REDUCED_MAX:
            driver.feed(report(elapsed, 0))
    (error,) = driver.ended
    assert isinstance(error, EpochBacklogError)
    assert "elapsed 50 times, and waits for epoch 1, which task 0 of stage 1" in str(error)


def test_an_epoch_that_elapsed_without_room_is_closed_as_soon_as_there_is_room() -> None:
    driver = Driver(1)
    driver.auto_commit = False
    driver.run(epochs=1)
    driver.feed(report(1), EpochElapsed(), report(2), EpochElapsed(), EpochElapsed())
    assert driver.closed == [1, 2]
    assert driver.feed(EpochCommitted(1))[1:] == [CloseEpoch(3, final=False)]
    driver.feed(report(3), EpochCommitted(2))
    assert driver.closed == [1, 2, 3], "nothing has elapsed since"
    driver.feed(EpochElapsed())
    assert driver.closed == [1, 2, 3, 4]


def test_epochs_that_a_late_task_completes_at_once_are_committed_first() -> None:
    driver = Driver(2, keeps=True)
    driver.auto_commit = False
    driver.run(epochs=4)
    driver.feed(*(report(epoch, p) for p in range(2) for epoch in range(1, 5)))
    driver.feed(EpochElapsed(), EpochElapsed())
    assert driver.ended == []
    driver.feed(*(EpochCommitted(epoch) for epoch in (1, 2)))
    assert driver.closed == [1, 2, 3, 4]
    driver.feed(EpochCommitted(3))
    assert driver.closed == [1, 2, 3, 4, 5]


def test_an_event_costs_the_same_with_any_number_of_partitions() -> None:
    """Python's steps are counted."""

    def steps(partitions: int) -> float:
        driver = Driver(partitions).run(epochs=1)
        reports = [report(1, p) for p in range(partitions)]
        count = 0

        def note(frame: FrameType, event: str, _: object) -> Any:
            nonlocal count
            frame.f_trace_opcodes = True
            count += event == "opcode"
            return note

        traced = sys.gettrace()
        sys.settrace(note)
        try:
            driver.feed(*reports)
        finally:
            sys.settrace(traced)
        assert driver.committed == [1]
        return count / partitions

    assert steps(500) < 1.5 * steps(50)


def test_nothing_elapses_before_all_tasks_have_started() -> None:
    driver = Driver(2)
    driver.feed(started(0), EpochElapsed())
    assert driver.closed == []
    driver.feed(started(1), EpochElapsed())
    assert driver.closed == [1]


def test_a_task_started_twice_fails_the_run() -> None:
    driver = Driver(1).run(epochs=0)
    driver.feed(started(0))
    assert isinstance(driver.ended[0], TaskLostError)


def test_a_report_of_an_open_epoch_is_our_bug() -> None:
    driver = Driver(1).run(epochs=1)
    driver.feed(report(2))
    assert isinstance(driver.ended[0], ProtocolError)


def test_drain_closes_the_open_epoch_and_ends_with_its_commit() -> None:
    driver = Driver(2).run(epochs=1)
    (close,) = driver.feed(DrainAsked())
    assert close == CloseEpoch(2, final=True)
    driver.feed(EpochElapsed(), DrainAsked())
    assert driver.closed == [1, 2]
    driver.feed(report(2, 0), report(1, 0), report(1, 1), TaskLost(0, "it left"))
    assert driver.ended == []
    driver.feed(report(2, 1))
    assert driver.committed == [1, 2]
    assert driver.ended == [None]


def test_drain_with_a_full_backlog_closes_one_epoch_more() -> None:
    driver = Driver(1)
    driver.auto_commit = False
    driver.run(epochs=1)
    driver.feed(report(1), EpochElapsed(), report(2), EpochElapsed(), DrainAsked(), report(3))
    assert driver.closed == [1, 2, 3]
    driver.auto_commit = True
    driver.feed(EpochCommitted(1))
    assert driver.ended == [None]
    assert driver.committed == [2, 3]


def test_a_task_that_hangs_ends_a_drain() -> None:
    driver = Driver(2, backlog_max=3, keeps=True).run(epochs=1)
    driver.feed(report(1, 0), report(1, 1), DrainAsked(), report(2, 0), *[EpochElapsed()] * 2)
    assert driver.ended == []
    driver.feed(EpochElapsed())
    (error,) = driver.ended
    assert isinstance(error, EpochBacklogError)
    assert "elapsed 3 times, and waits for epoch 2, which partitions [1] have" in str(error)


def test_a_sink_that_takes_its_time_ends_no_drain() -> None:
    driver = Driver(1, backlog_max=2).run(epochs=0)
    driver.auto_commit = False
    driver.feed(DrainAsked(), EpochElapsed(), report(1), *[EpochElapsed()] * 5)
    driver.feed(EpochCommitted(1))
    assert driver.ended == [None]


def test_drain_before_the_start_ends_at_once() -> None:
    driver = Driver(1)
    driver.feed(DrainAsked())
    assert driver.ended == [None]


def test_a_task_that_leaves_before_its_final_report_is_lost() -> None:
    driver = Driver(2).run(epochs=0)
    driver.feed(DrainAsked(), report(1, 0), TaskLost(1, "its connection was closed"))
    assert isinstance(driver.ended[0], TaskLostError)
    assert driver.ended[0].partition == 1


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (TaskLost(1, "silence"), r"The task of partitions \[3, 4\] is lost: silence\."),
        (started(1), r"The task of partitions \[3, 4\] was started a second time\."),
        (report(7, 1), r"Task 1 reported epoch 7"),
    ],
)
def test_errors_name_the_partitions_of_the_source(event: Event, told: str) -> None:
    driver = Driver(2, read=[range(3), range(3, 5)]).run(epochs=1)
    assert driver.coordinator.missing(1) == [0, 1, 2, 3, 4]
    driver.feed(report(1, 0))
    assert driver.coordinator.missing(1) == [3, 4]
    driver.feed(event)
    (error,) = driver.ended
    assert error is not None
    assert re.match(told, error.message)
    assert error.partition == 3


def test_tasks_that_have_all_ended_may_still_have_messages_under_way() -> None:
    driver = Driver(2)
    driver.feed(started(0), TasksEnded(None), started(1))
    driver.feed(DrainAsked(), TasksEnded(None), report(1, 0), report(1, 1))
    driver.feed(TasksEnded(TaskLostError("a worker died after its last word")))
    assert driver.committed == [1]
    assert driver.ended == [None]


def test_a_task_that_fails_behind_its_last_report_does_not_fail_the_drain() -> None:
    driver = Driver(2)
    driver.feed(started(0), started(1), DrainAsked())
    driver.feed(report(1, 0), TaskFailed(RUN, 0, SinkError("close() failed"), ""))
    assert driver.ended == []
    driver.feed(report(1, 1))
    assert driver.committed == [1]
    assert driver.ended == [None]


def test_a_task_that_fails_before_its_last_report_does() -> None:
    driver = Driver(2)
    driver.feed(started(0), started(1), DrainAsked(), report(1, 0))
    driver.feed(TaskFailed(RUN, 1, SinkError("write() failed"), ""))
    assert [str(error) for error in driver.ended] == ["write() failed"]


def test_a_bounded_run_ends_with_its_only_epoch() -> None:
    driver = Driver(1)
    driver.coordinator = EpochCoordinator(
        run_id=RUN, partitions=1, first_epoch=7, backlog_max=10, bounded=True
    )
    driver.feed(started(0), EpochElapsed(), report(7))
    assert driver.closed == []
    assert driver.committed == [7]
    assert driver.ended == [None]


@pytest.mark.parametrize(
    "event",
    [
        TaskFailed(RUN, 0, ContinuousError("boom"), ""),
        CommitFailed(1, SinkError("boom")),
        TasksEnded(TaskLostError("boom")),
        RunFailed(ContinuousError("boom")),
    ],
)
def test_failures_end_the_run_with_their_error(event: Event) -> None:
    driver = Driver(1).run(epochs=1)
    driver.feed(event)
    (error,) = driver.ended
    assert str(error) == "boom"


def test_after_the_end_nothing_happens() -> None:
    driver = Driver(1).run(epochs=1)
    driver.feed(StopAsked())
    assert driver.ended == [None]
    driver.feed(report(1), EpochElapsed(), TaskLost(0, "gone"), TasksEnded(None), DrainAsked())
    assert driver.committed == []
    assert driver.ended == [None]


def test_every_phase_knows_every_event_or_refuses_it() -> None:
    impossible = {
        (phase, event)
        for phase in Phase
        for event in TRANSITIONS[Phase.ENDED]
        if event not in TRANSITIONS[phase]
        # The run's, which decides when an epoch has elapsed, and when a task starts too late:
        if event not in (RecordsArrived, EpochWanted, StateLoading)
    }
    commits = (EpochLogged, EpochCommitted, CommitFailed)
    early = (Phase.STARTING, Phase.WIRING)
    elsewhere = set(Phase) - {Phase.WIRING, Phase.ENDED}
    assert impossible == {
        *((phase, event) for phase in early for event in commits),
        *((phase, TaskWired) for phase in elsewhere),
    }
    with pytest.raises(ProtocolError, match="EpochCommitted cannot happen while starting"):
        Driver(1).coordinator.handle(EpochCommitted(1))
