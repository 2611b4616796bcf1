"""Spark's rules of watermarks."""

from __future__ import annotations

from engine.checkpoint.epoch_state import Marks
from engine.coordinator.watermarks import MAX, Watermarks


def test_an_earlier_run_has_come_further_than_its_watermark() -> None:
    before = Marks((9_000, 7_000), (9_000, 7_000))
    marks = Watermarks([0, 5_000], current_ms=3_000, marks=before)
    assert marks.current_ms == 3_000, "the first epoch is judged as the one before"
    marks.go_on()
    assert marks.current_ms == 7_000
    assert marks.take([{0: 8_000_000}]) == before
    of_others = Watermarks([0], marks=before)
    of_others.go_on()
    assert of_others.take([]) == Marks((0,), (0,))


def test_a_restart_knows_what_was_held_back() -> None:
    marks = Watermarks([0])
    told = marks.take([{0: 90_000_000}, {0: 30_000_000}], held_us=[{}, {0: 30_000_000}])
    assert told == Marks((30_000,), (90_000,))
    again = Watermarks([0], current_ms=30_000, marks=told)
    again.go_on()
    again.take([{}, {}], held_us=[{}, {0: None}])
    assert again.current_ms == 30_000, "the other one has to catch up, as before"
    again.take([{}, {0: 40_000_000}])
    assert again.current_ms == 90_000


def test_the_newest_of_all_tasks_counts_less_the_delay() -> None:
    marks = Watermarks([10_000])
    marks.take([{0: 25_000_000}, {}, {0: 31_000_999}])
    assert marks.current_ms == 21_000


def test_it_never_goes_back() -> None:
    marks = Watermarks([1_000], current_ms=50_000)
    marks.take([{0: 20_000_000}])
    assert marks.current_ms == 50_000
    marks.take([{0: 60_000_000}])
    marks.take([{0: 55_000_000}])
    assert marks.current_ms == 59_000


def test_the_least_of_several_counts_and_one_that_has_seen_nothing_stands_at_zero() -> None:
    marks = Watermarks([0, 5_000])
    marks.take([{0: 100_000_000}])
    assert marks.current_ms == 0
    marks.take([{1: 30_000_000}])
    assert marks.current_ms == 25_000


def test_or_the_largest_if_that_is_the_policy() -> None:
    marks = Watermarks([0, 5_000], MAX)
    marks.take([{0: 100_000_000}, {1: 30_000_000}])
    assert marks.current_ms == 100_000


def test_a_query_without_has_none() -> None:
    marks = Watermarks(())
    marks.take([{}, {}])
    assert marks.current_ms == 0


def test_before_1970_it_stays_at_zero() -> None:
    marks = Watermarks([0])
    marks.take([{0: -1}])
    assert marks.current_ms == 0


def test_one_that_sees_nothing_for_a_time_holds_nobody_back() -> None:
    marks = Watermarks([0, 5_000], idle_after_ms=60_000)
    marks.take([{0: 100_000_000}], now_ms=1_000)
    marks.take([{0: 110_000_000}], now_ms=60_999)
    assert marks.current_ms == 0
    marks.take([{0: 120_000_000}], now_ms=61_000)
    assert marks.current_ms == 120_000
    marks.take([{1: 90_000_000}], now_ms=62_000)  # it is back, and its rows are late
    marks.take([{0: 130_000_000}], now_ms=63_000)
    assert marks.current_ms == 120_000
    marks.take([{1: 140_000_000}], now_ms=64_000)
    assert marks.current_ms == 130_000


def test_one_that_was_held_back_counts_when_it_is_let_go() -> None:
    """However long that was, and nothing comes any more."""
    marks = Watermarks([0], idle_after_ms=10_000)
    marks.take([{0: 90_000_000}, {}], 1_000, [{}, {0: None}])
    assert marks.current_ms == 0
    marks.take([{}, {}], 21_000)
    assert marks.current_ms == 90_000


def test_when_it_moves_because_one_sees_nothing() -> None:
    """Known beforehand: nobody has to look."""
    marks = Watermarks([0, 0, 0], idle_after_ms=10_000)
    assert marks.beyond_at_ms(0) is None
    marks.take([{0: 10_000_000, 1: 40_000_000, 2: 10_000_000}], now_ms=1_000)
    assert marks.beyond_at_ms(0) == 0
    assert marks.beyond_at_ms(10_000) is None, "none is seen later than another"
    marks.take([{1: 50_000_000}], now_ms=3_000)
    assert marks.beyond_at_ms(10_000) == 11_000
    marks.take([{2: 20_000_000}], now_ms=5_000)
    assert (marks.current_ms, marks.beyond_at_ms(10_000)) == (10_000, 11_000)
    marks.take([{}], now_ms=11_000)
    assert (marks.current_ms, marks.beyond_at_ms(20_000)) == (20_000, None), "the last of all stays"
    largest = Watermarks([0, 0], MAX, idle_after_ms=10_000)
    largest.take([{0: 10_000_000}], now_ms=1_000)
    largest.take([{1: 40_000_000}], now_ms=2_000)
    assert largest.beyond_at_ms(40_000) is None
    assert Watermarks([0, 0]).beyond_at_ms(0) is None


def test_when_all_see_nothing_it_stays() -> None:
    marks = Watermarks([0, 0], idle_after_ms=10)
    marks.take([{0: 50_000_000}, {1: 70_000_000}], now_ms=0)
    marks.take([], now_ms=1_000)
    assert marks.current_ms == 50_000


def test_a_partition_that_has_not_caught_up_holds_it_back() -> None:
    marks = Watermarks([10_000], current_ms=1_000)
    told = marks.take([{0: 90_000_000}, {0: 30_000_000}], held_us=[{}, {0: 30_000_000}])
    assert told.come_to_ms == (20_000,)
    assert marks.current_ms == 20_000
    marks.take([{}, {0: 35_000_000}], held_us=[{}, {0: None}])
    assert marks.current_ms == 20_000, "how far it has come is not known"
    marks.take([{}, {0: 40_000_000}], held_us=[{}, {0: 25_000_000}])
    assert marks.current_ms == 20_000, "and it never goes back"
    assert marks.take([{}, {0: 50_000_000}]).come_to_ms == (80_000,), (
        "what the other has seen was kept"
    )
    assert marks.current_ms == 80_000


def test_one_that_holds_another_watermark_does_not_count() -> None:
    marks = Watermarks([0, 0], MAX)
    marks.take([{0: 90_000_000, 1: 50_000_000}], held_us=[{1: 20_000_000}])
    assert marks.current_ms == 90_000


def test_an_epoch_that_ends_when_all_are_idle_counts_what_was_before() -> None:
    """The machine was slow: by then the last that had seen something was idle, too."""
    marks = Watermarks([0, 0, 0], idle_after_ms=100)
    marks.take([{0: 1_000_000, 1: 1_000_000, 2: 1_000_000}], 0)
    marks.take([{1: 3_000_000, 2: 2_000_000}], 20)
    marks.take([{1: 5_000_000}], 30)
    assert (marks.current_ms, marks.beyond_at_ms(1_000)) == (1_000, 100)
    marks.take([], 1_000)
    assert (marks.current_ms, marks.beyond_at_ms(5_000)) == (5_000, None)
