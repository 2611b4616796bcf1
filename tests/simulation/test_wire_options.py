"""A whole query on a port of the user's choice, and over TLS."""

from __future__ import annotations

import socket

import pytest

from engine.errors import ConfigError
from tests.model import HOUR_MS
from tests.servers.process import free_ports
from tests.simulation.story import WAIT_S, Story


def test_a_restart_in_place_listens_on_the_same_port_again(story: Story) -> None:
    (port,) = free_ports(1)
    query = story.start(coordinator_port=str(port), retry_source_for_ms=HOUR_MS)
    for fault in range(1, 3):
        story.feed.faults[(1, fault)] = ValueError("the wire is cut")
        story.feed.add(2)
        story.await_rows(query, 4 * fault)
        run = query._execution._attempt._run  # type: ignore[union-attr]
        assert run is not None
        assert run._endpoint.dialing.address == ("127.0.0.1", port)
    assert query.status["restarts"] == 2
    query.drain(WAIT_S)
    assert story.sink.assert_exactly_once(2) == 8


def test_a_taken_port_ends_the_start(story: Story) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        query = story.start(coordinator_port=str(port), retry_infrastructure_for_ms=HOUR_MS)
        with pytest.raises(ConfigError, match=f"cannot listen on port {port}"):
            query.awaitTermination(WAIT_S)
    assert query.status["restarts"] == 0


def test_over_tls(story: Story) -> None:
    query = story.start(coordinator_tls=True, retry_source_for_ms=HOUR_MS)
    story.feed.faults[(0, 5)] = ValueError("the wire is cut")
    story.feed.add(10)
    story.await_rows(query, 20)
    assert query.drain(WAIT_S)
    assert story.sink.assert_exactly_once(2) == 20
