"""Failures that do not end the query: it goes on by itself, from the last committed epoch."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from engine.checkpoint.lease import Lease
from engine.checkpoint.query_history import history
from engine.checkpoint.query_state import QueryState
from engine.coordinator.coordinator import Phase
from engine.coordinator.endpoint import Endpoint
from engine.errors import (
    BadRecordError,
    CheckpointError,
    EpochStalledError,
    SinkCommitRejectedError,
    SinkCommitUnknownError,
    SinkUnavailableError,
    SourceError,
    StaleRunError,
    TaskLostError,
    TransformError,
)
from engine.execution.attempt import Attempt
from engine.execution.execution import ContinuousExecution
from engine.execution.health import Stall
from engine.execution.launcher import ThreadLauncher
from engine.execution.slots import CLUSTER, Slots
from engine.task.loop import TaskDismissed
from engine.wire.messages import EpochMarker
from tests.model import HOUR_MS, ModelReader, definition
from tests.simulation.story import WAIT_S, Story, await_status

ROWS = 30


def finish(story: Story, query: Any, rows: int) -> None:
    """Every record is there once, and the query is still the same run."""
    story.await_rows(query, rows)
    assert query.drain(WAIT_S)
    assert story.sink.assert_exactly_once(story.partitions) == rows
    committed = sorted(story.sink.committed)
    assert committed == list(range(len(committed)))


@pytest.mark.parametrize(
    ("fault", "budget"),
    [
        (ValueError("the wire is cut"), "retry_source_for_ms"),
        (TaskDismissed(), "retry_infrastructure_for_ms"),
        (SystemExit("out of memory"), "retry_infrastructure_for_ms"),
    ],
)
def test_a_failing_task_is_started_again(story: Story, fault: BaseException, budget: str) -> None:
    query = story.start(**{budget: HOUR_MS})
    query.awaitEpoch(0, WAIT_S)
    story.feed.faults[(1, 3)] = fault
    run_id = query.runId
    story.feed.add(ROWS)
    story.await_rows(query, 2 * ROWS)
    assert (query.runId, query.isActive) == (run_id, True)
    assert query.status["restarts"] == 1
    assert query.status["next_attempt_at_ms"] is None
    assert "artition 1" in query.status["last_error"]
    assert query.exception() is None
    finish(story, query, 2 * ROWS)


def test_slots_of_a_lost_executor_are_waited_for(story: Story) -> None:
    class LosesAnExecutor(ThreadLauncher):
        supply = CLUSTER
        counts = iter([Slots(4, 4)] * 3 + [Slots(1, 1)])

        def slots(self) -> Slots:
            return next(self.counts, Slots(4, 4))

    launcher = LosesAnExecutor()
    query = story.start(launcher, retry_infrastructure_for_ms=HOUR_MS)
    query.awaitEpoch(0, WAIT_S)
    story.feed.faults[(1, 3)] = SystemExit("out of memory")
    story.feed.add(ROWS)
    story.await_rows(query, 2 * ROWS)
    assert query.status["restarts"] == 1
    finish(story, query, 2 * ROWS)


@pytest.mark.parametrize("error", [OSError("disk on fire"), SinkUnavailableError("no route")])
def test_a_failing_sink_commit_is_done_again(story: Story, error: Exception) -> None:
    story.sink.fail_commit[2] = error
    query = story.start(retry_sink_for_ms=HOUR_MS)
    story.feed.add(ROWS)
    query.awaitEpoch(2, WAIT_S)
    assert story.sink.commit_calls[:4] == [0, 1, 2, 2]
    finish(story, query, 2 * ROWS)


def test_restarts_and_the_last_error_are_in_status_progress_and_checkpoint(story: Story) -> None:
    story.feed.faults[(0, 0)] = ValueError("the wire is cut")
    query = story.start(retry_source_for_ms=HOUR_MS)
    story.feed.add(1)
    story.await_rows(query, 2)
    last = query.lastProgress
    assert last is not None
    assert last["restarts"] == 1
    assert "the wire is cut" in last["lastError"]
    query.drain(WAIT_S)
    status = story.checkpoint.status()
    assert (status.state, status.error, status.restarts) == (QueryState.STOPPED, None, 1)
    assert status.last_error is not None
    assert "the wire is cut" in status.last_error
    assert status.error_class == "SourceError"


def test_every_attempt_is_a_generation_of_its_own(story: Story) -> None:
    seen: list[int] = []
    query = story.start(retry_source_for_ms=HOUR_MS)
    generation = story.checkpoint.status().generation
    assert generation is not None
    for turn in range(3):
        story.feed.faults[(0, turn)] = ValueError("again")
        story.feed.add(1)
        story.await_rows(query, 2 * (turn + 1))
        now = story.checkpoint.status().generation
        assert now is not None
        seen.append(now)
    assert seen == [generation + 1, generation + 2, generation + 3]
    finish(story, query, 6)


def test_the_budget_ends(story: Story) -> None:
    for seq in range(5):
        story.feed.faults[(0, seq)] = TransformError(f"fault {seq}")
    query = story.start(restarts_user=2)
    story.feed.add(5)
    with pytest.raises(TransformError, match="fault 2"):
        query.awaitTermination(WAIT_S)
    assert query.status["restarts"] == 2
    assert story.checkpoint.status().state is QueryState.FAILED


@pytest.mark.parametrize(
    "error", [BadRecordError("not JSON"), SinkCommitRejectedError("no such table")]
)
def test_a_final_error_is_not_tried_again(story: Story, error: Exception) -> None:
    if isinstance(error, BadRecordError):
        story.feed.faults[(0, 0)] = error
    else:
        story.sink.fail_commit[0] = error
    query = story.start(retry_source_for_ms=HOUR_MS, retry_sink_for_ms=HOUR_MS)
    story.feed.add(1)
    with pytest.raises(type(error)):
        query.awaitTermination(WAIT_S)
    assert query.status["restarts"] == 0


@pytest.mark.parametrize("end", ["stop", "drain"])
def test_the_end_can_be_asked_for_between_two_attempts(story: Story, end: str) -> None:
    story.feed.faults[(0, 0)] = ValueError("the wire is cut")
    query = story.start(retry_source_for_ms=HOUR_MS, restart_delay_ms=WAIT_S * 10_000)
    story.feed.add(1)
    await_status(story, lambda status: status.state is QueryState.RESTARTING)
    status = story.checkpoint.status()
    assert status.next_attempt_at_ms is not None
    assert status.message is not None
    assert "the wire is cut" in status.message
    if end == "stop":
        query.stop()
        assert query.exception() is None
    else:
        with pytest.raises(SourceError, match="the wire is cut"):
            query.drain(WAIT_S)
    assert not query.isActive
    again = story.start()
    finish(story, again, 2)


def test_a_run_that_was_fenced_while_it_waited_ends(story: Story) -> None:
    story.feed.faults[(0, 0)] = ValueError("the wire is cut")
    query = story.start(retry_source_for_ms=HOUR_MS, restart_delay_ms=WAIT_S * 10_000)
    story.feed.add(1)
    await_status(story, lambda status: status.state is QueryState.RESTARTING)
    storage = story.checkpoint.storage
    generation = story.checkpoint.status().generation
    storage.delete(f"control/generations/{generation}")
    with pytest.raises(StaleRunError):
        query.awaitTermination(WAIT_S)


def test_a_recovery_that_fails_is_tried_again(story: Story) -> None:
    """The sink is down for two attempts: one fails in a commit, the next in its recovery."""
    epoch = 3
    story.sink.fail_commit[epoch] = OSError("down")
    commit = story.sink.commit
    downs = [OSError("still down")]

    def failing(messages: Any, number: int) -> None:
        if number == epoch and epoch not in story.sink.fail_commit and downs:
            raise downs.pop()
        commit(messages, number)

    story.sink.commit = failing  # type: ignore[method-assign]
    query = story.start(retry_sink_for_ms=HOUR_MS)
    story.feed.add(ROWS)
    query.awaitEpoch(epoch, WAIT_S)
    assert query.status["restarts"] == 2
    finish(story, query, 2 * ROWS)


def test_new_partitions_are_read_without_a_restart(story: Story) -> None:
    query = story.start()
    story.feed.add(5)
    story.await_rows(query, 10)
    with story.feed.changed:
        story.feed.available.append(0)
    story.partitions = 3
    story.feed.add(4)
    story.await_rows(query, 10 + 12)
    assert query.status["restarts"] == 0
    assert query.status["state"] == QueryState.RUNNING.value
    assert query.exception() is None
    finish(story, query, 22)
    assert story.checkpoint.committed_offsets() == ({"0": 9, "1": 9, "2": 4},)


def test_a_source_that_cannot_tell_its_partitions_is_the_sources_failure(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ModelReader, "needsReconfiguration", lambda self: 1 / 0)
    with pytest.raises(SourceError, match="cannot tell its partitions: ZeroDivisionError"):
        story.start().awaitTermination(WAIT_S)


def test_a_source_that_hangs_in_an_answer_is_not_asked_again_meanwhile(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, answered = threading.Semaphore(0), threading.Event()

    def hang(self: ModelReader) -> bool:
        asked.release()
        assert answered.wait(WAIT_S)
        return False

    monkeypatch.setattr(ModelReader, "needsReconfiguration", hang)
    story.feed.faults[(0, 3)] = ValueError("the wire is cut")
    query = story.start(retry_source_for_ms=HOUR_MS)
    story.feed.add(ROWS)
    story.await_rows(query, 2 * ROWS)
    assert query.status["restarts"] == 1
    finish(story, query, 2 * ROWS)
    assert asked.acquire(timeout=WAIT_S)
    assert not asked.acquire(blocking=False)
    answered.set()


class Gate:
    """Holds a commit of the sink until it is opened."""

    def __init__(self, story: Story) -> None:
        self.open = threading.Event()
        self.entered = threading.Event()
        self._commit = story.sink.commit
        story.sink.commit = self.commit  # type: ignore[method-assign]

    def commit(self, messages: Any, epoch: int) -> None:
        self.entered.set()
        assert self.open.wait(WAIT_S)
        self._commit(messages, epoch)


def test_a_sink_that_hangs_makes_the_query_stalled(story: Story) -> None:
    gate = Gate(story)
    query = story.start(stall_after_intervals=1)
    told = "the sink has not committed it"  # at first tasks may be late, too
    await_status(story, lambda s: s.state is QueryState.STALLED and told in (s.message or ""))
    gate.open.set()
    await_status(story, lambda status: status.state is QueryState.RUNNING)
    query.drain(WAIT_S)


def test_a_partition_that_does_not_end_its_epoch_is_named_and_restarted(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A marker is lost once: the tasks never learn that the epoch is over."""
    broadcast = Endpoint.broadcast
    lost: list[Any] = []

    def losing(self: Endpoint, message: Any) -> None:
        if isinstance(message, EpochMarker) and (not lost or lost[0] is self):
            lost.append(self)
        else:
            broadcast(self, message)

    monkeypatch.setattr(Endpoint, "broadcast", losing)
    query = story.start(
        stall_after_intervals=1, on_stall="restart", retry_infrastructure_for_ms=HOUR_MS
    )
    story.feed.add(ROWS)
    assert query.awaitEpoch(0, WAIT_S)
    assert isinstance(query._execution.last_error, EpochStalledError)
    finish(story, query, 2 * ROWS)
    first, *_ = (mark for mark in history(story.checkpoint).marks if mark.kind == "restarted")
    assert "partitions [0, 1]" in first.reason


