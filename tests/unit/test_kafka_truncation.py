"""A client that is told that its position is not there: what is left, and what is read again."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from engine.errors import OffsetOutOfRangeError
from engine.sources.kafka import topics
from engine.sources.kafka.offsets import TopicPartition
from engine.sources.kafka.partition_reader import KafkaPartition, KafkaPartitionsReader
from tests.unit.test_kafka_quiet_partitions import Message, consume_by

AT = TopicPartition("orders", 0)
LOW, MAY_BE_READ, HIGH = 3, 15, 20
REASON = "fetch failed: truncation detected"


class Consumer:
    """:ivar assigned: where it was told to read, time after time."""

    def __init__(self, settings: Any) -> None:
        self.assigned: list[int] = []
        self._coming = [Message(0, -1, KafkaError(KafkaError._AUTO_OFFSET_RESET, REASON))]

    def assign(self, partitions: Any) -> None:
        self.assigned += [each.offset for each in partitions]

    incremental_assign = assign

    def incremental_unassign(self, partitions: Any) -> None:
        pass

    def poll(self, timeout_s: float) -> Message | None:
        return self._coming.pop() if self._coming else None

    def consume(self, count: int, timeout_s: float) -> list[Message]:
        return []

    def get_watermark_offsets(self, at: Any, timeout: float = 0, cached: bool = False) -> Any:
        return LOW, MAY_BE_READ


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, bool], KafkaPartitionsReader]:
    consume_by(Consumer, monkeypatch)
    monkeypatch.setattr(topics, "ends", lambda client, partitions: dict.fromkeys(partitions, HIGH))
    settings, columns = {"bootstrap.servers": "b:9092"}, SimpleNamespace()
    return lambda start, fails: KafkaPartitionsReader(
        settings,
        [KafkaPartition(AT, start)],
        columns,  # type: ignore[arg-type]
        fails_on_data_loss=fails,
    )


@pytest.mark.parametrize(
    ("start", "goes_on", "says"),
    [
        (1, LOW, "2 records, 1 to 2, are gone"),
        (2, LOW, "1 record, 2, is gone"),
        (LOW, LOW, "offset 3 is there"),
        (9, 9, "offset 9 is there"),
        (18, 18, "offset 18 is there"),  # within a transaction that is open
        (HIGH, HIGH, "offset 20 is there"),
        (25, LOW, "it ends at 20, and the query stands at 25"),
    ],
)
def test_only_what_is_gone_is_left_out_and_nothing_is_read_again(
    opened: Callable[[int, bool], KafkaPartitionsReader],
    caplog: pytest.LogCaptureFixture,
    start: int,
    goes_on: int,
    says: str,
) -> None:
    reader = opened(start, False)
    assert reader.read(0.0) is None
    assert reader._consumer.assigned == [start, goes_on]
    assert reader.offsets == ({"orders": {"0": goes_on}},)
    assert says in caplog.text
    assert f"the query goes on at offset {goes_on}" in caplog.text


def test_what_was_truncated_and_written_anew_is_told(
    opened: Callable[[int, bool], KafkaPartitionsReader],
) -> None:
    with pytest.raises(OffsetOutOfRangeError, match=REASON) as error:
        opened(9, True).read(0.0)
    told = str(error.value)
    assert "offset 9 is there" in told
    assert "it ends at" not in told
    assert 'To go on at offset 9, set option("failOnDataLoss", "false")' in told
