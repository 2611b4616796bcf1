"""What a task knows of what the driver has said."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from typing import Any

import pytest

from engine.task.channel import Channel
from engine.wire.messages import DriverMessage, EpochMarker, TaskAlive
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
