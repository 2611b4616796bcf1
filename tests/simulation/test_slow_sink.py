"""A sink that is slower than the epochs: epochs grow, nothing piles up, the end comes soon. Where
its rows travel to the driver, an epoch grows until they are as many as it may ship."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.coordinator.coordinator import COMPLETE_MAX, EpochCoordinator
from engine.coordinator.events import CloseEpoch, EpochElapsed, Event
from engine.errors import ConfigError
from engine.sinks.shipped import SHIPPED, RowShipper, unpack
from tests.model import HOUR_MS, NEVER_MS, SCHEMA, ModelSink, definition
from tests.simulation.story import WAIT_S, Story
from tests.simulation.test_sources_and_sinks import started
from tests.waiting import wait_until

TICKS = 50


class Ticks:
    """Counts the ticks of all coordinators.

    :ivar most_complete: behind so many epochs, complete and not committed, another one was closed.
    :ivar is_full: as many are complete as may be, and none is closed that is not.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        handle = EpochCoordinator.handle
        self.most_complete, self.is_full = 0, False
        self._count = 0
        self._changed = threading.Condition()

        def counting(coordinator: EpochCoordinator, event: Event) -> Any:
            actions = handle(coordinator, event)
            complete = _complete(coordinator)
            with self._changed:
                if any(isinstance(each, CloseEpoch) and not each.final for each in actions):
                    self.most_complete = max(self.most_complete, complete)
                closed = coordinator.open_epoch - coordinator.committed - 1
                self.is_full = complete == closed >= COMPLETE_MAX
                self._count += isinstance(event, EpochElapsed)
                self._changed.notify_all()
            return actions

        monkeypatch.setattr(EpochCoordinator, "handle", counting)

    def await_full(self) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.is_full, WAIT_S)

    def await_more(self, count: int) -> None:
        with self._changed:
            wanted = self._count + count
            assert self._changed.wait_for(lambda: self._count >= wanted, WAIT_S)


def _complete(coordinator: EpochCoordinator) -> int:
    return sum(len(each) == coordinator.partitions for each in coordinator.reports.values())


class Turnstile:
    """Lets a commit of the story's sink through for each turn."""

    def __init__(self, story: Story) -> None:
        self._commit = story.sink.commit
        self._turns = threading.Semaphore(0)
        story.sink.commit = self._slowly  # type: ignore[method-assign]

    def turn(self, times: int = 1) -> None:
        for _ in range(times):
            self._turns.release()

    def _slowly(self, messages: Any, epoch: int) -> None:
        assert self._turns.acquire(timeout=WAIT_S)
        self._commit(messages, epoch)


def test_epochs_grow_and_drain_returns_after_a_few(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks, sink = Ticks(monkeypatch), Turnstile(story)
    query = story.start()
    story.feed.add(10)
    ticks.await_full()
    ticks.await_more(TICKS)
    story.feed.add(20)
    for epoch in range(5):
        sink.turn()
        assert query.awaitEpoch(epoch, WAIT_S)
        ticks.await_more(TICKS // 5)
        ticks.await_full()
    assert ticks.most_complete == COMPLETE_MAX - 1
    query._execution.drain()
    wait_until(lambda: query.status["state"] == "DRAINING", "no more epochs", WAIT_S)
    left = query._execution.open_epoch - 5
    assert left <= COMPLETE_MAX + 1, "those that are complete, and the one that was open"
    sink.turn(left)
    assert query.drain(WAIT_S)
    assert story.sink.assert_exactly_once(2) == 60


# -- a sink whose rows travel to the driver --------------------------------------------------------

ROW_BYTES = 12


class OnTheDriver(ModelSink):
    """Gets the rows themselves."""

    shipsRows = True
    messageTypes = SHIPPED

    def commit(self, messages: Any, epoch: int) -> None:
        rows = [row for table in unpack(messages, SCHEMA) for row in table.to_pylist()]
        self.committed[epoch] = [(row["partition"], row["seq"]) for row in rows]


def shipping(story: Story, bytes_max: int, **options: Any) -> Any:
    story.sink = OnTheDriver()
    made = definition(story.feed, story.sink, story.folder, **options)
    return replace(made, sink=replace(made.sink, writer=RowShipper("model", bytes_max)))


def test_no_more_is_read_than_an_epoch_may_ship(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = Ticks(monkeypatch)
    made = shipping(story, 20 * ROW_BYTES)
    sink = Turnstile(story)
    query = started(made)
    story.feed.add(100)
    ticks.await_more(TICKS)
    assert query.isActive
    sink.turn(1_000)
    story.await_rows(query, 200)
    assert query.drain(WAIT_S)
    assert story.sink.assert_exactly_once(2) == 200
    assert {len(rows) for rows in story.sink.committed.values()} <= set(range(21))


def test_an_epoch_that_runs_again_is_read_to_its_end(tmp_path: Path) -> None:
    """It was prepared with a higher limit, and its messages are lost."""
    story = Story(tmp_path)
    story.feed.add(15)
    query = started(shipping(story, 1_000 * ROW_BYTES, interval_ms=NEVER_MS))
    while query.status["state"] != "RUNNING":
        assert not query.awaitTermination(0.01)
    story.feed.await_read(15, WAIT_S)
    assert query.drain(WAIT_S)
    assert story.checkpoint.committed_offsets() == ({"0": 15, "1": 15},)
    for folder in ("commits", "prepared"):
        (tmp_path / folder / "0").unlink()
    query = started(shipping(story, 20 * ROW_BYTES))
    story.await_rows(query, 30)
    assert query.drain(WAIT_S)
    assert len(story.sink.committed[0]) == 30


def test_what_is_too_much_at_once_ends_the_query_and_names_the_option(story: Story) -> None:
    query = started(shipping(story, 5, retry_sink_for_ms=HOUR_MS))
    story.feed.add(1)
    with pytest.raises(ConfigError, match="maxShippedBytesPerEpoch is 5") as caught:
        query.awaitTermination(WAIT_S)
    assert "higher" in str(caught.value)
    assert query.status["restarts"] == 0
