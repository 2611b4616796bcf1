"""One broker for all tests; each has topics of its own."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from tests.servers.mqtt import MqttBroker, running_mqtt
from tests.servers.process import NoServerError

_topics = count()


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MqttBroker]:
    try:
        with running_mqtt(tmp_path_factory.mktemp("mqtt") / "broker") as broker:
            yield broker
    except NoServerError as exc:
        pytest.skip(f"no MQTT broker: {exc}")


@pytest.fixture
def broker(running: MqttBroker) -> Iterator[MqttBroker]:
    """To be suspended, killed and started again: in the end it runs."""
    yield running
    running.process.resume()
    if not running.process.is_alive:
        running.start()


@pytest.fixture
def topic() -> str:
    return f"plant/{next(_topics)}"
