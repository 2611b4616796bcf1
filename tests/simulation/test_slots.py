"""Task slots that are not there: what is waited for, and what is told at once."""

from __future__ import annotations

import math
import queue
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from engine.base.clock import ManualClock
from engine.base.options import EngineOptions
from engine.checkpoint.query_state import QueryState
from engine.coordinator.coordinator import EpochCoordinator, Phase
from engine.errors import NotEnoughSlotsError, TaskLostError
from engine.execution.launcher import LaunchedTasks, OnEnd, ThreadLauncher
from engine.execution.slots import (
    CLUSTER,
    KUBERNETES,
    LOCAL,
    PLACED_WITHIN_S,
    PlacementWatch,
    Slots,
    SlotSupply,
    supply_of,
)
from engine.execution.start_watch import StartWatch
from engine.query.handle import ContinuousQuery
from engine.task.spec import TaskSpec
from engine.wire.messages import StateLoading
from tests.model import HOUR_MS
from tests.simulation.story import WAIT_S, Story, await_status

ENOUGH = Slots(4, 4)


class Cluster(ThreadLauncher):
    """:param slots: how many there are now."""

    def __init__(self, slots: Callable[[], Slots], supply: SlotSupply = CLUSTER) -> None:
        self._slots = slots
        self.supply = supply
        self.looks = 0

    def slots(self) -> Slots:
        self.looks += 1
        return self._slots()


def test_a_cluster_without_free_slots_is_waited_for(story: Story) -> None:
    """A minute of the query's clock; the start does not wait for it."""
    clock, seen = ManualClock(), set[tuple[str, str]]()
    running: queue.SimpleQueue[ContinuousQuery] = queue.SimpleQueue()
    query: ContinuousQuery | None = None

    def slots() -> Slots:
        nonlocal query
        if cluster.looks == 1:  # the start itself, which shares the partitions out
            return Slots(total=1, free=1)
        query = query or running.get(timeout=WAIT_S)
        seen.add((query.status["state"], query.status["message"]))
        return ENOUGH if clock.monotonic_s() >= 60 else Slots(total=1, free=1)

    cluster = Cluster(slots)
    started = story.start(cluster, clock, interval_ms=0, partitions_per_task=1)
    running.put(started)
    story.feed.add(5)
    story.await_rows(started, 10)
    assert started.status["restarts"] == 0
    assert started.status["last_error"] is None
    assert (QueryState.WAITING.value, "Waiting for 1 of 2 task slots") in seen
    assert 60 <= clock.monotonic_s() < 62
    started.drain(WAIT_S)


@pytest.mark.parametrize("supply", [CLUSTER, KUBERNETES])
def test_without_any_free_slot_the_query_ends(story: Story, supply: SlotSupply) -> None:
    clock = ManualClock()
    query = story.start(Cluster(lambda: Slots(4, 0), supply), clock)
    with pytest.raises(NotEnoughSlotsError, match=r"2 tasks .* 0 of the 4 slots .*slotTimeout"):
        query.awaitTermination(WAIT_S)
    assert clock.monotonic_s() == pytest.approx(supply.timeout_s)
    assert story.checkpoint.status().state is QueryState.FAILED
    assert query.status["restarts"] == 0


def test_the_option_says_for_how_long(story: Story) -> None:
    clock = ManualClock()
    query = story.start(Cluster(lambda: Slots(0, 0)), clock, slot_timeout_ms=7_000)
    with pytest.raises(NotEnoughSlotsError, match="after 7 s"):
        query.awaitTermination(WAIT_S)
    assert clock.monotonic_s() == pytest.approx(7)


@pytest.mark.parametrize("how", ["stop", "drain", "request"])
def test_who_waits_can_be_ended_at_once(story: Story, how: str) -> None:
    query = story.start(Cluster(lambda: Slots(4, 0)))
    await_status(story, lambda status: status.state is QueryState.WAITING)
    assert story.checkpoint.status().message == "Waiting for 2 of 2 task slots"
    if how == "request":
        story.checkpoint.requests.ask("drain", by="test")
        assert query.awaitTermination(WAIT_S)
    else:
        getattr(query, how)()
    assert query.exception() is None
    assert story.checkpoint.status().state is QueryState.STOPPED


def test_a_machine_with_too_few_slots_is_told_at_the_start(story: Story) -> None:
    launcher = Cluster(lambda: Slots(total=1, free=1), LOCAL)
    with pytest.raises(NotEnoughSlotsError, match=r"2 tasks .* 1 of the 1 slots"):
        story.start(launcher, partitions_per_task=1)
    assert story.checkpoint.status().state is QueryState.FAILED


def test_busy_slots_of_a_machine_are_waited_for_at_the_start(story: Story) -> None:
    clock = ManualClock()
    with pytest.raises(NotEnoughSlotsError, match=r"0 of the 4 slots are free, after 15 s"):
        story.start(Cluster(lambda: Slots(4, 0), LOCAL), clock)
    assert clock.monotonic_s() == pytest.approx(LOCAL.timeout_s)


