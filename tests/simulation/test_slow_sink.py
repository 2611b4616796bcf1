"""A sink that is slower than the epochs: epochs grow, nothing piles up, the end comes soon."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from engine.coordinator.coordinator import COMPLETE_MAX, EpochCoordinator
from engine.coordinator.events import EpochElapsed, Event
from tests.simulation.story import WAIT_S, Story

TICKS = 50


class Ticks:
    """Counts the ticks of all coordinators."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        handle = EpochCoordinator.handle
        self._count = 0
        self._changed = threading.Condition()

        def counting(coordinator: EpochCoordinator, event: Event) -> Any:
            with self._changed:
                self._count += isinstance(event, EpochElapsed)
                self._changed.notify_all()
            return handle(coordinator, event)

        monkeypatch.setattr(EpochCoordinator, "handle", counting)

    def await_more(self, count: int) -> None:
        with self._changed:
            wanted = self._count + count
            assert self._changed.wait_for(lambda: self._count >= wanted, WAIT_S)


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
    ticks.await_more(TICKS)
    assert query._execution.open_epoch <= COMPLETE_MAX + 1, "one may just have been reported"
    story.feed.add(20)
    for epoch in range(5):
        sink.turn()
        assert query.awaitEpoch(epoch, WAIT_S)
        ticks.await_more(TICKS // 5)
        assert query._execution.open_epoch <= epoch + COMPLETE_MAX + 2
    # Those two, and the one that is open.
    sink.turn(COMPLETE_MAX + 2)
    assert query.drain(WAIT_S)
    assert story.sink.assert_exactly_once(2) == 60
    assert story.checkpoint.committed_epoch() <= 4 + COMPLETE_MAX + 2
