"""When epochs are late, and whose fault it is."""

from __future__ import annotations

import pytest

from engine.execution.health import Stall, StallWatch


def nobody(epoch: int) -> list[int]:
    return []


def test_an_epoch_is_late_after_so_many_intervals() -> None:
    watch = StallWatch(interval_ms=2_000, after_intervals=3)
    watch.ended(7, 10.0)
    assert watch.look(10.0, 6, lambda epoch: [1]) is None
    assert watch.look(15.9, 6, lambda epoch: [1]) is None
    assert watch.look(16.0, 6, lambda epoch: [1]) == Stall(7, (1,))


def test_a_commit_now_and_then_makes_the_next_epoch_no_younger() -> None:
    """Each is the oldest for less than two intervals, and ended long before."""
    watch = StallWatch(interval_ms=1_000, after_intervals=2)
    for epoch in range(1, 4):
        watch.ended(epoch, 0.0)
    assert watch.look(1.9, 0, nobody) is None
    assert watch.look(3.8, 1, nobody) == Stall(2, ())
    assert watch.look(5.7, 2, nobody) == Stall(3, ())
    assert watch.look(5.8, 3, nobody) is None


@pytest.mark.parametrize("commit_s", [6.0, 7.5, 9.5])
def test_a_slow_sink_is_late_until_it_keeps_up(commit_s: float) -> None:
    """Each of its commits lasts less than it may, and each epoch waits for two of them: it is late
    at the end of its time as the oldest one, and was not yet at the beginning."""
    watch = StallWatch(interval_ms=1_000, after_intervals=10)
    watch.ended(0, 0.0)
    watch.ended(1, 1.0)
    seen: list[bool] = []
    for oldest in range(20):
        begins_s = oldest * commit_s
        for look in range(10):
            seen.append(
                watch.look(begins_s + commit_s * (look + 0.5) / 10, oldest - 1, nobody) is not None
            )
        watch.ended(oldest + 2, begins_s + commit_s + 0.9)
    late = seen.index(True)
    assert all(seen[late:])
    now_s = 20 * commit_s + 1.0
    assert watch.look(now_s, 20, nobody) is None


def test_a_partition_is_late_only_once_its_time_is_over() -> None:
    """Also right behind a slow commit."""
    watch = StallWatch(interval_ms=1_000, after_intervals=10)
    watch.ended(0, 0.0)
    watch.ended(1, 5.0)
    assert watch.look(10.0, -1, nobody) == Stall(0, ())
    assert watch.look(14.9, 0, lambda epoch: [1]) is None
    assert watch.look(15.0, 0, lambda epoch: [1]) == Stall(1, (1,))


def test_a_query_that_keeps_up_is_never_late() -> None:
    watch = StallWatch(interval_ms=1_000, after_intervals=1)
    for epoch in range(100):
        watch.ended(epoch, float(epoch))
        assert watch.look(epoch + 0.9, epoch - 1, nobody) is None
        assert watch.look(epoch + 0.95, epoch, nobody) is None


def test_short_intervals_are_not_held_to_the_millisecond() -> None:
    watch = StallWatch(interval_ms=10, after_intervals=2)
    watch.ended(1, 0.0)
    assert watch.look(1.9, 0, nobody) is None
    assert watch.look(2.0, 0, nobody) is not None


def test_the_slow_partition_is_named() -> None:
    assert str(Stall(7, (1, 3))) == "Epoch 7 has ended, but partitions [1, 3] have not finished it"
    assert str(Stall(7, ())) == "Epoch 7 has ended, but the sink has not committed it"
    error = Stall(7, (1, 3)).error()
    assert (error.epoch, error.partition) == (7, 1)
    many = Stall(7, tuple(range(10_000)))
    assert "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9] and 9,990 more have not finished" in str(many)
