"""How long the driver bears that brokers do not answer, without any."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from engine.errors import (
    ConfigError,
    OffsetOutOfRangeError,
    SourceError,
    SourceUnavailableError,
)
from engine.sources.kafka import reader as reader_module
from engine.sources.kafka import topics as topics_module
from engine.sources.kafka.data_source import KafkaDataSource
from engine.sources.kafka.offsets import Positions, TopicPartition
from engine.sources.kafka.options import Subscription
from engine.sources.kafka.reader import KafkaReader

AT, NEXT = TopicPartition("orders", 0), TopicPartition("orders", 1)


class Topics:
    """Answers, or does not."""

    def __init__(self) -> None:
        self.answers = True
        self.asked = 0
        self.there = [AT]
        self.told: list[list[TopicPartition]] = []
        """Instead, by a broker that has just started."""

    def partitions(self, known: Any = ()) -> list[TopicPartition]:
        self.asked += 1
        if not self.answers:
            raise SourceUnavailableError("no answer")
        return self.told.pop(0) if self.told else self.there

    def earliest(self, partitions: Any) -> Positions:
        return dict.fromkeys(partitions, 0)

    latest = earliest


@pytest.fixture
def topics(monkeypatch: pytest.MonkeyPatch) -> Topics:
    """Brokers are away as soon as they have not answered twice."""
    monkeypatch.setattr(topics_module, "AWAY_S", 0.0)
    monkeypatch.setattr(topics_module, "GONE_S", 3600.0)
    monkeypatch.setattr(reader_module, "LOOK_S", 0.0)
    monkeypatch.setattr(reader_module, "AGAIN_S", 0.0)
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


# -- brokers that tell what was there long ago ----------------------------------------------------

BOTH = {"orders": {"0": 0, "1": 0}}


@pytest.fixture
def reader_of_two(topics: Topics, reader: KafkaReader) -> KafkaReader:
    topics.there = [AT, NEXT]
    reader.partitions(BOTH)
    return reader


def test_fewer_partitions_are_no_change_for_a_while(
    topics: Topics, reader_of_two: KafkaReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        topics.told = [[AT], [AT]]
        assert not look(reader_of_two)
        assert not look(reader_of_two)
        assert not reader_of_two.hasReached({"orders": {"0": 0}}, {"orders": {"1": 1}})
        assert not look(reader_of_two), "they are told again"
    topics.told = [[AT]]
    monkeypatch.setattr(topics_module, "GONE_S", 0.0)
    assert look(reader_of_two)


def test_more_partitions_are_a_change_at_once(topics: Topics, reader: KafkaReader) -> None:
    topics.there = [AT, NEXT]
    assert look(reader)


def test_what_a_broker_leaves_out_is_asked_for_again(
    topics: Topics, reader: KafkaReader, caplog: pytest.LogCaptureFixture
) -> None:
    topics.there, topics.told = [AT, NEXT], [[AT], [], [AT]]
    assert [each.name for each in reader.partitions(BOTH)] == ["orders-0", "orders-1"]
    assert "orders-1" in caplog.text
    assert not look(reader)


def test_what_is_left_out_for_too_long_is_gone(
    topics: Topics, reader_of_two: KafkaReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics.there = [AT]
    monkeypatch.setattr(topics_module, "GONE_S", 0.0)
    with pytest.raises(OffsetOutOfRangeError, match="orders-1 is gone"):
        reader_of_two.partitions(BOTH)


def test_what_is_not_subscribed_to_any_more_is_not_asked_for(
    topics: Topics, reader: KafkaReader
) -> None:
    with pytest.raises(OffsetOutOfRangeError, match="others-0 is gone"):
        reader.partitions({"orders": {"0": 0}, "others": {"0": 0}})


def test_a_topic_of_a_pattern_that_is_gone_is_a_change_at_once(topics: Topics) -> None:
    source = KafkaDataSource({"kafka.bootstrap.servers": "b:9092", "subscribePattern": "o.*"})
    reader = source.continuousReader(source.schema())
    reader._topics = topics  # type: ignore[assignment]
    topics.there = [AT, TopicPartition("old", 0)]
    reader.partitions({})
    topics.there = [AT]
    assert look(reader)


def test_an_assigned_partition_that_was_there_may_be_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = SimpleNamespace(error=None, partitions={0: SimpleNamespace(leader=1)})
    asked = topics_module.KafkaTopics(
        {"bootstrap.servers": "b:9092"}, Subscription(assigned=(AT, NEXT))
    )
    monkeypatch.setattr(asked, "_metadata", lambda: {"orders": found})
    assert asked.partitions([AT, NEXT]) == [AT]
    with pytest.raises(ConfigError, match="there is no partition orders-1"):
        asked.partitions([AT])
