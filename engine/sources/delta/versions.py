"""What a version of a table has added and removed, read from the table's log.

Source: Delta's PROTOCOL.md: actions, change data files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from engine.errors import SourceChangedError, SourceError, SourceUnavailableError
from engine.sinks.delta.places import LOG_FOLDER, Place
from engine.sinks.delta.schemas import partition_text

OWNER: Final = "source delta"
INSERT, DELETE = "insert", "delete"
_READS: Final = frozenset(
    {"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck", "deletionVectors", "columnMapping"}
)  # fmt: skip
"""What a table may ask of its readers; of the last two, what they bring is refused where it is."""


@dataclass(frozen=True)
class TableFile:
    """A data file of a table.

    :param path: below the table's folder.
    :param partition_values: as the log has them; None and empty are null.
    :param change: what it tells of its rows, in a feed of changes; None: each row says so itself.
    """

    path: str
    partition_values: tuple[tuple[str, str | None], ...]
    change: str | None = INSERT


@dataclass(frozen=True)
class Version:
    """What one version has changed; only what changes rows.

    :param added: ``removed`` files; if there are ``changes``, these tell the rows instead of both.
    :param time_ms: since 1970; 0 if nobody has noted it.
    :param metadata: of the table, if it has changed.
    """

    number: int
    added: tuple[TableFile, ...]
    removed: tuple[TableFile, ...]
    changes: tuple[TableFile, ...]
    time_ms: int
    metadata: Mapping[str, Any] | None

    @property
    def feed(self) -> tuple[TableFile, ...]:
        """The files of its changes."""
        return self.changes or (*self.added, *self.removed)


def log_entry(number: int) -> str:
    """The name of a version's entry in the log."""
    return f"{number:020}.json"


def read_version(place: Place, number: int) -> Version | None:
    """None if the log has no such version: not yet, or not any more.

    :raises SourceUnavailableError: the log cannot be read.
    :raises SourceError: the table asks of its readers what this one does not do, or the entry is
        damaged.
    """
    try:
        with place.open(f"{LOG_FOLDER}/{log_entry(number)}") as file:
            data = file.read()
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise unreadable(place, "the log", exc) from exc
    added: list[TableFile] = []
    removed: list[TableFile] = []
    changes: list[TableFile] = []
    metadata, time_ms = None, 0
    for action in _actions(place, number, data):
        if (add := action.get("add")) is not None and add.get("dataChange", True):
            added.append(_file(place, add, INSERT))
        elif (remove := action.get("remove")) is not None and remove.get("dataChange", True):
            removed.append(_file(place, remove, DELETE))
        elif (change := action.get("cdc")) is not None:
            changes.append(_file(place, change, None))
        elif (info := action.get("commitInfo")) is not None:
            time_ms = info.get("inCommitTimestamp") or info.get("timestamp") or 0
        elif (found := action.get("metaData")) is not None:
            metadata = found
            check_readable(place, found.get("configuration") or {}, ())
        elif (protocol := action.get("protocol")) is not None:
            check_readable(place, {}, protocol.get("readerFeatures") or ())
    return Version(number, tuple(added), tuple(removed), tuple(changes), time_ms, metadata)


def _actions(place: Place, number: int, data: bytes) -> Sequence[Mapping[str, Any]]:
    """A line each. Within a text JSON leaves what else may end a line, such as U+2028."""
    try:
        return [json.loads(line) for line in data.decode("utf-8").split("\n") if line.strip()]
    except ValueError as exc:
        raise SourceError(
            f"{OWNER}: {LOG_FOLDER}/{log_entry(number)} of the table {place.url} is damaged: {exc}",
            hint="Restore the file, or start the query with a checkpoint of its own.",
        ) from exc


def unreadable(place: Place, what: str, cause: OSError) -> SourceUnavailableError:
    """The storage does not answer, or not with this."""
    return SourceUnavailableError(
        f"{OWNER}: {what} of the table {place.url} cannot be read: {cause}",
        hint="See that its storage can be reached.",
    )


def check_readable(place: Place, configuration: Mapping[str, str], features: Any) -> None:
    """:raises SourceError: this reader cannot do what the table asks for."""
    mapping = configuration.get("delta.columnMapping.mode", "none")
    unknown = sorted(set(features) - _READS)
    if mapping != "none":
        raise SourceChangedError(
            f"{OWNER}: the table {place.url} names its columns by delta.columnMapping.mode "
            f"{mapping}, which is not read here.",
            hint="Copy it to a table without, or read it with Spark's own format delta.",
        )
    if unknown:
        raise SourceChangedError(
            f"{OWNER}: the table {place.url} asks its readers for {', '.join(unknown)}, which this "
            "one does not do.",
            hint="Read it with Spark's own format delta.",
        )


def _file(place: Place, action: Mapping[str, Any], change: str | None) -> TableFile:
    if action.get("deletionVector"):
        raise SourceChangedError(
            f"{OWNER}: the file {action['path']} of the table {place.url} has a deletion vector, "
            "which is not read here.",
            hint="Set delta.enableDeletionVectors to false and purge them with REORG TABLE ... "
            "APPLY (PURGE), or read the table with Spark's own format delta.",
        )
    values = action.get("partitionValues") or {}
    return TableFile(unquote(action["path"]), tuple(values.items()), change)


def snapshot_file(action: Mapping[str, Any]) -> TableFile:
    """From one of ``DeltaTable.get_add_actions``, whose partition values have types."""
    values = action.get("partition") or {}
    return TableFile(
        unquote(action["path"]),
        tuple((name, partition_text(each)) for name, each in values.items()),
    )
