"""How long the driver bears that brokers do not answer, without any."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from engine.errors import SourceError, SourceUnavailableError
from engine.sources.kafka import reader as reader_module
from engine.sources.kafka import topics as topics_module
from engine.sources.kafka.data_source import KafkaDataSource
from engine.sources.kafka.offsets import Positions, TopicPartition
from engine.sources.kafka.options import Subscription
from engine.sources.kafka.reader import KafkaReader

AT = TopicPartition("orders", 0)


class Topics:
    """Answers, or does not."""

    def __init__(self) -> None:
        self.answers = True
        self.asked = 0

    def partitions(self) -> list[TopicPartition]:
        self.asked += 1
        if not self.answers:
            raise SourceUnavailableError("no answer")
        return [AT]

    def earliest(self, partitions: Any) -> Positions:
        return dict.fromkeys(partitions, 0)

    latest = earliest


@pytest.fixture
def topics(monkeypatch: pytest.MonkeyPatch) -> Topics:
    """Brokers are away as soon as they have not answered twice."""
    monkeypatch.setattr(topics_module, "AWAY_S", 0.0)
    monkeypatch.setattr(reader_module, "LOOK_S", 0.0)
    return Topics()


@pytest.fixture
def reader(topics: Topics) -> KafkaReader:
    source = KafkaDataSource({"kafka.bootstrap.servers": "b:9092", "subscribe": "orders"})
    made = source.continuousReader(source.schema())
    made._topics = topics  # type: ignore[assignment]
    made.partitions({"orders": {"0": 0}})
    return made


def look(reader: KafkaReader) -> bool:
    reader._next_look_s = 0.0
    return reader.needsReconfiguration()


def test_a_leader_that_moves_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics_module, "TRIES_S", (0.1, 0.1, 0.1))
    client = {"bootstrap.servers": "127.0.0.1:9", "group.id": "tests"}
    asked = topics_module.KafkaTopics(client, Subscription())
    there_s = time.monotonic() + 0.05

    def question(consumer: Any, wait_s: float) -> str:
        if time.monotonic() < there_s:  # it is told at once
            raise KafkaException(KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION))
        return "here"

    assert asked._ask("cannot tell", question) == "here"
    asked.close()


@pytest.mark.parametrize("code", [KafkaError._TRANSPORT, KafkaError.INVALID_CONFIG])
def test_a_client_that_got_no_answer_is_replaced(
    monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """A client reads its certificates once: those of a day ago may be the reason."""
    monkeypatch.setattr(topics_module, "TRIES_S", (0.01, 0.01))
    client = {"bootstrap.servers": "127.0.0.1:9", "group.id": "tests"}
    topics, clients = topics_module.KafkaTopics(client, Subscription()), []

    def question(consumer: Any, wait_s: float) -> str:
        clients.append(consumer)
        if consumer is clients[0]:
            topics._complaints(KafkaError(KafkaError._SSL))
            raise KafkaException(KafkaError(code))
        assert not topics._complaints.is_for_people, "it may have what the last one lacked"
        return "here"

    with pytest.raises(SourceError, match=r"cannot tell: .*SSL"):
        topics._ask("cannot tell", question)
    assert topics._ask("cannot tell", question) == "here"
    assert topics._ask("cannot tell", question) == "here"
    assert clients[-2] is clients[-1]
    topics.close()


def test_what_goes_on_for_too_long_is_an_outage(topics: Topics, reader: KafkaReader) -> None:
    assert not look(reader)
    topics.answers = False
    assert not look(reader)
    with pytest.raises(SourceUnavailableError, match="no answer"):
        look(reader)


def test_an_answer_ends_an_absence(topics: Topics, reader: KafkaReader) -> None:
    for _ in range(3):
        topics.answers = False
        assert not look(reader)
        topics.answers = True
        assert not look(reader)


def test_a_restart_ends_an_absence(topics: Topics, reader: KafkaReader) -> None:
    """A task may have ended the run before the driver had lost its patience."""
    topics.answers = False
    assert not look(reader)
    topics.answers = True
    reader.partitions({"orders": {"0": 0}})
    topics.answers = False
    assert not look(reader)


def test_brokers_are_not_asked_with_every_look(
    topics: Topics, reader: KafkaReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_module, "LOOK_S", 3600.0)
    look(reader)
    asked = topics.asked
    assert not reader.needsReconfiguration()
    assert topics.asked == asked
