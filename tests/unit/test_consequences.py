from __future__ import annotations

from engine.base.clock import ManualClock
from engine.coordinator.events import TaskLost
from engine.errors import PeerLostError, SourceError, TaskLostError
from engine.execution.consequences import CAUSE_WITHIN_S, Consequences
from engine.wire.messages import TaskFailed


def failed(error: TaskLostError | SourceError, task: int = 2) -> TaskFailed:
    return TaskFailed("run", task, error, "")


def test_only_who_misses_another_waits_for_the_cause() -> None:
    kept = Consequences(ManualClock())
    assert not kept.keeps(failed(SourceError("away")))
    assert not kept.keeps(failed(TaskLostError("silent")))
    assert kept.keeps(failed(PeerLostError("task 1 is gone")))


def test_without_a_cause_the_first_one_is_told_once() -> None:
    clock = ManualClock()
    kept = Consequences(clock)
    first, second = failed(PeerLostError("a")), failed(PeerLostError("b"), task=3)
    assert kept.due() is None
    assert kept.keeps(first)
    clock.advance(CAUSE_WITHIN_S / 2)
    assert kept.keeps(second)
    assert kept.due() is None
    clock.advance(CAUSE_WITHIN_S / 2)
    assert kept.due() is first
    assert not kept.keeps(first)
    assert kept.due() is None


def test_who_has_said_it_may_leave() -> None:
    kept = Consequences(ManualClock())
    assert not kept.keeps(TaskLost(2, "its connection was closed"))
    assert kept.keeps(failed(PeerLostError("a")))
    assert kept.keeps(TaskLost(2, "its connection was closed"))
    assert not kept.keeps(TaskLost(1, "its connection was closed"))
