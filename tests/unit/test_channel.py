"""What a task knows of what the driver has said."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from typing import Any

import pytest

from engine.task.channel import Channel
from engine.wire.messages import DriverMessage, EpochMarker, HandedOut, TaskAlive
from tests.waiting import wait_until

HEARTBEAT_S = 3600.0


class Driver:
    """Both ends of a connection."""

    def __init__(self) -> None:
        self._said: queue.SimpleQueue[DriverMessage | None] = queue.SimpleQueue()
        connection: Any = self
        self.channel = Channel(
            connection, alive=lambda: TaskAlive("run", 0), heartbeat_s=HEARTBEAT_S
        )

    def says(self, *messages: DriverMessage) -> None:
        for message in messages:
            self._said.put(message)

    def receive(self) -> DriverMessage:
        message = self._said.get()
        if message is None:
            raise OSError("closed")
        return message

    def close(self) -> None:
        self._said.put(None)


@pytest.fixture
def driver() -> Iterator[Driver]:
    made = Driver()
    yield made
    made.channel.close()


def test_markers_are_forgotten_with_their_epoch(driver: Driver) -> None:
    """Also those that a task which goes by the markers of others has not taken."""
    markers = [EpochMarker(epoch, next_watermark_ms=epoch) for epoch in range(4)]
    channel = driver.channel
    driver.says(*markers)
    wait_until(lambda: channel.closed_epoch == 3, "the markers to come")
    assert channel.take_marker(2) == markers[2]
    assert [channel.take_marker(epoch) for epoch in range(3)] == [None] * 3
    assert channel.take_marker(3) == markers[3]
    assert channel.take_marker(4) is None


def test_work_that_comes_behind_a_marker_waits_for_the_end_of_that_epoch(driver: Driver) -> None:
    """Of an entry that is read as a whole, another task may have it in the next epoch."""
    channel = driver.channel
    had: list[Any] = []
    channel.on_work = lambda work: had.append(work[0])
    works = [HandedOut({0: number}) for number in range(5)]
    driver.says(works[0], EpochMarker(0), works[1], works[2], EpochMarker(1), works[3])
    wait_until(lambda: channel.closed_epoch == 1, "the markers to come")
    assert had == [0]
    assert channel.take_marker(0) == EpochMarker(0)
    assert had == [0, 1, 2]
    assert channel.take_marker(1) == EpochMarker(1)
    wait_until(lambda: had == [0, 1, 2, 3], "what came behind the last one")
    driver.says(works[4])
    wait_until(lambda: had == [0, 1, 2, 3, 4], "what comes when none waits")
