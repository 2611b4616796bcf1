"""One broker for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.jars import NoJarsError
from tests.servers.kafka import Kafka, running_kafka

SETTINGS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    try:
        with running_kafka(tmp_path_factory.mktemp("kafka") / "broker", SETTINGS) as kafka:
            yield kafka
    except NoJarsError as exc:
        pytest.skip(f"no Kafka broker: {exc}")
