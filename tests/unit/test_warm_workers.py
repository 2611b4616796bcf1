"""Workers of a standby are warmed beside its watch over the lease."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.base.clock import ManualClock
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.standby import Standby
from engine.errors import ConfigError
from engine.spark.warm_workers import WarmWorkers
from tests.unit.leases import acquire, elsewhere
from tests.waiting import wait_until

WAIT_S = 30.0


class Launcher:
    """:param warm_up: what a job does; it is let go by ``end_warm_up``."""

    def __init__(self, warm_up: Callable[[], None] = lambda: None) -> None:
        self.begun, self.ended = 0, 0
        self.go = threading.Event()
        self._warm_up = warm_up

    def warm_up(self, parts: object) -> None:
        self.begun += 1
        self.parts = parts
        self._warm_up()
        assert self.go.wait(WAIT_S)

    def end_warm_up(self) -> None:
        self.ended += 1
        self.go.set()

    def forget_warm_up(self) -> None:
        """There is nothing: no Spark, no file of it."""


def made(launcher: Any, clock: ManualClock) -> WarmWorkers:
    return WarmWorkers(launcher, "the query's", clock)


def test_an_executor_that_hangs_keeps_no_standby_from_its_turn(tmp_path: Path) -> None:
    clock, launcher = ManualClock(), Launcher()
    checkpoint = Checkpoint(str(tmp_path))
    checkpoint.create_or_read_query_id("query")
    elsewhere(checkpoint, acquire(checkpoint, clock))
    warm = made(launcher, clock)
    took_over: list[bool] = []
    standby = Standby(lambda: False, clock)
    waiting = threading.Thread(
        target=lambda: took_over.append(standby.await_turn(checkpoint, warm.keep)), daemon=True
    )
    waiting.start()
    waiting.join(WAIT_S)
    assert took_over == [True]
    assert (launcher.begun, launcher.ended, launcher.parts) == (1, 0, "the query's")
    warm.end()
    assert launcher.ended == 1


def test_a_job_that_begins_at_the_end_is_ended_too() -> None:
    """Spark cancels what it has, not what it gets in the next moment."""

    class Late(Launcher):
        def end_warm_up(self) -> None:
            self.ended += 1
            if self.ended > 1:
                self.go.set()

    launcher = Late()
    warm = made(launcher, ManualClock())
    warm.keep()
    warm.end()
    assert warm._thread is not None
    assert not warm._thread.is_alive()
    assert launcher.ended == 2


def test_they_are_warmed_again_after_half_a_minute() -> None:
    clock, launcher = ManualClock(), Launcher()
    launcher.go.set()
    warm = made(launcher, clock)
    for _ in range(3):
        warm.keep()
        assert warm._thread is not None
        warm._thread.join(WAIT_S)
    assert launcher.begun == 1
    clock.sleep(30)
    warm.keep()
    wait_until(lambda: launcher.begun == 2, "the second time")
    warm._thread.join(WAIT_S)
    warm.end()
    assert launcher.ended == 0


def test_what_executors_cannot_run_is_told() -> None:
    def refuse() -> None:
        raise ConfigError("another Python there")

    clock = ManualClock()
    warm = made(Launcher(refuse), clock)
    warm.keep()
    assert warm._thread is not None
    warm._thread.join(WAIT_S)
    with pytest.raises(ConfigError, match="another Python there"):
        warm.keep()
