"""Messages as rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from engine.expressions.types import TIMESTAMP

OWNER: Final = "source mqtt"
SCHEMA: Final = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("payload", pa.binary(), nullable=False),
        pa.field("qos", pa.int32(), nullable=False),
        pa.field("retain", pa.bool_(), nullable=False),
        pa.field("properties", pa.map_(pa.string(), pa.string()), nullable=False),
        pa.field("timestamp", TIMESTAMP, nullable=False),
    ]
)


@dataclass(frozen=True)
class Message:
    """What the broker has sent.

    :param packet: its packet id, by which it is acknowledged.
    :param qos: 0: it is not to be acknowledged.
    :param properties: the user's; of a name that is there more than once the last.
    :param arrived_us: since 1970.
    """

    packet: int
    topic: str
    payload: bytes
    qos: int
    retain: bool
    properties: tuple[tuple[str, str], ...]
    arrived_us: int

    @classmethod
    def of(cls, received: Any, arrived_us: int) -> Message:
        """:param received: the client's own."""
        users = getattr(received.properties, "UserProperty", ())
        return cls(
            received.mid,
            received.topic,
            bytes(received.payload),
            received.qos,
            bool(received.retain),
            tuple(dict(users).items()),
            arrived_us,
        )


def batch_of(messages: Sequence[Message], columns: Sequence[str]) -> pa.RecordBatch:
    """:param columns: those of :data:`SCHEMA` that it has."""
    make: dict[str, Callable[[Message], Any]] = {
        "topic": lambda each: each.topic,
        "payload": lambda each: each.payload,
        "qos": lambda each: each.qos,
        "retain": lambda each: each.retain,
        "properties": lambda each: each.properties,
        "timestamp": lambda each: each.arrived_us,
    }
    schema = columns_of(columns)
    return pa.RecordBatch.from_arrays(
        [pa.array(list(map(make[field.name], messages)), field.type) for field in schema],
        schema=schema,
    )


def columns_of(names: Sequence[str]) -> pa.Schema:
    """Some of :data:`SCHEMA`."""
    return pa.schema([SCHEMA.field(name) for name in names])