# -- doing with what is free ----------------------------------------------------------------------


@pytest.fixture(autouse=True)
def no_spreading(monkeypatch: pytest.MonkeyPatch) -> None:
    """The slots of these tests are free, whoever takes them."""
    monkeypatch.setattr("engine.execution.attempt.SPREAD_LOOK_S", math.inf)


def finish(story: Story, query: ContinuousQuery, rows: int) -> None:
    story.feed.add(5)
    story.await_rows(query, rows)
    query.drain(WAIT_S)
    assert story.sink.assert_exactly_once(story.partitions) == rows


@pytest.mark.parametrize("supply", [LOCAL, CLUSTER])
def test_when_the_time_is_over_partitions_share_what_is_free(
    tmp_path: Path, supply: SlotSupply, caplog: pytest.LogCaptureFixture
) -> None:
    clock, story = ManualClock(), Story(tmp_path, partitions=20)
    query = story.start(Cluster(lambda: Slots(16, 6), supply), clock, interval_ms=0)
    with caplog.at_level("WARNING"):
        finish(story, query, 100)
    assert query._execution.spread.tasks == 5
    assert query.status["restarts"] == 0
    assert clock.monotonic_s() == pytest.approx(supply.timeout_s)
    assert "20 partitions share 5 tasks" in caplog.text


def test_executors_that_are_lost_for_good_are_done_without(tmp_path: Path) -> None:
    clock, story = ManualClock(), Story(tmp_path, partitions=8)
    lost = threading.Event()
    cluster = Cluster(lambda: Slots(3, 3) if lost.is_set() else Slots(8, 8))
    query = story.start(cluster, clock, interval_ms=0, retry_infrastructure_for_ms=HOUR_MS)
    assert query.awaitEpoch(0, WAIT_S)
    assert query._execution.spread.tasks == 8
    lost.set()
    story.feed.faults[(1, 3)] = SystemExit("out of memory")
    finish(story, query, 40)
    assert query._execution.spread.tasks == 3
    assert clock.monotonic_s() >= CLUSTER.timeout_s


def test_a_cluster_that_is_away_for_longer_is_an_outage(story: Story) -> None:
    """Of a query that has run: a machine that has to be started takes longer than it should."""
    clock = ManualClock()
    lost_s: list[float] = []

    def slots() -> Slots:
        away = bool(lost_s) and clock.monotonic_s() < lost_s[0] + 3 * CLUSTER.timeout_s
        return Slots(0, 0) if away else ENOUGH

    query = story.start(Cluster(slots), clock, interval_ms=0, retry_infrastructure_for_ms=HOUR_MS)
    assert query.awaitEpoch(0, WAIT_S)
    lost_s.append(clock.monotonic_s())
    story.feed.faults[(1, 3)] = SystemExit("the machine was taken away")
    finish(story, query, 10)
    assert "0 of the 0 slots" in query.status["last_error"]


def test_waiting_for_slots_is_not_held_against_a_query(story: Story) -> None:
    """What is lost behind the wait has its whole window."""
    clock, wait_s = ManualClock(), 240
    lost_s: list[float] = []

    def slots() -> Slots:
        away = bool(lost_s) and clock.monotonic_s() < lost_s[0] + wait_s
        return Slots(1, 1) if away else ENOUGH

    query = story.start(
        Cluster(slots),
        clock,
        interval_ms=0,
        partitions_per_task=1,
        retry_infrastructure_for_ms=60_000,
    )
    assert query.awaitEpoch(0, WAIT_S)
    lost = [SystemExit("another one"), SystemExit("the machine was taken away")]

    class Losses(dict[tuple[int, int], BaseException]):
        def pop(self, at: tuple[int, int], *default: Any) -> Any:  # type: ignore[override]
            if at != (1, 3) or not lost:
                return None
            lost_s.append(clock.monotonic_s())
            return lost.pop()

    story.feed.faults = Losses()
    finish(story, query, 10)
    assert clock.monotonic_s() >= wait_s
    assert query.status["restarts"] == 2


def test_what_was_asked_for_is_not_shared_further(story: Story) -> None:
    query = story.start(Cluster(lambda: Slots(4, 1)), ManualClock(), partitions_per_task=1)
    with pytest.raises(NotEnoughSlotsError, match=r"2 tasks .* 1 of the 4 slots"):
        query.awaitTermination(WAIT_S)


@pytest.mark.parametrize(("free", "tasks"), [(8, 5), (4, 2)])
def test_slots_are_kept_for_other_jobs(tmp_path: Path, free: int, tasks: int) -> None:
    story = Story(tmp_path, partitions=10)
    query = story.start(
        Cluster(lambda: Slots(8, free)), ManualClock(), interval_ms=0, slots_to_keep_free=2
    )
    finish(story, query, 50)
    assert query._execution.spread.tasks == tasks


