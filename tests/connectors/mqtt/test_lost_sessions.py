"""A session that the broker has lost is told, and no other, wherever a look at it breaks off."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from engine.clients.mqtt_connection import MqttConnection
from engine.errors import ConfigError, OffsetOutOfRangeError, SourceUnavailableError
from engine.sources.contract import Offset
from engine.sources.mqtt import markers
from tests.connectors.mqtt.queries import opened, read, source
from tests.servers.mqtt import MqttBroker
from tests.servers.mqtt_clients import connected, publish
from tests.servers.mqtt_proxy import CONNACK, SUBACK, UNSUBACK, MqttProxy, mqtt_proxy


@pytest.fixture
def proxy(broker: MqttBroker) -> Iterator[MqttProxy]:
    with mqtt_proxy(broker.port) as made:
        yield made


def lose(broker: MqttBroker, offset: Offset) -> None:
    """The session."""
    with connected(broker, offset["client"], 0):
        pass


def look(broker: MqttBroker, proxy: MqttProxy, topic: str, offset: Offset, **options: str) -> Any:
    """As a start does it. :return: where it begins."""
    (partition,) = source(broker, topic, url=proxy.url, **options).partitions(offset)
    return partition.start.offset


def test_a_lost_session_is_told_though_the_first_look_broke_off(
    broker: MqttBroker, proxy: MqttProxy, topic: str
) -> None:
    begin = source(broker, topic, url=proxy.url).initialOffset()
    assert begin["marked"] is True
    lose(broker, begin)
    for places in [(CONNACK,), (CONNACK, UNSUBACK), (CONNACK, CONNACK), ()]:
        for place in places:
            proxy.breaks.append(place)
            with pytest.raises(SourceUnavailableError, match="cannot be reached"):
                look(broker, proxy, topic, begin)
        with pytest.raises(OffsetOutOfRangeError, match="does not have the session"):
            look(broker, proxy, topic, begin)
    proxy.breaks.append(CONNACK)
    with pytest.raises(SourceUnavailableError):
        look(broker, proxy, topic, begin)
    accepted = look(broker, proxy, topic, begin, failOnDataLoss="false")
    assert look(broker, proxy, topic, accepted) == begin  # from then on there is one


@pytest.mark.parametrize("places", list(product([CONNACK, UNSUBACK, SUBACK], repeat=2)))
def test_a_session_that_is_there_is_not_lost_wherever_looks_break_off(
    broker: MqttBroker, proxy: MqttProxy, topic: str, places: tuple[int, ...]
) -> None:
    reader = source(broker, topic, url=proxy.url)
    begin = reader.initialOffset()
    publish(broker, topic, b"1", b"2")
    for place in places:
        proxy.breaks.append(place)
        with pytest.raises(SourceUnavailableError):
            look(broker, proxy, topic, begin)
    task = opened(reader, begin)
    assert read(task, 2) == [b"1", b"2"]
    task.close()


def test_each_look_that_ends_well_puts_all_markers_back(
    broker: MqttBroker, proxy: MqttProxy, topic: str
) -> None:
    begin = source(broker, topic, url=proxy.url).initialOffset()
    for _ in range(3):
        for _ in range(markers.COUNT - 1):
            proxy.breaks.append(UNSUBACK)
            with pytest.raises(SourceUnavailableError):
                look(broker, proxy, topic, begin)
        assert look(broker, proxy, topic, begin) == begin


def test_a_session_of_an_earlier_release_gets_markers(
    broker: MqttBroker, proxy: MqttProxy, topic: str
) -> None:
    proxy.is_honest = False  # as before: the session has none
    begin = source(broker, topic, url=proxy.url).initialOffset()
    assert "marked" not in begin
    proxy.is_honest = True
    for _ in range(2):  # to be the same as long as the checkpoint knows nothing of them
        marked = look(broker, proxy, topic, begin)
        assert marked == {**begin, "marked": True}
    assert look(broker, proxy, topic, marked) == marked


def test_a_broker_that_does_not_tell_is_told_of(
    broker: MqttBroker, proxy: MqttProxy, topic: str
) -> None:
    proxy.is_honest = False
    begin = source(broker, topic, url=proxy.url).initialOffset()
    assert look(broker, proxy, topic, begin) == begin
    proxy.breaks.append(CONNACK)
    with pytest.raises(SourceUnavailableError, match="it may have made a new one now"):
        look(broker, proxy, topic, begin)


def test_a_user_who_may_not_have_markers_does_without(
    broker: MqttBroker,
    proxy: MqttProxy,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    right = MqttConnection.subscribe

    def refuses(self: MqttConnection, filters: Any, *, retained: bool) -> None:
        if any("/session/" in each for each in filters):
            raise ConfigError("not authorised")
        right(self, filters, retained=retained)

    before = source(broker, topic, url=proxy.url).initialOffset()
    monkeypatch.setattr(MqttConnection, "subscribe", refuses)
    begin = source(broker, topic, url=proxy.url).initialOffset()
    assert "marked" not in begin
    assert "is not known if the first look at what is left of it breaks off" in caplog.text
    assert look(broker, proxy, topic, begin) == begin
    assert "marked" not in look(broker, proxy, topic, before)


def test_another_client_id_prefix_is_refused(broker: MqttBroker, topic: str) -> None:
    begin = source(broker, topic, clientIdPrefix="team-a").initialOffset()
    assert begin["client"].startswith("team-a-")
    source(broker, topic, clientIdPrefix="team-a").partitions(begin)
    for options in ({}, {"clientIdPrefix": "team"}):
        with pytest.raises(ConfigError, match=r"that of team-a-.*Set it to 'team-a'"):
            source(broker, topic, **options).partitions(begin)
