"""The prepared log: the writers' commit messages of an epoch, so that a restart can finish it::

    v3
    8d3c1f02                                            CRC-32 of all the other lines
    {"generation":3,"runId":"5b0c...","partitions":2,"queryId":"4b7a...","offsets":"v1\\n..."}
    {"none":true}                                       one line per partition, in order
    {"files":{"files":[{"path":"file:///out/...","size":412,...}]}}

``queryId`` is what the file ``metadata`` says, ``offsets`` is the entry of the offset log for this
epoch. Spark's formats for both have no checksum, and the late write of a run that was suspended for
long can put its own offsets beside another run's messages: :mod:`engine.execution.survey`
compares. Where a sink may drop what was prepared, the header also has ``tasks``, the names of the
partitions that each task has read, and ``done``, those whose rows of this epoch the sink has from
an earlier time that it was prepared. With ``"lost":true`` there are no messages: the epoch has to
be run again, those partitions left out.

Version 2 names the engine's own messages by their classes instead of by tags, and its checksum
leaves the first line out; version 1 has neither ``queryId``, ``offsets`` nor a checksum.

Spark has no such log: after a crash it runs the epoch again. See
:mod:`engine.checkpoint.logs.codec` for the lines, and for what may be loaded from them.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from engine.base.json_text import dump, load_object
from engine.checkpoint.logs.codec import MessageCodec
from engine.checkpoint.logs.metadata_log import MetadataLog, parse_version
from engine.checkpoint.storage.contract import Storage

WriterMessage = object
_VERSION_MAX = 3


@dataclass(frozen=True)
class PreparedEntry:
    """A prepared epoch.

    :param generation: of the run that prepared it.
    :param run_id: the run that prepared it.
    :param messages: what each partition's writer returned, in partition order.
    :param offsets: the content of the epoch's entry in the offset log; None in version 1.
    :param query_id: of the checkpoint; None in version 1.
    :param tasks: the names of the partitions that each task has read, for a sink that may drop what
        was prepared; else nothing.
    :param done: partitions whose rows of this epoch the sink has from before.
    :param lost: the sink has dropped the rows of all others.
    """

    generation: int
    run_id: str
    messages: tuple[WriterMessage, ...]
    offsets: str | None = None
    query_id: str | None = None
    tasks: tuple[tuple[str, ...], ...] = ()
    done: frozenset[str] = frozenset()
    lost: bool = False


def prepared_log(storage: Storage, codec: MessageCodec) -> MetadataLog[PreparedEntry]:
    """The prepared log of a checkpoint.

    :param codec: knows the messages of the sink.
    """

    def serialize(entry: PreparedEntry) -> bytes:
        header: dict[str, Any] = {
            "generation": entry.generation,
            "runId": entry.run_id,
            "partitions": len(entry.messages),
            "queryId": entry.query_id,
            "offsets": entry.offsets,
        }
        if entry.tasks:
            header["tasks"] = entry.tasks
        if entry.done:
            header["done"] = sorted(entry.done)
        if entry.lost:
            header["lost"] = True
        body = dump(header).encode()
        if entry.messages:
            body = b"%s\n%s" % (body, codec.encode(entry.messages))
        return b"v%d\n%s\n%s" % (_VERSION_MAX, _checksum(_VERSION_MAX, body), body)

    return MetadataLog(storage, "prepared", serialize, _deserializer(codec.decode))


def prepared_heads(storage: Storage) -> MetadataLog[PreparedEntry]:
    """The prepared log for those who need no messages: to them, no entry has any."""

    def serialize(entry: PreparedEntry) -> bytes:
        raise AssertionError("an entry is written with its messages")

    return MetadataLog(storage, "prepared", serialize, _deserializer(None))


def _deserializer(
    decode: Callable[[bytes], WriterMessage] | None,
) -> Callable[[bytes], PreparedEntry]:
    def deserialize(data: bytes) -> PreparedEntry:
        header, messages = _split(data)
        return PreparedEntry(
            header["generation"],
            header["runId"],
            () if decode is None else tuple(map(decode, messages)),
            header.get("offsets"),
            header.get("queryId"),
            tuple(map(tuple, header.get("tasks", ()))),
            frozenset(header.get("done", ())),
            header.get("lost", False),
        )

    return deserialize


def _checksum(version: int, body: bytes) -> bytes:
    start = zlib.crc32(b"v%d\n" % version) if version > 2 else 0
    return b"%08x" % zlib.crc32(body, start)


def _split(data: bytes) -> tuple[dict[str, Any], list[bytes]]:
    """The header, and a line per message."""
    if not data:
        raise ValueError("Incomplete log file in the prepared log.")
    line, _, body = data.partition(b"\n")
    version = parse_version(line.decode(errors="replace"), _VERSION_MAX)
    if version > 1:
        checksum, _, body = body.partition(b"\n")
        if checksum != _checksum(version, body):
            raise ValueError("Its checksum does not fit: it is torn or damaged.")
    if not body:
        raise ValueError("Incomplete log file: nothing follows the version.")
    first, *messages = body.split(b"\n")
    header = load_object(first)
    generation, run_id = header.get("generation"), header.get("runId")
    if not isinstance(generation, int) or not isinstance(run_id, str):
        raise ValueError(f"Malformed header: {first[:200].decode(errors='replace')}")
    if header.get("partitions") != len(messages):
        raise ValueError(
            f"Incomplete log file: {len(messages)} of {header.get('partitions')} messages."
        )
    return header, messages
