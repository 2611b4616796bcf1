"""How long an empty epoch may stay open."""

from __future__ import annotations

from engine.execution.empty_epochs import EmptyEpochs
from engine.progress.counters import EpochCounters
from engine.wire.messages import EpochCommitMessage, RecordsArrived


def report(task: int, due_ms: int | None, run_id: str = "r") -> EpochCommitMessage:
    return EpochCommitMessage(run_id, task, 0, (), None, EpochCounters(due_ms=due_ms))


def test_it_is_as_long_as_any_once_something_has_come() -> None:
    empty = EmptyEpochs("r", 1_000)
    assert empty.left_ms(1, opened_ms=500, now_ms=700) == 800
    assert empty.left_ms(1, opened_ms=500, now_ms=1_500) == 0
    assert empty.left_ms(1, opened_ms=500, now_ms=400) == 0, "the clock has gone back"
    assert not empty.arrived(RecordsArrived("another", 0, 1))
    assert empty.is_empty(1)
    assert empty.arrived(RecordsArrived("r", 0, 1))
    assert empty.left_ms(1, opened_ms=500, now_ms=700) == 0
    assert empty.left_ms(2, opened_ms=500, now_ms=700) == 800
    assert EmptyEpochs("r", 0).left_ms(1, opened_ms=500, now_ms=500) == 0


def test_it_ends_when_a_timer_is_due() -> None:
    empty = EmptyEpochs("r", 1_000)
    assert empty.reported(report(0, 900))
    assert not empty.reported(report(0, 900))
    assert not empty.reported(report(1, None, "another"))
    assert empty.reported(report(1, 800))
    assert empty.left_ms(1, opened_ms=500, now_ms=700) == 100
    assert empty.left_ms(1, opened_ms=800, now_ms=801) == 0, "it fires at the end of this one"
    assert empty.reported(report(1, None))
    assert empty.left_ms(2, opened_ms=810, now_ms=850) == 50
    assert empty.reported(report(0, 100_000))
    assert empty.left_ms(3, opened_ms=910, now_ms=910) == 1_000


def test_it_ends_when_the_watermark_moves() -> None:
    empty = EmptyEpochs("r", 1_000)
    assert empty.left_ms(1, opened_ms=500, now_ms=700, watermark_due_ms=750) == 50
    assert empty.left_ms(1, opened_ms=500, now_ms=700, watermark_due_ms=0) == 0


def test_the_first_one_of_a_run_tells_which_timers_an_earlier_run_has_left() -> None:
    empty = EmptyEpochs("r", 1_000, untold=[0, 1])
    assert empty.left_ms(7, opened_ms=500, now_ms=500) == 0
    assert empty.reported(report(0, None))
    assert empty.left_ms(8, opened_ms=520, now_ms=530) == 0
    assert empty.reported(report(1, 700))
    assert empty.left_ms(8, opened_ms=520, now_ms=530) == 170
