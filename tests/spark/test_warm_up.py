"""Executors that a standby warms up are free when its turn comes."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine.spark import sending
from engine.spark.executor_launcher import SparkLauncher
from engine.spark.warm_workers import WarmWorkers
from tests.waiting import wait_until

pytestmark = pytest.mark.spark
WAIT_S = 60


def _hangs() -> Callable[[], None]:
    def hang() -> None:
        threading.Event().wait(600)

    return hang


def test_slots_are_free_again_and_nothing_has_failed(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sending, "look_at_worker", _hangs)
    launcher = SparkLauncher(spark)
    slots = launcher.slots()
    assert slots is not None
    # A task of an earlier test that ends by now would be a slot that nobody warms up.
    wait_until(lambda: _free(launcher) == slots.total, "the slots of earlier tests", WAIT_S)
    warm = WarmWorkers(launcher, [])
    with caplog.at_level(logging.INFO, logger="engine"):
        warm.keep()
        wait_until(lambda: _free(launcher) == 0, "the tasks that warm up", WAIT_S)
        warm.end()
    assert warm._thread is not None
    assert not warm._thread.is_alive()
    assert caplog.messages == []
    wait_until(lambda: _free(launcher) == slots.total, "free slots", WAIT_S)


def _free(launcher: SparkLauncher) -> int:
    slots = launcher.slots()
    assert slots is not None
    return slots.free


class _Part:
    """Leaves a file where it is loaded."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __setstate__(self, state: dict[str, Path]) -> None:
        (state["_folder"] / str(os.getpid())).touch()


def test_each_python_has_loaded_what_the_querys_tasks_are_made_of(
    spark: SparkSession, tmp_path: Path
) -> None:
    launcher = SparkLauncher(spark)
    slots = launcher.slots()
    assert slots is not None
    wait_until(lambda: _free(launcher) == slots.total, "the slots of earlier tests", WAIT_S)
    launcher.warm_up([_Part(tmp_path)])
    loaded = [path.name for path in tmp_path.iterdir()]
    assert 1 <= len(loaded) <= slots.total
    assert str(os.getpid()) not in loaded


def test_what_cannot_be_sent_is_told_and_ends_no_standby(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    launcher = SparkLauncher(spark)
    for _ in range(3):  # as a standby does, every half minute
        launcher.warm_up([threading.Lock()])
    (message,) = caplog.messages
    assert "were not warmed up" in message
    assert "cannot pickle" in message
