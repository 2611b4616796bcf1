"""Task slots that are not there: what is waited for, and what is told at once."""

from __future__ import annotations

import queue
from collections.abc import Callable

import pytest

from engine.base.clock import ManualClock
from engine.checkpoint.query_state import QueryState
from engine.errors import NotEnoughSlotsError
from engine.execution.launcher import ThreadLauncher
from engine.execution.slots import (
    CLUSTER,
    KUBERNETES,
    LOCAL,
    PlacementWatch,
    Slots,
    SlotSupply,
    supply_of,
)
from engine.query.handle import ContinuousQuery
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
def test_slots_that_do_not_come_end_the_query(story: Story, supply: SlotSupply) -> None:
    clock = ManualClock()
    query = story.start(Cluster(lambda: Slots(4, 1), supply), clock)
    with pytest.raises(NotEnoughSlotsError, match=r"2 tasks .* 1 of the 4 slots .*slotTimeout"):
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
    with pytest.raises(NotEnoughSlotsError, match=r"1 of the 4 slots are free, after 15 s"):
        story.start(Cluster(lambda: Slots(4, 1), LOCAL), clock)
    assert clock.monotonic_s() == pytest.approx(LOCAL.timeout_s)


def test_launched_tasks_that_find_no_slot_are_waited_for() -> None:
    watch = PlacementWatch(4, 300.0, launched_s=10.0)
    assert watch.look(12.0, 3) == "Waiting for 3 of 4 task slots"
    assert watch.look(309.0, 1) == "Waiting for 1 of 4 task slots"
    assert watch.placed_s == 309.0
    assert watch.look(309.5, 0) is None
    with pytest.raises(NotEnoughSlotsError, match="1 of the query's 4 tasks"):
        watch.look(310.0, 1)


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
