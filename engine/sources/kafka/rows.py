"""Records of Kafka as rows, with Spark's columns.

Source: Spark's KafkaRecordToRowConverter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from engine.expressions.types import TIMESTAMP
from engine.sources.kafka.offsets import TopicPartition

_HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP),
        ("timestampType", pa.int32()),
        ("headers", _HEADERS),
    ]
)
"""``timestampType``: 0 is the producer's time, 1 the broker's, -1 none. ``headers`` is there with
the option ``includeHeaders``; NULL for a record that has none."""


_LATEST_MS: Final = (2**63 - 1) // 1_000


class UnfitRecordsError(Exception):
    """Records that cannot be rows.

    :param reasons: by their places among all that were given.
    """

    def __init__(self, reasons: Mapping[int, str]) -> None:
        super().__init__(*reasons.values())
        self.reasons = reasons


class Columns:
    """Which columns are made. Picklable.

    :param names: of :data:`SCHEMA`, in the order of the batches.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)
        self.schema = pa.schema([SCHEMA.field(name) for name in names])

    def batch(self, at: TopicPartition, messages: Sequence[Any]) -> pa.RecordBatch:
        """The rows of some records of one partition.

        :param messages: of confluent_kafka, at least one.
        :raises UnfitRecordsError: some cannot be rows; without them the others can.
        """
        return pa.RecordBatch.from_arrays(
            [_MAKERS[name](at, messages) for name in self._names], schema=self.schema
        )

    def __reduce__(self) -> Any:
        return Columns, (self._names,)


def _binary(method: str) -> Callable[[TopicPartition, Sequence[Any]], pa.Array]:
    def made(at: TopicPartition, messages: Sequence[Any]) -> pa.Array:
        # The class's method, mapped: a third of the time of a loop that calls each record's.
        return pa.array(list(map(getattr(type(messages[0]), method), messages)), pa.binary())

    return made


def _offsets(at: TopicPartition, messages: Sequence[Any]) -> pa.Array:
    offset = type(messages[0]).offset
    return pa.array(np.fromiter(map(offset, messages), np.int64, len(messages)))


def _times(messages: Sequence[Any]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Of each record the kind of its time, and milliseconds since 1970."""
    return np.array(list(map(type(messages[0]).timestamp, messages)), np.int64)


def _timestamps(at: TopicPartition, messages: Sequence[Any]) -> pa.Array:
    kinds, milliseconds = _times(messages).T
    milliseconds = np.where(kinds == 0, -1, milliseconds)
    too_far = np.flatnonzero(np.abs(milliseconds) > _LATEST_MS)
    if len(too_far):
        raise UnfitRecordsError(
            {int(place): "its time is none that a TIMESTAMP can hold" for place in too_far}
        )
    return pa.array(milliseconds * 1_000).cast(TIMESTAMP)


def _timestamp_types(at: TopicPartition, messages: Sequence[Any]) -> pa.Array:
    return pa.array((_times(messages)[:, 0] - 1).astype(np.int32))


def _headers(at: TopicPartition, messages: Sequence[Any]) -> pa.Array:
    found: list[Any] = []
    unfit: dict[int, str] = {}
    rest = iter(messages)
    while len(found) < len(messages):
        try:
            found.extend(map(type(messages[0]).headers, rest))
        except (SystemError, UnicodeDecodeError) as exc:
            # Whoever asks such a record again gets something that Python cannot bear.
            unfit[len(found)] = f"a header's key is no UTF-8: {exc.__cause__ or exc}"
            found.append(None)
    if unfit:
        raise UnfitRecordsError(unfit)
    return pa.array(found, _HEADERS)


_MAKERS: Final[dict[str, Callable[[TopicPartition, Sequence[Any]], pa.Array]]] = {
    "key": _binary("key"),
    "value": _binary("value"),
    "topic": lambda at, messages: pa.repeat(pa.scalar(at.topic), len(messages)),
    "partition": lambda at, messages: pa.repeat(pa.scalar(at.partition, pa.int32()), len(messages)),
    "offset": _offsets,
    "timestamp": _timestamps,
    "timestampType": _timestamp_types,
    "headers": _headers,
}
