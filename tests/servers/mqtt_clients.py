"""Who publishes to a broker, and who listens, beside the connector: over connections that come back
by themselves."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from paho.mqtt.client import CallbackAPIVersion, Client, MQTTv5
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from tests.servers.mqtt import MqttBroker
from tests.waiting import wait_until

HOUR_S = 3_600


def publish(
    broker: MqttBroker,
    topic: str,
    *payloads: bytes,
    qos: int = 1,
    retain: bool = False,
    properties: Sequence[tuple[str, str]] = (),
) -> None:
    """And wait until the broker has them."""
    said = Properties(PacketTypes.PUBLISH)
    if properties:
        said.UserProperty = list(properties)
    with connected(broker, "") as client:
        sent = [client.publish(topic, each, qos, retain, said) for each in payloads]
        wait_until(lambda: all(each.is_published() for each in sent), "the broker has them")


@contextmanager
def connected(broker: MqttBroker, client_id: str, session_s: int = 0) -> Iterator[Client]:
    """A client that comes back when the broker does.

    :param session_s: so long the broker keeps what it has missed.
    """
    client = Client(CallbackAPIVersion.VERSION2, client_id=client_id, protocol=MQTTv5)
    client.reconnect_delay_set(1, 1)
    said = Properties(PacketTypes.CONNECT)
    said.SessionExpiryInterval = session_s
    client.connect("127.0.0.1", broker.port, 10, clean_start=False, properties=said)
    client.loop_start()
    try:
        wait_until(client.is_connected, "it is connected")
        yield client
    finally:
        client.disconnect()
        client.loop_stop()


class Listener:
    """Hears what is published, also what was while it or the broker was away.

    :ivar heard: topic, payload, qos, retain and the user's properties of each message.
    """

    def __init__(self, broker: MqttBroker, topic: str) -> None:
        self._broker, self._topic = broker, topic
        self.heard: list[tuple[str, bytes, int, bool, tuple[tuple[str, str], ...]]] = []

    @property
    def payloads(self) -> list[bytes]:
        return [payload for _, payload, *_ in self.heard]

    @contextmanager
    def listening(self) -> Iterator[Listener]:
        subscribed = threading.Event()
        name = f"listener-{id(self)}"
        with connected(self._broker, name, HOUR_S) as client:
            client.on_message = lambda _client, _data, message: self._hear(message)
            client.on_subscribe = lambda *_: subscribed.set()
            client.subscribe(self._topic, options=SubscribeOptions(qos=2, retainAsPublished=True))
            assert subscribed.wait(30), "the broker does not answer"
            yield self

    def _hear(self, message: Any) -> None:
        users = tuple(getattr(message.properties, "UserProperty", ()))
        self.heard.append((message.topic, message.payload, message.qos, message.retain, users))
