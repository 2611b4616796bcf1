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
import pyarrow.compute as pc

from engine.errors import ConfigError, SinkError
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

        :raises SinkError: a row has no topic, or a partition that is none.
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
            yield "partition", batch.column("partition").to_pylist()
        if "timestamp" in self.columns:
            milliseconds = pc.divide(batch.column("timestamp").cast(pa.int64()), 1_000)
            yield "timestamp", milliseconds.to_pylist()
        if "headers" in self.columns:
            yield (
                "headers",
                [
                    None if each is None else [(pair["key"], pair["value"]) for pair in each]
                    for each in batch.column("headers").to_pylist()
                ],
            )


def _octets(batch: pa.RecordBatch, name: str) -> list[bytes | None]:
    column = batch.column(name)
    found: list[bytes | None] = column.cast(pa.binary()).to_pylist()
    return found


def _produce(producer: Any, call: Callable[..., Any], *columns: Sequence[Any]) -> None:
    """Make a call per row; again from the one that found the client's queue full."""
    done, rows = 0, len(columns[0])
    while done < rows:
        first = iter(columns[0][done:])
        others = (column[done:] for column in columns[1:])
        try:
            # In C from end to end: a loop takes a third longer.
            deque(map(call, first, *others), maxlen=0)
            return
        except BufferError:
            done = rows - length_hint(first) - 1
            producer.poll(FULL_WAIT_S)
