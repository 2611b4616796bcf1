"""When epochs are late, and whose fault it is."""

from __future__ import annotations

from engine.execution.health import Stall, StallWatch


def test_an_epoch_is_late_after_so_many_intervals() -> None:
    watch = StallWatch(interval_ms=2_000, after_intervals=3)
    assert watch.look(10.0, 7, [1]) is None
    assert watch.look(15.9, 7, [1]) is None
    assert watch.look(16.0, 7, [1]) == Stall(7, (1,))


def test_every_epoch_has_its_own_time() -> None:
    watch = StallWatch(interval_ms=1_000, after_intervals=2)
    assert watch.look(0.0, 1, [0]) is None
    assert watch.look(1.9, 2, [0]) is None
    assert watch.look(3.8, 2, [0]) is None
    assert watch.look(3.9, 2, []) == Stall(2, ())


def test_a_query_that_keeps_up_is_never_late() -> None:
    watch = StallWatch(interval_ms=1_000, after_intervals=1)
    assert watch.look(0.0, 1, [0]) is None
    assert watch.look(5.0, None, []) is None
    assert watch.look(5.5, 1, [0]) is None


def test_short_intervals_are_not_held_to_the_millisecond() -> None:
    watch = StallWatch(interval_ms=10, after_intervals=2)
    assert watch.look(0.0, 1, [0]) is None
    assert watch.look(1.9, 1, [0]) is None
    assert watch.look(2.0, 1, [0]) is not None


def test_the_slow_partition_is_named() -> None:
    assert str(Stall(7, (1, 3))) == "Epoch 7 has ended, but partitions [1, 3] have not finished it"
    assert str(Stall(7, ())) == "Epoch 7 has ended, but the sink has not committed it"
    error = Stall(7, (1, 3)).error()
    assert (error.epoch, error.partition) == (7, 1)
