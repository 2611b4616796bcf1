"""The commit log: which epochs are done. An entry's existence is the commit::

    v1
    {"nextBatchWatermarkMs":0}

Version 2 adds ``stateUniqueIds`` and version 3 ``sinkMetadataMap``; both come from Spark's
micro-batches and are read only to be kept. Once a query was rewound, our own entries also tell the
``generation`` of the run that wrote them, which Spark skips: so the late write of a run from before
the rewind is told apart. Before Spark 2.4 the second line was ``{}``; a missing
one is read as that. Source: Spark CommitLog; SPARK-56970.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.base.json_text import dump, load_object
from engine.checkpoint.logs.metadata_log import MetadataLog, split_version
from engine.checkpoint.storage.contract import Storage

MAX_VERSION = 3


@dataclass(frozen=True)
class CommitEntry:
    """A committed epoch.

    :param next_batch_watermark_ms: the event-time watermark that the next epoch starts with.
    :param state_unique_ids: operator → partition → store ids; from version 2 on.
    :param sinks: sink name → its metadata, exactly one of them active; version 3.
    :param generation: of the run that wrote it; None if it does not say.
    :raises ValueError: the parts do not fit the version.
    """

    next_batch_watermark_ms: int = 0
    state_unique_ids: dict[str, Any] | None = None
    sinks: dict[str, Any] | None = None
    version: int = 1
    generation: int | None = None

    def __post_init__(self) -> None:
        if self.version == 1 and self.state_unique_ids:
            raise ValueError("stateUniqueIds cannot be set for commit log format version 1.")
        if self.version == 3:
            active = [name for name, sink in (self.sinks or {}).items() if sink.get("isActive")]
            if len(active) != 1:
                raise ValueError(
                    f"Commit log format version 3 has one active sink, found {len(active)}."
                )


def serialize(entry: CommitEntry) -> bytes:
    fields: dict[str, Any] = {"nextBatchWatermarkMs": entry.next_batch_watermark_ms}
    if entry.version >= 2 and entry.state_unique_ids is not None:
        fields["stateUniqueIds"] = entry.state_unique_ids
    if entry.version >= 3:
        fields["sinkMetadataMap"] = entry.sinks
    if entry.generation is not None:
        fields["generation"] = entry.generation
    return f"v{entry.version}\n{dump(fields)}".encode()


def deserialize(data: bytes) -> CommitEntry:
    """:raises ValueError: torn or malformed.
    :raises CheckpointVersionError: a newer format.
    """
    version, lines = split_version(data, MAX_VERSION, "offset commit log")
    fields = load_object(lines[0] if lines and lines[0].strip() else "{}")
    watermark = fields.get("nextBatchWatermarkMs", 0)
    generation = fields.get("generation")
    state_ids, sinks = fields.get("stateUniqueIds"), fields.get("sinkMetadataMap")
    if not isinstance(watermark, int):
        raise ValueError(f"nextBatchWatermarkMs is {watermark!r}")
    if not isinstance(generation, int | None):
        raise ValueError(f"generation is {generation!r}")
    for name, value in (("stateUniqueIds", state_ids), ("sinkMetadataMap", sinks)):
        if not isinstance(value, dict | None):
            raise ValueError(f"{name} is {value!r}")
    if not all(isinstance(sink, dict) for sink in (sinks or {}).values()):
        raise ValueError(f"sinkMetadataMap is {sinks!r}")
    return CommitEntry(
        watermark,
        state_ids if version >= 2 else None,
        sinks if version >= 3 else None,
        version,
        generation,
    )


def commit_log(storage: Storage) -> MetadataLog[CommitEntry]:
    """The commit log of a checkpoint."""
    return MetadataLog(storage, "commits", serialize, deserialize)
