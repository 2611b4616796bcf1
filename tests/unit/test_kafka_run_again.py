"""An epoch that is run again to its logged end, after partitions have come or gone."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from engine.errors import OffsetOutOfRangeError
from engine.sources.kafka.data_source import KafkaDataSource
from engine.sources.kafka.offsets import Positions, TopicPartition
from engine.sources.kafka.reader import KafkaReader


class Topics:
    """Of partitions that begin at 5."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions

    def partitions(self, known: Any = ()) -> list[TopicPartition]:
        return [TopicPartition("orders", number) for number in range(self._partitions)]

    def earliest(self, partitions: Any) -> Positions:
        return dict.fromkeys(partitions, 5)

    def latest(self, partitions: Any) -> Positions:
        return dict.fromkeys(partitions, 20)


def reader_of(partitions: int, fails: str = "false") -> KafkaReader:
    source = KafkaDataSource(
        {
            "kafka.bootstrap.servers": "127.0.0.1:9",
            "subscribe": "orders",
            "failOnDataLoss": fails,
        }
    )
    made = source.continuousReader(source.schema())
    made._topics = Topics(partitions)  # type: ignore[assignment]
    return made


def run_again(reader: KafkaReader, start: Any, logged: Any) -> Any:
    """Its end, of an epoch that has nothing to be read."""
    partitions = reader.partitions(start)
    opened = pickle.loads(pickle.dumps(reader)).openTogether(partitions, logged)
    assert opened.exhausted
    end = reader.mergeOffsets(opened.offsets)
    opened.close()
    return end


def test_a_partition_that_is_new_is_not_in_its_end() -> None:
    reader, logged = reader_of(3), {"orders": {"0": 9, "1": 9}}
    end = run_again(reader, logged, logged)
    assert end == logged
    assert reader.hasComeTo(logged, end)


def test_one_that_begins_behind_its_end_is_there() -> None:
    reader, logged = reader_of(1), {"orders": {"0": 4}}
    end = run_again(reader, {"orders": {"0": 3}}, logged)
    assert reader.hasComeTo(logged, end)


@pytest.mark.parametrize("fails", ["true", "false"])
def test_one_that_is_gone_is_not_waited_for(fails: str) -> None:
    reader, logged = reader_of(1, fails), {"orders": {"0": 9, "1": 9}}
    end = run_again(reader, {"orders": {"0": 9}}, logged)
    if fails == "true":
        with pytest.raises(OffsetOutOfRangeError, match="orders-1 is gone"):
            reader.hasComeTo(logged, end)
    else:
        assert reader.hasComeTo(logged, end)
        assert not reader.hasComeTo(logged, {"orders": {"0": 8}})


def test_an_end_that_stands_elsewhere_is_another() -> None:
    reader = reader_of(1)
    reader.partitions({})
    assert not reader.hasComeTo({"orders": {"0": 9}}, {"orders": {"0": 8}})
    assert not reader.hasComeTo({"orders": {"0": 9}}, {})