def test_slots_to_keep_free_that_are_not_there(story: Story) -> None:
    with pytest.raises(NotEnoughSlotsError, match=r"1 task, keeps 4 .* needs 5 free"):
        story.start(Cluster(lambda: ENOUGH, LOCAL), slots_to_keep_free=4, partitions_per_task=2)


@pytest.mark.parametrize(("slots", "tasks"), [(6, 3), (1, 1)])
def test_a_sink_that_starts_jobs_is_left_a_slot(tmp_path: Path, slots: int, tasks: int) -> None:
    story = Story(tmp_path, partitions=6)
    story.sink.taskSlots = 1
    query = story.start(Cluster(lambda: Slots(slots, slots), LOCAL))
    finish(story, query, 30)
    assert query._execution.spread.tasks == tasks


class Placing(ThreadLauncher):
    """Nobody knows how many slots there are; of the first launch, so many tasks find one."""

    supply = CLUSTER

    def __init__(self, placed: int, clock: ManualClock) -> None:
        self.launches: list[int] = []
        self._placed, self._clock = placed, clock

    def launch(self, run_id: str, specs: Sequence[TaskSpec], on_end: OnEnd) -> LaunchedTasks:
        self.launches.append(len(specs))
        tasks = super().launch(run_id, specs[: self._placed], on_end)
        unplaced = len(specs) - self._placed
        clock = self._clock

        class Placed:
            def unplaced(self) -> int:
                clock.advance(30)
                return max(unplaced, 0)

            def cancel(self) -> None:
                tasks.cancel()

        clock.advance(PLACED_WITHIN_S + 1)
        return Placed()


def test_launched_tasks_share_the_slots_that_some_have_found(tmp_path: Path) -> None:
    clock, story = ManualClock(), Story(tmp_path, partitions=6)
    launcher = Placing(2, clock)
    query = story.start(launcher, clock, interval_ms=0)
    finish(story, query, 30)
    assert launcher.launches == [6, 2]
    assert query.status["restarts"] == 0


def test_launched_tasks_that_find_no_slot_are_waited_for() -> None:
    watch = PlacementWatch(4, 300.0, launched_s=10.0)
    assert watch.look(12.0, 3) == "Waiting for 3 of 4 task slots"
    assert watch.look(309.0, 1) == "Waiting for 1 of 4 task slots"
    assert watch.placed_s == 309.0
    assert watch.look(309.5, 0) is None
    with pytest.raises(NotEnoughSlotsError, match="1 of the query's 4 tasks"):
        watch.look(310.0, 1)


def test_one_task_is_told_of_in_the_singular() -> None:
    watch = PlacementWatch(1, 300.0, launched_s=10.0)
    assert watch.look(12.0, 1) == "Waiting for 1 of 1 task slot"
    with pytest.raises(NotEnoughSlotsError, match="1 of the query's 1 task has found no free"):
        watch.look(310.0, 1)
    coordinator = EpochCoordinator(run_id="run", partitions=1, first_epoch=0, backlog_max=1)
    tasks = StartWatch(EngineOptions(), LOCAL, coordinator, "host:7100", launched_s=0.0)
    with pytest.raises(TaskLostError, match="Only 0 of 1 task has started within"):
        tasks.look(10_000.0, lambda: 0)


def test_tasks_have_their_time_to_start_once_all_have_slots_and_their_state() -> None:
    coordinator = EpochCoordinator(run_id="run", partitions=2, first_epoch=0, backlog_max=1)
    watch = StartWatch(EngineOptions(), LOCAL, coordinator, "host:7100", launched_s=0.0)
    assert watch.look(10.0, lambda: 1) == "Waiting for 1 of 2 task slots"
    assert watch.look(11.0, lambda: 0) is None
    watch.hear(StateLoading("run", 1))
    assert watch.look(3_600.0, lambda: 0) is None
    watch.hear(StateLoading("run", 1, is_over=True))
    assert watch.look(3_720.0, lambda: 0) is None
    with pytest.raises(TaskLostError, match=r"Only 0 of 2 .* started within 120 s.*host:7100"):
        watch.look(3_720.5, lambda: 0)
    coordinator.phase = Phase.WIRING
    with pytest.raises(TaskLostError, match=r"Only 0 of 2 .* reached .* 120 s.*one another"):
        watch.look(3_720.5, lambda: 0)


@pytest.mark.parametrize(
    ("master", "supply"),
    [
        ("local", LOCAL),
        ("local[4]", LOCAL),
        ("local-cluster[2,2,1024]", CLUSTER),
        ("spark://host:7077", CLUSTER),
        ("yarn", CLUSTER),
        ("k8s://https://host", KUBERNETES),
    ],
)
def test_where_slots_come_from(master: str, supply: SlotSupply) -> None:
    assert supply_of(master) == supply
