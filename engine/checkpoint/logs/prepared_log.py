"""The prepared log: the writers' commit messages of an epoch, so that a restart can finish it::

    v2
    8d3c1f02                                            CRC-32 of all that follows
    {"generation":3,"runId":"5b0c...","partitions":2,"queryId":"4b7a...","offsets":"v1\\n..."}
    {"none":true}                                       one line per partition, in order
    {"dataclass":"sinks.files:FilesWritten","fields":{...}}

``queryId`` is what the file ``metadata`` says, ``offsets`` is the entry of the offset log for this
epoch. Spark's formats for both have no checksum, and the late write of a run that was suspended for
long can put its own offsets beside another run's messages: :mod:`engine.execution.survey`
compares. Version 1 has neither these nor a checksum.

Spark has no such log: after a crash it runs the epoch again. See
:mod:`engine.checkpoint.logs.codec` for the lines, and for what may be loaded from them.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from engine.base.json_text import JSON, dump, load_object
from engine.checkpoint.logs.codec import decode, encode
from engine.checkpoint.logs.metadata_log import MetadataLog, split_version
from engine.checkpoint.storage.contract import Storage

WriterMessage = object
_VERSION_MAX = 2


@dataclass(frozen=True)
class PreparedEntry:
    """A prepared epoch.

    :param generation: of the run that prepared it.
    :param run_id: the run that prepared it.
    :param messages: what each partition's writer returned, in partition order.
    :param offsets: the content of the epoch's entry in the offset log; None in version 1.
    :param query_id: of the checkpoint; None in version 1.
    """

    generation: int
    run_id: str
    messages: tuple[WriterMessage, ...]
    offsets: str | None = None
    query_id: str | None = None


def serialize(entry: PreparedEntry) -> bytes:
    """:raises CheckpointError: a message cannot be stored."""
    header = {
        "generation": entry.generation,
        "runId": entry.run_id,
        "partitions": len(entry.messages),
        "queryId": entry.query_id,
        "offsets": entry.offsets,
    }
    lines = "\n".join([dump(header), *(dump(encode(message)) for message in entry.messages)])
    return f"v{_VERSION_MAX}\n{_checksum(lines)}\n{lines}".encode()


def _checksum(lines: str) -> str:
    return f"{zlib.crc32(lines.encode()):08x}"


def _split(data: bytes) -> tuple[dict[str, Any], list[dict[str, JSON]]]:
    version, lines = split_version(data, _VERSION_MAX, "prepared log")
    if version > 1:
        checksum, lines = lines[:1], lines[1:]
        if checksum != [_checksum("\n".join(lines))]:
            raise ValueError("Its checksum does not fit: it is torn or damaged.")
    if not lines:
        raise ValueError("Incomplete log file: nothing follows the version.")
    header = load_object(lines[0])
    generation, run_id = header.get("generation"), header.get("runId")
    if not isinstance(generation, int) or not isinstance(run_id, str):
        raise ValueError(f"Malformed header: {lines[0]}")
    messages = [load_object(line) for line in lines[1:]]
    if header.get("partitions") != len(messages):
        raise ValueError(
            f"Incomplete log file: {len(messages)} of {header.get('partitions')} messages."
        )
    return header, messages


def generation_of(data: bytes) -> int:
    """Who has prepared an entry; its messages are not loaded.

    :raises ValueError: torn or malformed.
    :raises CheckpointVersionError: a newer format.
    """
    return int(_split(data)[0]["generation"])


def prepared_log(storage: Storage, allowed_modules: Collection[str]) -> MetadataLog[PreparedEntry]:
    """The prepared log of a checkpoint.

    :param allowed_modules: where the classes of messages may be loaded from.
    """

    def deserialize(data: bytes) -> PreparedEntry:
        header, messages = _split(data)
        return PreparedEntry(
            header["generation"],
            header["runId"],
            tuple(decode(message, allowed_modules) for message in messages),
            header.get("offsets"),
            header.get("queryId"),
        )

    return MetadataLog(storage, "prepared", serialize, deserialize)