@pytest.mark.parametrize("call", ["stop", "drain", "awaitTermination"])
def test_a_sink_may_end_its_own_query(story: Story, call: str) -> None:
    """Waiting for the end inside of a commit would wait for itself."""
    commit = story.sink.commit
    started = threading.Event()

    def ending(messages: Any, epoch: int) -> None:
        assert started.wait(WAIT_S)
        if epoch == 1:
            query.stop() if call == "stop" else getattr(query, call)(WAIT_S)
        commit(messages, epoch)

    story.sink.commit = ending  # type: ignore[method-assign]
    query = story.start()
    started.set()
    assert query.awaitEpoch(1, WAIT_S)
    query.stop()
    assert query.exception() is None


def test_a_commit_that_fails_while_the_query_is_stopped_is_told(story: Story) -> None:
    gate = Gate(story)
    story.sink.fail_commit[0] = OSError("disk on fire")
    query = story.start()
    assert gate.entered.wait(WAIT_S)
    query._execution.stop()
    gate.open.set()
    with pytest.raises(SinkCommitUnknownError, match="disk on fire"):
        query.awaitTermination(WAIT_S)


def test_tasks_that_never_ran_are_no_case_for_a_restart(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    from engine.execution import launcher

    def run_task(spec: Any) -> None:
        raise ImportError("No module named 'theirs'")

    monkeypatch.setattr(launcher, "run_task", run_task)
    with pytest.raises(TaskLostError, match="No module named 'theirs'"):
        story.start(retry_infrastructure_for_ms=HOUR_MS).awaitTermination(WAIT_S)


def test_a_new_driver_bears_a_task_that_is_lost_before_all_have_run(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own tasks have never run, but those of the query have: there is a committed epoch."""
    from engine.execution import launcher

    query = story.start()
    query.awaitEpoch(0, WAIT_S)
    query.drain(WAIT_S)
    run_task, lost = launcher.run_task, set[int]()

    def losing(spec: Any) -> None:
        if spec.identity.task not in lost:
            lost.add(spec.identity.task)
            raise ConnectionError("the executor is gone")
        run_task(spec)

    monkeypatch.setattr(launcher, "run_task", losing)
    query = story.start(retry_infrastructure_for_ms=HOUR_MS)
    story.feed.add(ROWS)
    finish(story, query, 2 * ROWS)
    assert query.status["restarts"] == 1


def test_a_storage_that_is_gone_for_a_moment_is_tried_again(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    acquire = Lease.acquire
    failures = [CheckpointError("no route to the storage")]

    def failing(checkpoint: Any, **rest: Any) -> Lease:
        if failures and checkpoint.committed_epoch() >= 0:
            raise failures.pop()
        return acquire(checkpoint, **rest)

    monkeypatch.setattr(Lease, "acquire", failing)
    query = story.start(retry_storage_for_ms=HOUR_MS, retry_source_for_ms=HOUR_MS)
    query.awaitEpoch(0, WAIT_S)
    story.feed.faults[(0, 0)] = ValueError("the wire is cut")
    story.feed.add(ROWS)
    story.await_rows(query, 2 * ROWS)
    assert query.status["restarts"] == 2
    assert "no route" in query.status["last_error"]
    finish(story, query, 2 * ROWS)


def test_a_storage_that_cannot_be_looked_at_between_two_attempts(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_go = Attempt.let_go
    failures = [CheckpointError("no route to the storage")]

    def failing(self: Lease, *, recent: bool = False) -> None:
        raise failures.pop()

    def without_storage(attempt: Attempt) -> Lease | None:
        if not failures:
            return let_go(attempt)
        with monkeypatch.context() as meanwhile:
            meanwhile.setattr(Lease, "check", failing)
            return let_go(attempt)

    query = story.start(retry_infrastructure_for_ms=HOUR_MS, retry_source_for_ms=HOUR_MS)
    query.awaitEpoch(0, WAIT_S)
    story.feed.faults[(0, 0)] = ValueError("the wire is cut")
    monkeypatch.setattr(Attempt, "let_go", without_storage)
    story.feed.add(ROWS)
    finish(story, query, 2 * ROWS)
    assert failures == []


@pytest.mark.parametrize("where", ["sink", "source"])
def test_a_recovery_that_meets_a_foreign_error_is_tried_again(
    story: Story, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    down = [ConnectionError("the database is down")] * 2
    partitions = ModelReader.partitions

    def latest() -> int:
        if down and query_runs.is_set():
            raise down.pop()
        return max(story.sink.committed, default=-1)

    def failing(self: ModelReader, start: Any) -> Any:
        if down and query_runs.is_set():
            raise down.pop()
        return partitions(self, start)

    query_runs = threading.Event()
    if where == "sink":
        story.sink.latestEpoch = latest  # type: ignore[attr-defined]
    else:
        monkeypatch.setattr(ModelReader, "partitions", failing)
    query = story.start(
        retry_infrastructure_for_ms=HOUR_MS, retry_source_for_ms=HOUR_MS, retry_sink_for_ms=HOUR_MS
    )
    query.awaitEpoch(0, WAIT_S)
    query_runs.set()
    story.feed.faults[(0, 0)] = TaskDismissed()
    story.feed.add(ROWS)
    finish(story, query, 2 * ROWS)
    assert query.status["restarts"] == 3


def test_the_late_write_of_a_fenced_run_is_recovered_from(story: Story) -> None:
    query = story.start(retry_storage_for_ms=HOUR_MS, empty_epoch_interval="1 hour")
    query.awaitEpoch(0, WAIT_S)
    storage = story.checkpoint.storage
    entry = storage.read("prepared/0")
    ahead = query.status["epoch"] + 20  # which does not come before it is waited for
    assert storage.create(f"prepared/{ahead}", entry)
    story.feed.add(ROWS)
    assert query.awaitEpoch(ahead + 1, WAIT_S)
    assert query.status["restarts"] == 1
    finish(story, query, 2 * ROWS)


def test_a_drain_during_a_stall_stays_a_drain(story: Story) -> None:
    made = definition(story.feed, story.sink, story.folder)
    execution = ContinuousExecution(made, ThreadLauncher())
    execution.on_phase(Phase.RUNNING, reconfiguring=False)
    execution.on_stall(Stall(0, ()))
    assert execution.state is QueryState.STALLED
    execution.on_phase(Phase.DRAINING, reconfiguring=False)
    execution.on_stall(None)
    assert execution.state is QueryState.DRAINING


def test_code_that_cannot_be_loaded_is_the_users(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    from engine.task import loop

    monkeypatch.setattr(loop, "compile_steps", lambda *_: 1 / 0)
    with pytest.raises(TransformError, match="loading the query's functions: ZeroDivisionError"):
        story.start().awaitTermination(WAIT_S)
