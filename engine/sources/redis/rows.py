"""Entries as rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa

from engine.errors import BadRecordError
from engine.expressions.types import TIMESTAMP
from engine.sources.redis.entry_ids import EntryId, behind, shown

FIELDS: Final = pa.map_(pa.string(), pa.binary())
SCHEMA: Final = pa.schema(
    [
        pa.field("stream", pa.string(), nullable=False),
        pa.field("id", pa.string(), nullable=False),
        pa.field("timestamp", TIMESTAMP, nullable=False),
        pa.field("fields", FIELDS, nullable=False),
    ]
)
"""``timestamp`` is the time in the id: by Redis's clock, unless the writer has named the id."""
_LATEST_US: Final = 2**63 - 1

Entry = tuple[EntryId, Sequence[bytes]]
"""Its id, and field, value, field, value, and so on."""


def batch_of(
    stream: str,
    entries: Sequence[Entry],
    columns: Sequence[str],
    on_bad_record: Callable[[BadRecordError], None] | None,
) -> pa.RecordBatch | None:
    """:param columns: those of :data:`SCHEMA` that it has.
    :return: None if no entry is good.
    :raises BadRecordError: one is not, and nobody takes it.
    """
    good: list[tuple[EntryId, list[tuple[str, bytes]]]] = []
    for entry, content in entries:
        try:
            good.append((entry, _fields(entry, content)))
        except ValueError as exc:
            error = BadRecordError(
                f"Entry {shown(entry)} of the stream {stream} cannot be read: {exc}.",
                record=repr(list(content)),
                offset={stream: shown(behind(entry))},
            )
            if on_bad_record is None:
                raise error from exc
            on_bad_record(error)
    if not good:
        return None
    make: dict[str, Callable[[], Any]] = {
        "stream": lambda: [stream] * len(good),
        "id": lambda: [shown(entry) for entry, _ in good],
        "timestamp": lambda: [entry[0] * 1_000 for entry, _ in good],
        "fields": lambda: [fields for _, fields in good],
    }
    schema = pa.schema([SCHEMA.field(name) for name in columns])
    return pa.RecordBatch.from_arrays(
        [pa.array(make[field.name](), field.type) for field in schema], schema=schema
    )


def _fields(entry: EntryId, content: Sequence[bytes]) -> list[tuple[str, bytes]]:
    if entry[0] * 1_000 > _LATEST_US:
        raise ValueError("its id is no time that a TIMESTAMP can hold")
    fields: dict[str, bytes] = {}
    for name, value in zip(content[::2], content[1::2], strict=True):
        try:
            text = name.decode()
        except UnicodeDecodeError as exc:
            raise ValueError(f"the name {name!r} of a field is no UTF-8") from exc
        if text in fields:
            raise ValueError(f"it has the field {text} more than once")
        fields[text] = value
    return list(fields.items())
