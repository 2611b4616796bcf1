"""A task that hangs, and is heard of all the same: the run ends, whatever it is at."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from engine.coordinator.coordinator import EpochCoordinator
from engine.errors import ContinuousError, EpochBacklogError
from engine.query.handle import ContinuousQuery
from tests.model import ModelSink
from tests.simulation.story import WAIT_S, Story
from tests.waiting import wait_until


class HangingSink(ModelSink):
    """The second partition's task hangs in its write once it is told to.

    :ivar hangs: it does now.
    :ivar goes_on: it is to.
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_to_hang = False
        self.hangs, self.goes_on = threading.Event(), threading.Event()

    def write(self, batches: Any) -> Any:
        message = super().write(batches)
        if self.is_to_hang and any(partition == 1 for partition, _ in message.rows):
            self.hangs.set()
            assert self.goes_on.wait(WAIT_S)
        return message


def drain(story: Story, query: ContinuousQuery) -> None:
    def ask() -> None:
        with suppress(ContinuousError):
            query.drain(WAIT_S)

    threading.Thread(target=ask, daemon=True).start()


def do_nothing(story: Story, query: ContinuousQuery) -> None:
    pass


@pytest.mark.parametrize(
    ("interval_ms", "does"), [(100, do_nothing), (100, drain), (0, do_nothing), (0, drain)]
)
def test_the_run_ends(
    interval_ms: int,
    does: Callable[[Story, ContinuousQuery], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    errors: list[Any] = []
    end = EpochCoordinator._end

    def noted(self: EpochCoordinator, error: Any) -> Any:
        errors.append(error)
        return end(self, error)

    monkeypatch.setattr(EpochCoordinator, "_end", noted)
    story = Story(tmp_path / "checkpoint")
    story.sink = sink = HangingSink()
    query = story.start(interval_ms=interval_ms, epoch_backlog_max=2)
    story.feed.add(1)
    story.await_rows(query, 2)
    sink.is_to_hang = True
    story.feed.add(1)
    try:
        assert sink.hangs.wait(WAIT_S)
        does(story, query)
        wait_until(lambda: errors, "the end of the run", WAIT_S)
    finally:
        sink.goes_on.set()
    with pytest.raises(EpochBacklogError, match=r"elapsed 2 times, and waits for epoch \d+, which"):
        query.awaitTermination(WAIT_S)
