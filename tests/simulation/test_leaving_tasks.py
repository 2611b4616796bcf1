"""Tasks of a run that has ended: who waits for them, and who does not."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from engine.coordinator.endpoint import Endpoint
from engine.coordinator.events import Event
from engine.errors import TaskLostError
from engine.execution.launcher import LaunchedTasks, OnEnd, ThreadLauncher
from engine.task.loop import TaskDismissed, run_task
from engine.task.spec import TaskSpec
from tests.model import HOUR_MS, ModelMessage, ModelReader, definition, task_spec
from tests.simulation.story import WAIT_S, Story

ROWS = 30


class SlowToBury(ThreadLauncher):
    """A cluster that takes until ``buried`` is set to notice that a task is gone.

    :param reason: what it says then of the first run.
    """

    def __init__(self, reason: str = "") -> None:
        self.buried = threading.Event()
        self.launched: list[SlowJob] = []
        self._reason = reason

    def launch(self, run_id: str, specs: Sequence[TaskSpec], on_end: OnEnd) -> LaunchedTasks:
        is_told = threading.Event()
        if self.launched or not self._reason:
            is_told.set()
        else:
            on_end = self._late(on_end, is_told)
        job = SlowJob(super().launch(run_id, specs, on_end), self.buried, is_told)
        self.launched.append(job)
        return job

    def _late(self, on_end: OnEnd, is_told: threading.Event) -> OnEnd:
        def told(_: object) -> None:
            self.buried.wait(WAIT_S)
            on_end(TaskLostError(self._reason))
            is_told.set()

        return told


@dataclass
class SlowJob:
    """:ivar is_told: why its tasks have ended."""

    tasks: LaunchedTasks
    buried: threading.Event
    is_told: threading.Event
    is_over: threading.Event = field(default_factory=threading.Event)

    def unplaced(self) -> int:
        return 0

    def cancel(self) -> None:
        self.buried.wait(WAIT_S)
        self.tasks.cancel()
        self.is_told.wait(WAIT_S)
        self.is_over.set()


def test_a_restart_does_not_wait_for_them_but_the_end_does(story: Story) -> None:
    launcher = SlowToBury()
    query = story.start(launcher, retry_infrastructure_for_ms=HOUR_MS)
    query.awaitEpoch(0, WAIT_S)
    story.feed.faults[(1, 3)] = TaskDismissed()
    story.feed.add(ROWS)
    story.await_rows(query, 2 * ROWS)
    assert query.status["restarts"] == 1
    assert not launcher.launched[0].is_over.is_set()

    query._execution.stop()
    assert not query.awaitTermination(0.2)
    launcher.buried.set()
    query.awaitTermination(WAIT_S)
    assert all(job.is_over.is_set() for job in launcher.launched)
    assert story.sink.assert_exactly_once(2) == 2 * ROWS


@pytest.mark.parametrize("budget", [0, 1])
def test_why_a_task_was_lost_is_told_late(story: Story, budget: int) -> None:
    launcher = SlowToBury("The executor had no memory left.")
    query = story.start(launcher, retry_infrastructure_for_ms=budget * HOUR_MS)
    query.awaitEpoch(0, WAIT_S)
    story.feed.faults[(1, 3)] = TaskDismissed()
    story.feed.add(ROWS)
    if budget:
        story.await_rows(query, 2 * ROWS)
        launcher.buried.set()
        query.drain(WAIT_S)
        assert "no memory left" in query.status["last_error"]
    else:
        launcher.buried.set()
        with pytest.raises(TaskLostError, match=r"is lost.*no memory left"):
            query.awaitTermination(WAIT_S)


def test_a_task_that_still_writes_is_waited_for(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when its job has ended: Spark tells that before it has killed the tasks."""
    monkeypatch.setattr("engine.execution.run.KILL_WAIT_S", WAIT_S)

    class EndsAtOnce(ThreadLauncher):
        def launch(self, run_id: str, specs: Sequence[TaskSpec], on_end: OnEnd) -> LaunchedTasks:
            launches.append(run_id)
            super().launch(run_id, specs, on_end)
            return Ended()

    class Ended:
        def unplaced(self) -> int:
            return 0

        def cancel(self) -> None:
            pass

    launches: list[str] = []
    held, goes_on = threading.Event(), threading.Event()
    write = story.sink.write

    def slow(batches: Iterator[pa.RecordBatch]) -> ModelMessage:
        return write(_slowly(batches, held, goes_on))

    story.sink.write = slow  # type: ignore[method-assign]
    query = story.start(EndsAtOnce(), retry_source_for_ms=HOUR_MS)
    story.feed.faults[(1, 0)] = ValueError("the wire is cut")
    with story.feed.changed:
        story.feed.available[0] = 1
        story.feed.changed.notify_all()
    assert held.wait(WAIT_S)  # partition 0 writes before partition 1 fails
    story.feed.add(1)
    assert not query.awaitEpoch(100_000, 0.3)
    assert len(launches) == 1, "the next run does not begin beside a task that writes"
    goes_on.set()
    story.await_rows(query, 3)
    assert len(launches) == 2
    query.drain(WAIT_S)
    assert story.sink.assert_exactly_once(2) == 3


def _slowly(
    batches: Iterator[pa.RecordBatch], held: threading.Event, goes_on: threading.Event
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        held.set()
        goes_on.wait(WAIT_S)
        yield batch


def test_a_task_that_comes_late_does_not_open_its_source(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[object] = []
    open_: Callable[..., object] = ModelReader.open
    monkeypatch.setattr(
        ModelReader, "open", lambda *given: (opened.append(given), open_(*given))[1]
    )
    made = definition(story.feed, story.sink, story.folder)
    heard: queue.SimpleQueue[Event] = queue.SimpleQueue()
    endpoint = Endpoint("127.0.0.1", heard.put)
    endpoint.dismiss("the query has failed")
    run_task(task_spec(made, endpoint.dialing))
    assert opened == []
    assert endpoint.await_left(WAIT_S)
    assert heard.empty()
    endpoint.close()
