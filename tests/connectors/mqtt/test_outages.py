"""Brokers that are away: for a moment, for long, for ever."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from engine.clients import mqtt_connection
from engine.errors import ConfigError, SourceUnavailableError
from tests.connectors.mqtt.queries import Kept, source, start
from tests.model import HOUR_MS, ONE_ATTEMPT
from tests.servers.mqtt import MqttBroker
from tests.servers.mqtt_clients import publish
from tests.servers.process import free_ports
from tests.waiting import wait_until

PATIENT = replace(ONE_ATTEMPT, retry_source_for_ms=HOUR_MS)


def suspend(broker: MqttBroker) -> Callable[[], None]:
    broker.process.suspend()
    return broker.process.resume


def kill(broker: MqttBroker) -> Callable[[], None]:
    broker.process.kill()
    return broker.start


@pytest.mark.parametrize("strike", [suspend, kill])
def test_an_outage_is_borne_and_told(
    broker: MqttBroker,
    topic: str,
    tmp_path: Path,
    strike: Callable[[MqttBroker], Callable[[], None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sink = Kept()
    with monkeypatch.context() as impatient:
        impatient.setattr(mqtt_connection, "KEEP_ALIVE_S", 2)
        query = start(broker, topic, tmp_path, sink, PATIENT)
        publish(broker, topic, b"1", b"2")
        sink.await_all(b"1", b"2")
        before = query.status["restarts"]  # a broker that is busy may be silent for as long
        impatient.setattr(mqtt_connection, "ANSWER_S", 2.0)
        impatient.setattr(mqtt_connection, "END_S", 0.2)
        come_back = strike(broker)
        wait_until(lambda: query.status["restarts"] >= before + 2, "it is restarted again", 60)
    port = broker.url.rpartition(":")[2]
    assert f"MQTT at 127.0.0.1:{port} cannot be reached" in str(query.status["last_error"])
    assert query.status["failing_since_ms"] is not None
    come_back()
    publish(broker, topic, b"3")
    sink.await_all(b"3")
    assert query.drain(30)


def test_what_was_under_way_when_the_broker_was_killed_comes(
    broker: MqttBroker, topic: str, tmp_path: Path
) -> None:
    sink = Kept()
    query = start(broker, topic, tmp_path, sink, PATIENT)
    sent = [b"%d" % each for each in range(2_000)]
    publish(broker, topic, *sent)
    broker.process.kill()
    broker.start()
    sink.await_all(*sent)
    # All may have come before the kill, and a drain in the pause after it has nothing to drain.
    wait_until(lambda: query.status["restarts"], "it was restarted")
    wait_until(lambda: query.status["failing_since_ms"] is None, "all is well")
    assert query.drain(30)


def test_a_port_that_nobody_listens_on() -> None:
    (port,) = free_ports(1)
    for url in (f"mqtt://127.0.0.1:{port}", "mqtt://no-such-host.invalid"):
        broker = type("Nobody", (), {"url": url})()
        with pytest.raises(ConfigError, match=r"cannot be reached: .*url names the broker"):
            source(broker, "a").initialOffset()
        with pytest.raises(SourceUnavailableError, match="cannot be reached"):
            source(broker, "a").partitions(
                {"client": "continuous-c", "received": 0, "topics": ["a"]}
            )


def test_a_broker_that_was_killed_gives_no_number_again(broker: MqttBroker, topic: str) -> None:
    """Of what it was about to queue when it was killed nobody knows the numbers."""
    publish(broker, topic, b"1")
    before = broker.next_number
    broker.process.kill()
    broker.start()
    assert broker.next_number > before
