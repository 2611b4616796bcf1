"""Tables that a stream is joined with are read again, whatever else happens to the query."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from engine.base.clock import ManualClock
from engine.execution.execution import ContinuousExecution
from engine.execution.launcher import ThreadLauncher
from engine.query.handle import ContinuousQuery
from tests.model import HOUR_MS, ModelReader, definition
from tests.simulation.story import WAIT_S, Story
from tests.waiting import wait_until

MOST_S = 400.0
"""Most of the ten minutes after which the tables are due; twice that is more."""


class Tables:
    """:ivar readings: how often they were read again, or tried to be.

    :ivar failures: raised by the next readings.
    """

    def __init__(self, story: Story) -> None:
        self.readings = 0
        self.failures: list[Exception] = []
        self.clock = ManualClock()
        made = definition(
            story.feed,
            story.sink,
            story.folder,
            interval_ms=0,
            refresh_interval="10 minutes",
            retry_source_for_ms=HOUR_MS,
        )

        def read_again() -> tuple[object, ...]:
            self.readings += 1
            if self.failures:
                raise self.failures.pop()
            return made.streams, made.stages

        made = replace(made, read_again=read_again)  # type: ignore[arg-type]
        execution = ContinuousExecution(made, ThreadLauncher(), self.clock)
        execution.start()
        self.query = ContinuousQuery(execution, str)
        assert self.query.awaitEpoch(0, WAIT_S)

    def await_reading(self, readings: int) -> None:
        """And that the query goes on behind it."""
        wait_until(lambda: self.readings == readings, f"reading {readings} of the tables")
        assert self.query.awaitEpoch(self.query.status["epoch"] + 5, WAIT_S)


def lose(story: Story, query: ContinuousQuery) -> None:
    story.feed.faults[(0, 0)] = ValueError("the wire is cut")
    story.feed.add(1)
    story.await_rows(query, 2)
    assert query.status["restarts"] == 1


def take_up(story: Story, query: ContinuousQuery) -> None:
    story.feed.available.append(1)
    story.await_rows(query, 1)


@pytest.mark.parametrize("interrupt", [lose, take_up])
def test_what_lies_between_does_not_put_it_off(
    story: Story, interrupt: Callable[[Story, ContinuousQuery], None]
) -> None:
    tables = Tables(story)
    tables.clock.advance(MOST_S)
    interrupt(story, tables.query)
    assert tables.readings == 0
    tables.clock.advance(MOST_S)
    tables.await_reading(1)
    assert tables.query.drain(WAIT_S)


def test_a_reading_that_failed_is_due_again_as_any(story: Story) -> None:
    tables = Tables(story)
    tables.failures.append(ConnectionError("no route to the warehouse"))
    tables.clock.advance(2 * MOST_S)
    tables.await_reading(1)
    assert "no route" in tables.query.status["last_error"]
    tables.clock.advance(MOST_S)
    assert tables.query.awaitEpoch(tables.query.status["epoch"] + 5, WAIT_S)
    assert tables.readings == 1
    tables.clock.advance(MOST_S)
    tables.await_reading(2)
    assert tables.query.drain(WAIT_S)
    assert tables.query.status["restarts"] == 1


def test_a_source_that_hangs_does_not_hold_it_up(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, answered = threading.Event(), threading.Event()

    def hang(self: ModelReader) -> bool:
        asked.set()
        assert answered.wait(WAIT_S)
        return False

    monkeypatch.setattr(ModelReader, "needsReconfiguration", hang)
    tables = Tables(story)
    assert asked.wait(WAIT_S)
    for reading in range(1, 3):
        tables.clock.advance(2 * MOST_S)
        tables.await_reading(reading)
    answered.set()
    assert tables.query.drain(WAIT_S)
    assert tables.query.status["restarts"] == 0
