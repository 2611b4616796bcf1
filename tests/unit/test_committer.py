"""What is committed when, on the committer's own thread."""

from __future__ import annotations

import queue
import threading
from typing import Any

import pytest

from engine.base.clock import ManualClock
from engine.coordinator.epoch_runner import CommittedEpoch
from engine.coordinator.events import CommitEpoch, CommitFailed, EpochCommitted, EpochLogged, Event
from engine.errors import SinkUnavailableError
from engine.execution import committer
from engine.execution.committer import CommittedTask, Committer
from engine.execution.wanted_epochs import WantedEpochs
from engine.progress.counters import EpochCounters
from engine.wire.messages import EpochCommitMessage

WAIT_S = 30


class Runner:
    """Logs and publishes nothing; ``fails`` is raised by the next publish once ``goes_on`` is
    set."""

    def __init__(self) -> None:
        self.logged: list[int] = []
        self.published: list[int] = []
        self.steps: dict[str, int] = {}
        self.fails: Exception | None = None
        self.begun, self.goes_on = threading.Event(), threading.Event()
        self.goes_on.set()

    def log(self, epoch: int, *_: Any, **__: Any) -> None:
        self.logged.append(epoch)

    def publish(self) -> list[CommittedEpoch]:
        self.begun.set()
        assert self.goes_on.wait(WAIT_S)
        if self.fails is not None:
            raise self.fails
        news = self.logged[len(self.published) :]
        self.published += news
        return [CommittedEpoch(epoch, ({},), dict(self.steps)) for epoch in news]


class Case:
    def __init__(self, interval_ms: int, tasks: int = 1) -> None:
        self.runner, self.wanted = Runner(), WantedEpochs()
        self.clock = ManualClock()
        self.told: queue.Queue[Event] = queue.Queue()
        self.heard: list[CommittedEpoch] = []
        self.tasks = tasks
        runner: Any = self.runner
        self.committer = Committer(
            runner,
            [CommittedTask(0, writes=True)] * tasks,
            1,
            interval_ms,
            self.clock,
            self.wanted,
            lambda committed, reports: self.heard.append(committed),
            self.told.put,
        )

    def order(self, epoch: int, *, final: bool = False) -> None:
        reports = tuple(
            EpochCommitMessage("run", task, epoch, ({},), None, EpochCounters())
            for task in range(self.tasks)
        )
        self.committer.commit(CommitEpoch(epoch, reports, final), replayed=False)

    def comes(self, epoch: int, *, final: bool = False) -> Event:
        """An epoch, and what becomes of it."""
        self.order(epoch, final=final)
        return self.told.get(timeout=WAIT_S)


def test_nothing_is_committed_behind_what_was_refused() -> None:
    """Another epoch was complete meanwhile, and had been ordered."""
    case = Case(interval_ms=1000)
    assert [case.comes(epoch) for epoch in range(2)] == [EpochLogged(0), EpochLogged(1)]
    case.clock.advance(2.0)
    case.runner.goes_on.clear()
    case.runner.fails = SinkUnavailableError("away")
    case.committer.look()
    assert case.runner.begun.wait(WAIT_S)
    case.order(2)
    case.runner.goes_on.set()
    assert isinstance(case.told.get(timeout=WAIT_S), CommitFailed)
    case.runner.fails = None
    case.committer.look()
    case.committer.finish(warning_s=WAIT_S)
    assert (case.runner.logged, case.runner.published) == ([0, 1], [])
    assert case.told.empty()


def test_a_sink_without_an_interval_gets_each_epoch() -> None:
    case = Case(interval_ms=0)
    assert [case.comes(epoch) for epoch in range(3)] == [EpochCommitted(each) for each in range(3)]
    case.committer.finish(warning_s=WAIT_S)
    assert [each.duration_ms for each in case.heard] == [{}] * 3


def test_the_wait_is_told_apart() -> None:
    """Of the common commit each epoch has its share."""
    case = Case(interval_ms=60_000)
    publish = case.runner.publish

    def publish_slowly() -> list[CommittedEpoch]:
        case.clock.advance(0.5)
        return publish()

    case.runner.steps = {"commitSink": 400, "commitOffsets": 10}
    case.runner.publish = publish_slowly  # type: ignore[method-assign]
    case.comes(0)
    case.clock.advance(20.0)
    case.comes(1)
    case.clock.advance(40.0)
    assert case.comes(2) == EpochCommitted(2)
    case.committer.finish(warning_s=WAIT_S)
    share_ms = 400 // 3 + 10
    waits_ms = [60_500 - share_ms, 40_500 - share_ms, 500 - share_ms]
    assert [each.duration_ms.get("commitWait") for each in case.heard] == waits_ms
    assert case.heard[0].duration_ms["commitSink"] == 400


def test_the_last_epoch_brings_those_before_it() -> None:
    case = Case(interval_ms=3_600_000)
    assert case.comes(0) == EpochLogged(0)
    assert case.comes(1, final=True) == EpochCommitted(1)
    assert case.runner.published == [0, 1]
    case.committer.finish(warning_s=WAIT_S)


def test_who_is_stopped_leaves_the_rest_to_the_next_start() -> None:
    case = Case(interval_ms=3_600_000)
    assert case.comes(0) == EpochLogged(0)
    case.committer.finish(warning_s=WAIT_S)
    assert case.runner.published == []


@pytest.mark.parametrize("limit", ["TOGETHER_MAX", "REPORTS_MAX"])
def test_there_are_not_more_than_fit(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setattr(committer, limit, 6 if limit == "REPORTS_MAX" else 3)
    case = Case(interval_ms=3_600_000, tasks=2)
    told = [case.comes(epoch) for epoch in range(3)]
    assert told == [EpochLogged(0), EpochLogged(1), EpochCommitted(2)]
    case.committer.finish(warning_s=WAIT_S)


def test_only_who_waits_for_what_is_logged_makes_it_come() -> None:
    case = Case(interval_ms=3_600_000)
    with case.wanted.waiting(2), case.wanted.waiting(9):
        told = [case.comes(epoch) for epoch in range(4)]
    assert told == [EpochLogged(0), EpochLogged(1), EpochCommitted(2), EpochLogged(3)]
    with case.wanted.waiting(99, for_all=True):
        assert case.comes(4) == EpochCommitted(4)
    assert case.comes(5) == EpochLogged(5)
    case.committer.finish(warning_s=WAIT_S)
