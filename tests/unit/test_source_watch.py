"""The look whether partitions have changed: also while the source hangs in it."""

from __future__ import annotations

import threading

import pytest

from engine.base.clock import ManualClock
from engine.errors import ContinuousError, SourceError
from engine.execution.source_watch import HANGS_AFTER_S, LATE_AFTER_S, SourceWatch

WAIT_S = 30.0


class Source:
    """Hangs in each answer until it is let go."""

    def __init__(self) -> None:
        self.asked, self.answers = threading.Semaphore(0), threading.Semaphore(0)
        self.changed: bool | ContinuousError = False

    def has_changed(self) -> bool:
        self.asked.release()
        assert self.answers.acquire(timeout=WAIT_S)
        if isinstance(self.changed, ContinuousError):
            raise self.changed
        return self.changed


class Watched:
    def __init__(self, source: Source, asking: threading.Lock | None = None) -> None:
        self.said: list[object] = []
        self.heard = threading.Event()
        self.clock = ManualClock()
        self.watch = SourceWatch(
            source.has_changed,
            lambda: self.say("changed"),
            self.say,
            asking or threading.Lock(),
            self.clock,
        )

    def say(self, what: object) -> None:
        self.said.append(what)
        self.heard.set()

    def look_after(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.watch.look(self.clock.monotonic_s())

    def end(self) -> None:
        self.watch.stop()
        self.watch.await_stopped()


@pytest.mark.parametrize("answer", [True, SourceError("no")])
def test_the_first_answer_is_told(answer: bool | ContinuousError) -> None:
    source = Source()
    source.changed = answer
    watched = Watched(source)
    watched.watch.start()
    source.answers.release()
    assert watched.heard.wait(WAIT_S)
    assert watched.said == ["changed" if answer is True else answer]
    watched.end()


@pytest.mark.parametrize("answer", [True, SourceError("no")])
def test_what_comes_behind_the_end_is_not_told(answer: bool | ContinuousError) -> None:
    source = Source()
    source.changed = answer
    watched = Watched(source)
    watched.watch.start()
    assert source.asked.acquire(timeout=WAIT_S)
    watched.watch.stop()
    source.answers.release()
    watched.watch.await_stopped()
    assert watched.said == []


def test_who_hangs_is_not_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    source = Source()
    watched = Watched(source)
    watched.watch.start()
    assert source.asked.acquire(timeout=WAIT_S)
    watched.clock.advance(HANGS_AFTER_S)
    watched.end()
    assert "it hangs" in caplog.text
    source.answers.release()


def test_an_answer_that_takes_long_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    source = Source()
    watched = Watched(source)
    watched.watch.start()
    assert source.asked.acquire(timeout=WAIT_S)
    watched.look_after(LATE_AFTER_S / 2)
    assert not caplog.records
    for _ in range(2):
        watched.look_after(LATE_AFTER_S / 2)
        [record] = caplog.records
        assert "has not told for 30 s" in record.getMessage()
    source.answers.release()
    watched.end()


def test_nobody_else_asks_while_one_hangs() -> None:
    source, asking = Source(), threading.Lock()
    hanging, waiting, next_one = (Watched(source, asking) for _ in range(3))
    hanging.watch.start()
    assert source.asked.acquire(timeout=WAIT_S)
    hanging.clock.advance(HANGS_AFTER_S)
    hanging.end()
    waiting.watch.start()
    waiting.end()
    next_one.watch.start()
    assert not source.asked.acquire(blocking=False)
    source.changed = True
    source.answers.release(2)
    assert next_one.heard.wait(WAIT_S)
    assert source.asked.acquire(timeout=WAIT_S)
    assert not source.asked.acquire(blocking=False)
    assert hanging.said == waiting.said == []
    next_one.end()


def test_one_that_was_never_started_has_ended() -> None:
    Watched(Source()).end()
