"""What the sink makes of a producer's errors, and how long it waits for one, without any broker."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from engine.errors import SinkCommitRejectedError, SinkError, SinkUnavailableError
from engine.sinks.kafka import producers
from engine.sinks.kafka.producers import ACKNOWLEDGED_S, Sender


class Producer:
    """:ivar left: so many records are not acknowledged after each flush."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.report: Callable[[Any, Any], None] = settings["on_delivery"]
        self.left: list[int] = [0]
        self.now_s = 0.0

    def flush(self, timeout_s: float) -> int:
        self.now_s += ACKNOWLEDGED_S / 2 + 1.0
        return self.left.pop(0)


@pytest.fixture
def sender(monkeypatch: pytest.MonkeyPatch) -> Sender:
    monkeypatch.setattr(producers, "made_client", lambda kind, settings, _: Producer(settings))
    made = Sender({"bootstrap.servers": "b:9092"})
    clock = SimpleNamespace(monotonic=lambda: made.producer.now_s)
    monkeypatch.setattr(producers, "time", clock)
    return made


MESSAGE = SimpleNamespace(topic=lambda: "orders")


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
        KafkaError.UNKNOWN_PRODUCER_ID,
        KafkaError.UNKNOWN,
        KafkaError.INVALID_PRODUCER_EPOCH,
    ],
)
def test_what_a_new_producer_does_not_meet_is_an_outage(sender: Sender, code: int) -> None:
    sender.producer.report(KafkaError(code), MESSAGE)
    with pytest.raises(SinkUnavailableError, match="a record for orders was refused"):
        sender.finish()
    with (
        pytest.raises(SinkUnavailableError, match="cannot begin"),
        sender.speaking("cannot begin", SinkCommitRejectedError),
    ):
        raise KafkaException(KafkaError(code))


@pytest.mark.parametrize(
    "code",
    [KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_RECORD, KafkaError._UNKNOWN_PARTITION],
)
def test_what_any_producer_meets_is_final(sender: Sender, code: int) -> None:
    sender.producer.report(KafkaError(code), MESSAGE)
    with pytest.raises(SinkCommitRejectedError, match="A restart would meet the same"):
        sender.finish()


def test_records_that_are_acknowledged_slowly_are_waited_for(sender: Sender) -> None:
    sender.producer.left = [500, 400, 300, 200, 100, 0]
    sender.finish()
    assert not sender.producer.left


def test_when_none_is_acknowledged_any_more_it_is_an_outage(sender: Sender) -> None:
    sender.producer.left = [500, 400, 400, 400, 400, 0]
    with pytest.raises(SinkError, match=r"400 records are not acknowledged, and no other .* 120 s"):
        sender.finish()
    assert sender.producer.left == [400, 0]
