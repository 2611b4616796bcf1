"""One broker for all tests: that of ``KAFKA_BOOTSTRAP``, or one that is started here."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.connectors.kafka.sinks import close_all
from tests.connectors.kafka.topics import Topic
from tests.servers.jars import NoJarsError
from tests.servers.kafka import Cluster, Kafka, running_kafka

SETTINGS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Other tests may have left topics."""
    bootstrap = os.environ.get("KAFKA_BOOTSTRAP")
    if bootstrap:
        yield Cluster(bootstrap)
        return
    try:
        with running_kafka(tmp_path_factory.mktemp("kafka") / "broker", SETTINGS) as kafka:
            yield kafka
    except NoJarsError as exc:
        pytest.skip(f"no Kafka: {exc}")


@pytest.fixture(autouse=True)
def _close_sinks() -> Iterator[None]:
    yield
    close_all()


@pytest.fixture
def broker(kafka: Cluster) -> Iterator[Kafka]:
    """The same, to be suspended, killed and started again: in the end it runs."""
    if not isinstance(kafka, Kafka):
        pytest.skip("not with a broker of KAFKA_BOOTSTRAP")
    yield kafka
    kafka.process.resume()
    if not kafka.process.is_alive:
        kafka.start()


@pytest.fixture
def topic(kafka: Cluster) -> Topic:
    """Two partitions, empty."""
    return Topic.new(kafka, partitions=2)
