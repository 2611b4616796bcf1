"""Rows as records of Kafka, and how they get to the client.

Source: Spark's KafkaWriter and KafkaRowWriter.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import length_hint
from typing import Any, Final

import pyarrow as pa

from engine.errors import ConfigError, SinkCommitRejectedError, SinkError
from engine.expressions.types import TIMESTAMP, sql_name

OWNER: Final = "sink kafka"
FULL_WAIT_S: Final = 0.01
"""So long the client is given to send something when its queue is full."""
_BYTES: Final = (pa.string(), pa.binary())
_HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_COLUMNS: Final[dict[str, tuple[pa.DataType, ...]]] = {
    "value": _BYTES,
    "key": _BYTES,
    "topic": (pa.string(),),
    "partition": (pa.int32(),),
    "headers": (_HEADERS,),
    "timestamp": (TIMESTAMP,),
}


@dataclass(frozen=True)
class RecordFormat:
    """Which of a row's columns make its record. Picklable.

    :param topic: of all records; None: each row's column ``topic`` says it.
    :param columns: those of :data:`_COLUMNS` that the rows have.
    """

    topic: str | None
    columns: frozenset[str]

    @classmethod
    def of(cls, schema: pa.Schema, topic: str | None) -> RecordFormat:
        """:raises ConfigError: a column is missing, or is of another type. With Spark's words."""
        if topic is None and "topic" not in schema.names:
            raise ConfigError(
                f"{OWNER}: topic option required when no 'topic' attribute is present.",
                hint='Set option("topic", "orders"), or select a column named topic.',
            )
        if "value" not in schema.names:
            raise ConfigError(
                f"{OWNER}: required attribute 'value' not found.",
                hint="Select the record as value: df.select(to_json(struct('*')).alias('value')).",
            )
        for name, allowed in _COLUMNS.items():
            if name in schema.names and schema.field(name).type not in allowed:
                found = sql_name(schema.field(name).type)
                raise ConfigError(
                    f"{OWNER}: {name} is {found}; it must be "
                    f"{' or '.join(map(sql_name, allowed))}.",
                    hint=f"Cast it, or drop it: df.withColumn('{name}', ...).",
                )
        return cls(topic, frozenset(_COLUMNS) & frozenset(schema.names))

    def send(self, producer: Any, batch: pa.RecordBatch) -> None:
        """Hand all rows to the client. When its queue is full, this waits.

        :raises SinkError: a row has no topic, or what cannot be a part of a record.
        """
        values = _octets(batch, "value")
        keys = _octets(batch, "key") if "key" in self.columns else [None] * batch.num_rows
        if self.topic is not None and not self.columns & {"partition", "headers", "timestamp"}:
            _produce(producer, partial(producer.produce, self.topic), values, keys)
            return
        rows = self._arguments(batch, values, keys)
        _produce(producer, lambda row: producer.produce(**row), rows)

    def _arguments(
        self, batch: pa.RecordBatch, values: Sequence[Any], keys: Sequence[Any]
    ) -> list[dict[str, Any]]:
        rows = [{"value": value, "key": key} for value, key in zip(values, keys, strict=True)]
        for row, topic in zip(rows, self._topics(batch), strict=True):
            row["topic"] = topic
        for name, texts in self._others(batch):
            for row, value in zip(rows, texts, strict=True):
                if value is not None:
                    row[name] = value
        return rows

    def _topics(self, batch: pa.RecordBatch) -> Sequence[str]:
        if self.topic is not None:  # Spark's rule: the option counts
            return [self.topic] * batch.num_rows
        topics: list[str] = batch.column("topic").to_pylist()
        if None in topics:
            raise SinkError(
                f"{OWNER}: null topic present in the data.",
                hint='Set option("topic", "orders"), or filter such rows out.',
            )
        return topics

    def _others(self, batch: pa.RecordBatch) -> Iterator[tuple[str, Sequence[Any]]]:
        if "partition" in self.columns:
            yield "partition", _partitions(batch.column("partition").to_pylist())
        if "timestamp" in self.columns:
            yield "timestamp", _milliseconds(batch.column("timestamp"))
        if "headers" in self.columns:
            yield "headers", list(map(_headers, batch.column("headers").to_pylist()))


def _partitions(numbers: list[int | None]) -> list[int | None]:
    if any(each is not None and each < 0 for each in numbers):
        raise SinkCommitRejectedError(
            f"{OWNER}: a row's partition is negative.",
            hint="NULL leaves the choice to the key.",
        )
    return numbers


def _milliseconds(times: pa.Array) -> list[int | None]:
    """Since 1970. Two of them cannot be sent: to the client 0 is the present, and to Kafka -1 is no
    time."""
    found = [each if each is None else each // 1_000 for each in times.cast(pa.int64()).to_pylist()]
    if 0 in found or -1 in found:
        raise SinkCommitRejectedError(
            f"{OWNER}: a row's timestamp is the beginning of 1970, which Kafka's client takes for "
            "none.",
            hint="NULL is the time at which the record is sent.",
        )
    return found


def _headers(pairs: list[Any] | None) -> list[tuple[str, bytes | None]] | None:
    if pairs is None:
        return None
    if any(each is None or each["key"] is None for each in pairs):
        raise SinkCommitRejectedError(
            f"{OWNER}: a row has a header without a key.",
            hint="Leave it out: filter(headers, ...).",
        )
    return [(each["key"], each["value"]) for each in pairs]


def _octets(batch: pa.RecordBatch, name: str) -> list[bytes | None]:
    column = batch.column(name)
    found: list[bytes | None] = column.cast(pa.binary()).to_pylist()
    return found


def _produce(producer: Any, call: Callable[..., Any], *columns: Sequence[Any]) -> None:
    """Make a call per row; again from the one that found the client's queue full.

    :raises SinkCommitRejectedError: a record alone is more than the queue takes.
    """
    done, rows, is_empty = 0, len(columns[0]), False
    while done < rows:
        first = iter(columns[0][done:])
        others = (column[done:] for column in columns[1:])
        try:
            # In C from end to end: a loop takes a third longer.
            deque(map(call, first, *others), maxlen=0)
            return
        except BufferError:
            last, done = done, rows - length_hint(first) - 1
            if is_empty and done == last:
                raise SinkCommitRejectedError(
                    f"{OWNER}: a record is larger than the queue of Kafka's client.",
                    hint='Set option("kafka.buffer.memory", ...) to several of the largest '
                    "records, in bytes.",
                ) from None
            producer.poll(FULL_WAIT_S)
            is_empty = not len(producer)
