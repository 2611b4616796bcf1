"""The offset log: where each epoch ends, written ahead of the sink's commit.

Version 1, byte for byte what Spark writes; no newline at the end::

    v1
    {"batchWatermarkMs":0,"batchTimestampMs":...}    empty in continuous processing
    {"0":{"value":22,"runTimeMs":1795174660561}}     one line per source, "-" if it has no offset

Spark's micro-batches go on only behind an entry with metadata. So of a checkpoint that began with
them the metadata is carried on, and where Spark runs a source in micro-batches only there is the
least of it; ``"writtenBy":"continuous"``, which Spark passes over, tells these entries from its
own::

    {"batchWatermarkMs":0,"batchTimestampMs":1795174660561,"conf":{},"writtenBy":"continuous"}

Version 2, written by Spark's micro-batches from 4.2 on if they are told to, has
``<source>:<offset>`` lines and always metadata. Sources that the user does not name are named by
their number in the plan; Spark writes the lines in an order of its own. Source: Spark OffsetSeqLog.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.base.json_text import JSON, dump, load, load_object
from engine.checkpoint.logs.metadata_log import MetadataLog, split_version
from engine.checkpoint.storage.contract import Storage

MAX_VERSION = 2
_NO_OFFSET = "-"
_WRITTEN_BY = "writtenBy"
_OF_ONE_EPOCH = (
    "nextBatchWatermarkMs",
    "operatorWatermarksMs",
    "newestOperatorWatermarksMs",
    "keyGroups",
    "state",
    "statePartitions",
)


@dataclass(frozen=True)
class OffsetEntry:
    """The end of an epoch.

    :param offsets: per source in the plan's order, or in the order of the lines if the user has
        named the sources; None if the source has none yet.
    :param metadata: what Spark's micro-batches note: watermark, time, settings.
    :param source_names: per offset; version 2 only.
    """

    offsets: tuple[JSON | None, ...]
    metadata: dict[str, Any] | None = None
    version: int = 1
    source_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.version == 2:
            assert self.metadata is not None, "version 2 always has metadata"
            assert self.source_names is not None, "version 2 names its sources"
            assert len(self.source_names) == len(self.offsets), "one name per offset"

    @property
    def is_in_order(self) -> bool:
        """Whether the offsets are known to be in the plan's order."""
        names = self.source_names or ()
        return len(names) < 2 or all(name.isdecimal() for name in names)

    @property
    def is_micro_batch(self) -> bool:
        """Whether Spark's micro-batches wrote it."""
        return self.metadata is not None and _WRITTEN_BY not in self.metadata


def carried_on(metadata: dict[str, Any] | None) -> dict[str, Any] | None:
    """The metadata of the next entry that is written here: without what is of one epoch only."""
    if metadata is None:
        return None
    kept = {key: value for key, value in metadata.items() if key not in _OF_ONE_EPOCH}
    return {**kept, _WRITTEN_BY: "continuous"}


def batch_metadata(now_ms: int) -> dict[str, Any]:
    """The least with which Spark's micro-batches go on."""
    return {
        "batchWatermarkMs": 0,
        "batchTimestampMs": now_ms,
        "conf": {},
        _WRITTEN_BY: "continuous",
    }


def serialize(entry: OffsetEntry) -> bytes:
    """:raises ValueError: an offset is not JSON."""
    lines = [f"v{entry.version}", "" if entry.metadata is None else dump(entry.metadata)]
    offsets = [_NO_OFFSET if offset is None else dump(offset) for offset in entry.offsets]
    if entry.source_names is not None:
        offsets = [f"{name}:{line}" for name, line in zip(entry.source_names, offsets, strict=True)]
    return "\n".join(lines + offsets).encode()


def deserialize(data: bytes) -> OffsetEntry:
    """:raises ValueError: torn or malformed.
    :raises CheckpointVersionError: a newer format.
    """
    version, lines = split_version(data, MAX_VERSION, "offset log")
    if not lines:
        raise ValueError("Incomplete log file: the metadata line is missing.")
    metadata_line, *offset_lines = lines
    metadata = load_object(metadata_line) if metadata_line.strip() else None
    if not offset_lines:
        raise ValueError("Incomplete log file: it holds no offsets.")
    if version == 1:
        return OffsetEntry(tuple(map(_offset, offset_lines)), metadata, version)
    if metadata is None:
        raise ValueError("Incomplete log file: version 2 always has metadata.")
    named = []
    for line in offset_lines:
        name, colon, offset = line.partition(":")
        if not colon:
            raise ValueError(f"Invalid OffsetMap format: {line}")
        named.append((name, _offset(offset)))
    if all(name.isdecimal() for name, _ in named):
        named.sort(key=lambda each: int(each[0]))
    names, offsets = zip(*named, strict=True)
    return OffsetEntry(offsets, metadata, version, names)


def _offset(line: str) -> JSON | None:
    return None if line == _NO_OFFSET else load(line)


def offset_log(storage: Storage) -> MetadataLog[OffsetEntry]:
    """The offset log of a checkpoint."""
    return MetadataLog(storage, "offsets", serialize, deserialize)
