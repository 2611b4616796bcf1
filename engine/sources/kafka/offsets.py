r"""Offsets of the Kafka source, as Spark writes them: ``{"orders":{"0":23,"1":345}}``.

Topic → partition → the next record's offset. In options, -2 stands for the earliest and -1 for the
latest; a checkpoint has neither.

Source: Spark's JsonUtils and KafkaSourceOffset.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

EARLIEST: Final = -2
LATEST: Final = -1


class TopicPartition(NamedTuple):
    """A partition of a topic. They sort by topic, then by number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


Positions: TypeAlias = dict[TopicPartition, int]
"""Where each partition stands: the offset of its next record."""


def positions_of(offset: Any) -> Positions:
    """Read an offset.

    :raises ValueError: it is not one.
    """
    if not isinstance(offset, Mapping):
        raise ValueError(f"{offset!r} is no object")
    found: Positions = {}
    for topic, partitions in offset.items():
        if not isinstance(partitions, Mapping):
            raise ValueError(f"{topic!r} has no partitions")
        for partition, position in partitions.items():
            if not isinstance(position, int) or isinstance(position, bool):
                raise ValueError(f"partition {partition} of {topic!r} has no whole number")
            found[TopicPartition(topic, _number(partition))] = position
    return found


def offset_of(positions: Iterable[tuple[TopicPartition, int]]) -> dict[str, dict[str, int]]:
    """Write an offset, topics and partitions in order."""
    offset: dict[str, dict[str, int]] = {}
    for each, position in sorted(positions):
        offset.setdefault(each.topic, {})[str(each.partition)] = position
    return offset


def partitions_of(text: str) -> list[TopicPartition]:
    """Read the option ``assign``: ``{"orders":[0,1]}``.

    :raises ValueError: it is not of that form.
    """
    given = json.loads(text)
    if not isinstance(given, dict) or not given:
        raise ValueError("no topic is named")
    found = set()
    for topic, numbers in given.items():
        if not isinstance(numbers, list):
            raise ValueError(f"{topic!r} has no list of partitions")
        found |= {TopicPartition(topic, _number(number)) for number in numbers}
    if not found:
        raise ValueError("no partition is named")
    return sorted(found)


def _number(partition: Any) -> int:
    """:raises ValueError: it is not a partition's number."""
    text = str(partition)
    if not text.isascii() or not text.isdecimal():
        raise ValueError(f"{partition!r} is no number of a partition")
    return int(text)


def limited(start: Positions, end: Positions, count_max: int) -> Positions:
    """An end that is so many records behind ``start`` at most, all partitions together; each gets
    its share of what it has, and one at least, so that none waits for ever.

    :param start: of all partitions of ``end``.
    """
    sizes = {at: max(0, end[at] - start[at]) for at in end}
    total = sum(sizes.values())
    if total <= count_max:
        return end
    return {
        at: start[at] + min(size, max(size * count_max // total, 1)) if size else end[at]
        for at, size in sizes.items()
    }
