"""A partition of which nothing is heard beside one that always has something: its broker may be out
of reach, and a client tells that once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import confluent_kafka
import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException

from engine.errors import SourceUnavailableError
from engine.sources.kafka import partition_reader, topics
from engine.sources.kafka.offsets import TopicPartition
from engine.sources.kafka.partition_reader import KafkaPartition, KafkaPartitionsReader

BUSY, QUIET = 0, 1


class Message:
    def __init__(self, partition: int, offset: int, error: KafkaError | None = None) -> None:
        self._partition, self._offset, self._error = partition, offset, error

    def topic(self) -> str:
        return "orders"

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset

    def error(self) -> KafkaError | None:
        return self._error


class Consumer:
    """Of two brokers, one for each partition; librdkafka's, as far as it goes.

    :ivar answers: whether the quiet partition's broker does.
    :ivar end: of the quiet partition.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        self._complain, self._polled = settings["error_cb"], 0
        self.coming: list[Message] = [
            Message(at, 0, KafkaError(KafkaError._PARTITION_EOF)) for at in (BUSY, QUIET)
        ]
        self.answers, self.end = True, 0

    def assign(self, partitions: Any) -> None:
        pass

    def poll(self, timeout_s: float) -> Message:
        if self.coming:
            return self.coming.pop(0)
        self._polled += 1
        return Message(BUSY, self._polled - 1)

    def consume(self, count: int, timeout_s: float) -> list[Message]:
        return []

    def cut(self) -> None:
        self.answers = False
        self._complain(KafkaError(KafkaError._TRANSPORT, "disconnected"))

    def get_watermark_offsets(self, at: Any, timeout: float = 0, cached: bool = False) -> Any:
        if at.partition == BUSY:
            return 0, self._polled
        if not cached and not self.answers:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return 0, self.end


class Columns:
    def batch(self, at: TopicPartition, messages: list[Message]) -> pa.RecordBatch:
        return pa.record_batch({"offset": [each.offset() for each in messages]})


def consume_by(consumer: type, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers have such a one in place of librdkafka's."""
    client = SimpleNamespace(
        Message=Message,
        Consumer=consumer,
        TopicPartition=confluent_kafka.TopicPartition,
        KafkaException=KafkaException,
    )
    monkeypatch.setattr(partition_reader, "import_client", lambda owner: client)
    monkeypatch.setattr(partition_reader, "made_client", lambda kind, given, _: kind(given))


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> KafkaPartitionsReader:
    """It has caught up with both."""
    monkeypatch.setattr(partition_reader, "_GLANCE_EVERY_S", 0.0)
    monkeypatch.setattr(partition_reader, "_GLANCE_SHARE_MAX", 1e9)
    consume_by(Consumer, monkeypatch)
    made = KafkaPartitionsReader(
        {"bootstrap.servers": "b:9092"},
        [KafkaPartition(TopicPartition("orders", at), 0) for at in (BUSY, QUIET)],
        Columns(),  # type: ignore[arg-type]
    )
    read(made)
    assert made.caught_up == {BUSY, QUIET}
    return made


def read(reader: KafkaPartitionsReader, times: int = 3) -> None:
    for _ in range(times):
        reader.read(0.0)


def consumer_of(reader: KafkaPartitionsReader) -> Consumer:
    found: Consumer = reader._consumer
    return found


def test_one_out_of_reach_has_not_caught_up(
    reader: KafkaPartitionsReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer_of(reader).cut()
    read(reader)
    assert reader.caught_up == {BUSY}
    monkeypatch.setattr(topics, "AWAY_S", 0.0)
    with pytest.raises(SourceUnavailableError, match=r"timed out|Timed out"):
        read(reader)


@pytest.mark.parametrize("answers", [True, False])
def test_one_that_was_never_heard_is_asked(
    reader: KafkaPartitionsReader, monkeypatch: pytest.MonkeyPatch, answers: bool
) -> None:
    """What the client has of it may stand behind much that the other one has."""
    again = KafkaPartitionsReader(
        {"bootstrap.servers": "b:9092"},
        [KafkaPartition(at, 0) for at in reader._places],
        Columns(),  # type: ignore[arg-type]
    )
    consumer = consumer_of(again)
    consumer.coming, consumer.answers = [], answers
    read(again)
    monkeypatch.setattr(topics, "AWAY_S", 0.0)
    if answers:
        read(again)
        assert again.caught_up == {BUSY}, "it has not told of an end yet"
        return
    with pytest.raises(SourceUnavailableError, match=r"timed out|Timed out"):
        read(again)


def test_one_that_answers_has(
    reader: KafkaPartitionsReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = consumer_of(reader)
    consumer.cut()
    consumer.answers = True
    assert reader.caught_up == set(), "nothing was heard since"
    read(reader)
    assert reader.caught_up == {BUSY, QUIET}
    monkeypatch.setattr(topics, "AWAY_S", 0.0)
    read(reader)
    assert reader._complaints.since_s is None


@pytest.mark.parametrize("away_s", [0.0, 3_600.0])
def test_one_that_comes_back_with_more_has_caught_up_behind_that(
    reader: KafkaPartitionsReader, monkeypatch: pytest.MonkeyPatch, away_s: float
) -> None:
    consumer = consumer_of(reader)
    consumer.cut()
    consumer.answers, consumer.end = True, 2
    monkeypatch.setattr(topics, "AWAY_S", away_s)
    read(reader)
    assert reader.caught_up == {BUSY}
    consumer.coming = [Message(QUIET, 0)]
    read(reader, 1)
    assert reader.caught_up == {BUSY}
    consumer.coming = [Message(QUIET, 1)]
    read(reader, 1)
    assert reader.caught_up == {BUSY, QUIET}
