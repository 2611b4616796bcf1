"""The rows of an epoch as requests."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from engine.expressions.whole_columns import json_writer
from engine.sinks.shipped import ShippedRows, unpack

TIME_ZONE: Final = "time_zone"
"""A note beside the rows of an epoch. What is sent again is then the same, whatever the zone of
the query is by now."""
ARRAY, LINES, OBJECT = "array", "lines", "object"
CONTENT_TYPES: Final = {
    ARRAY: "application/json", LINES: "application/x-ndjson", OBJECT: "application/json"
}  # fmt: skip


class Request(NamedTuple):
    """:param epoch: query, timeline and epoch.
    :param first: which of the task's rows it begins with.
    :param rows: as JSON.
    """

    epoch: str
    task: int
    first: int
    rows: Sequence[str]

    @property
    def key(self) -> str:
        """The same whenever it is sent, and that of no other."""
        name = f"{self.epoch}/{self.task}/{self.first}/{len(self.rows)}"
        return hashlib.sha256(name.encode()).hexdigest()

    def halves(self) -> tuple[Request, Request]:
        """Two requests in its place; it has several rows."""
        middle = len(self.rows) // 2
        first = self._replace(rows=self.rows[:middle])
        return first, self._replace(first=self.first + middle, rows=self.rows[middle:])


@dataclass(frozen=True)
class RequestFormat:
    """How rows become requests.

    :param timezone: of rows that have no note of theirs.
    :param body: of :data:`CONTENT_TYPES`.
    :param rows_max: so many rows a request has at most; one, if the body is an object.
    :raises ConfigError: JSON has no form for a column.
    """

    columns: pa.Schema
    timezone: str
    body: str
    rows_max: int

    def __post_init__(self) -> None:
        json_writer(pa.struct(list(self.columns)), self.timezone)

    def requests(
        self, epoch: str, messages: Sequence[WriterCommitMessage | None]
    ) -> Iterator[Request]:
        """Those of an epoch: task after task, each in the order of its rows."""
        for task, message in enumerate(messages):
            for table in unpack([message], self.columns):
                noted = message.note(TIME_ZONE) if isinstance(message, ShippedRows) else None
                records = table.to_struct_array().combine_chunks()
                write = json_writer(records.type, noted or self.timezone)
                for first in range(0, len(records), self.rows_max):
                    part = records.slice(first, self.rows_max)
                    yield Request(epoch, task, first, write(part).to_pylist())

    def written(self, request: Request) -> bytes:
        """The body."""
        if self.body == ARRAY:
            return f"[{','.join(request.rows)}]".encode()
        return "\n".join(request.rows).encode() + (b"\n" if self.body == LINES else b"")
