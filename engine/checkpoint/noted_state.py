"""What an entry of the offset log says of the state behind its epoch.

In the metadata of the entry, under ``state``, stand the handles of all tasks that keep state, by
the number of their pipeline::

    {"batchWatermarkMs":...,"state":{"1":[{"stage":1,"first_group":0,...}, ...]}}
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from engine.base.json_text import JSON
from engine.checkpoint.logs.offset_log import OffsetEntry, deserialize
from engine.errors import CheckpointCorruptError
from engine.snapshots.handles import SnapshotHandle

STATE: Final = "state"


def noted_state(entry: OffsetEntry | None) -> tuple[SnapshotHandle, ...]:
    """The handles of all tasks; none of a query without state.

    :raises CheckpointCorruptError: they cannot be read.
    """
    noted: JSON = None if entry is None else (entry.metadata or {}).get(STATE)
    if noted is None:
        return ()
    try:
        return tuple(SnapshotHandle.from_json(each) for stage in noted.values() for each in stage)
    except (ValueError, TypeError, AttributeError) as exc:
        raise CheckpointCorruptError(
            f"What an entry of the offset log says of the state cannot be read: {exc}.",
            hint="Restore the checkpoint from a copy.",
        ) from exc


def noted_in(entry: str | bytes) -> tuple[SnapshotHandle, ...]:
    """The same of an entry as it is: its text, which a pin has, or its bytes.

    :raises CheckpointCorruptError: it cannot be read.
    """
    try:
        data = entry.encode() if isinstance(entry, str) else entry
        return noted_state(deserialize(data))
    except ValueError as exc:
        raise CheckpointCorruptError(
            f"An entry of the offset log cannot be read: {exc}.",
            hint="Restore the checkpoint from a copy.",
        ) from exc


def to_note(handles: Iterable[SnapshotHandle]) -> dict[str, list[dict[str, Any]]]:
    """What stands under :data:`STATE`: by stage, in the order of the key groups."""
    noted: dict[str, list[dict[str, Any]]] = {}
    for handle in sorted(handles, key=lambda each: (each.stage, each.first_group)):
        noted.setdefault(str(handle.stage), []).append(handle.to_json())
    return noted
