"""Rows as messages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from engine.errors import ConfigError, SinkCommitRejectedError
from engine.expressions.types import sql_name

OWNER: Final = "sink mqtt"
_COLUMNS: Final[dict[str, tuple[pa.DataType, ...]]] = {
    "payload": (pa.string(), pa.binary()),
    "topic": (pa.string(),),
    "retain": (pa.bool_(),),
    "properties": (pa.map_(pa.string(), pa.string()),),
}
TEXT_BYTES_MAX: Final = 65_535
"""Of a topic, and of each text of a property."""


@dataclass(frozen=True)
class Publication:
    """A message to be published.

    :param properties: the user's.
    """

    topic: str
    payload: bytes
    retain: bool
    properties: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class MessageFormat:
    """Which of a row's columns make its message. Picklable.

    :param topic: of all messages; None: each row's column ``topic`` says it.
    :param retain: where there is no such column.
    :param columns: those of :data:`_COLUMNS` that the rows have.
    """

    topic: str | None
    retain: bool
    columns: frozenset[str]

    @classmethod
    def of(cls, schema: pa.Schema, topic: str | None, retain: bool | None) -> MessageFormat:
        """
        :param retain: None: the option is not set.
        :raises ConfigError: a column is missing, unknown, of another type, or an option, too.
        """
        if "payload" not in schema.names:
            raise ConfigError(
                f"{OWNER}: there is no column payload.",
                hint="Select it: df.select(to_json(struct('*')).alias('payload')).",
            )
        if (topic is None) == ("topic" not in schema.names):
            raise ConfigError(
                f"{OWNER}: the topic is in {'neither' if topic is None else 'both'} the option "
                f"topic {'nor' if topic is None else 'and'} the column topic.",
                hint="It is in one of them.",
            )
        if retain is not None and "retain" in schema.names:
            raise ConfigError(
                f"{OWNER}: whether messages are retained is in both the option retain and the "
                "column retain.",
                hint="Leave the option out, or drop the column: df.drop('retain').",
            )
        if topic is not None and (fault := _fault(topic)):
            raise ConfigError(f"{OWNER}: option topic: {topic!r} {fault}.")
        for name in schema.names:
            if name not in _COLUMNS:
                raise ConfigError(
                    f"{OWNER}: a message has no {name}.",
                    hint=f"Its columns are {', '.join(_COLUMNS)}: drop the others.",
                )
            found, allowed = schema.field(name).type, _COLUMNS[name]
            if not any(found.equals(each) for each in allowed):
                raise ConfigError(
                    f"{OWNER}: {name} is {sql_name(found)}; it must be "
                    f"{' or '.join(map(sql_name, allowed))}.",
                    hint=f"Cast it, or drop it: df.withColumn('{name}', ...).",
                )
        return cls(topic, bool(retain), frozenset(schema.names))

    def publications(self, batch: pa.RecordBatch) -> Iterator[Publication]:
        """:raises SinkCommitRejectedError: a row makes none."""
        rows = batch.num_rows
        payloads = batch.column("payload").cast(pa.binary()).to_pylist()
        columns: dict[str, list[Any]] = {
            name: batch.column(name).to_pylist() if name in self.columns else [given] * rows
            for name, given in (
                ("topic", self.topic),
                ("retain", self.retain),
                ("properties", None),
            )
        }
        for payload, topic, retain, properties in zip(payloads, *columns.values(), strict=True):
            if payload is None or topic is None or retain is None:
                raise SinkCommitRejectedError(
                    f"{OWNER}: a row has a NULL in payload, topic or retain.",
                    hint="Filter such rows out, or fill them: coalesce(payload, '').",
                )
            if fault := _fault(topic):
                raise SinkCommitRejectedError(f"{OWNER}: a row's topic {topic!r} {fault}.")
            pairs = tuple((key, value) for key, value in properties or () if value is not None)
            if any("\0" in text or len(text.encode()) > TEXT_BYTES_MAX
                   for pair in pairs for text in pair):  # fmt: skip
                raise SinkCommitRejectedError(
                    f"{OWNER}: a property of a row for topic {topic!r} has a zero, or a name or "
                    f"value of more than {TEXT_BYTES_MAX:,} bytes."
                )
            yield Publication(topic, payload, retain, pairs)


def _fault(topic: str) -> str:
    """What is wrong with the name of a topic; empty if nothing is."""
    if not topic or any(each in topic for each in "+#\0"):
        return "is the name of no topic: it is empty, or has +, # or a zero"
    if len(topic.encode()) > TEXT_BYTES_MAX:
        return f"is longer than {TEXT_BYTES_MAX:,} bytes"
    return ""
