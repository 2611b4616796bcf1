"""The prepared log: the writers' commit messages of an epoch, so that a restart can finish it::

    v1
    {"generation":3,"runId":"5b0c...","partitions":2}
    {"none":true}                                       one line per partition, in order
    {"dataclass":"sinks.files:FilesWritten","fields":{...}}

Spark has no such log: after a crash it runs the epoch again. See :mod:`engine.checkpoint.codec` for
the lines, and for what may be loaded from them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from engine.checkpoint.codec import decode, encode
from engine.checkpoint.json_text import JSON, dump, load_object
from engine.checkpoint.metadata_log import MetadataLog, split_version
from engine.checkpoint.storage import Storage

WriterMessage = object
_VERSION_MAX = 1


@dataclass(frozen=True)
class PreparedEntry:
    """A prepared epoch.

    :param generation: of the run that prepared it.
    :param run_id: the run that prepared it.
    :param messages: what each partition's writer returned, in partition order.
    """

    generation: int
    run_id: str
    messages: tuple[WriterMessage, ...]


def serialize(entry: PreparedEntry) -> bytes:
    """:raises CheckpointError: a message cannot be stored."""
    header = {
        "generation": entry.generation,
        "runId": entry.run_id,
        "partitions": len(entry.messages),
    }
    lines = [dump(header), *(dump(encode(message)) for message in entry.messages)]
    return "\n".join([f"v{_VERSION_MAX}", *lines]).encode()


def _split(data: bytes) -> tuple[int, str, list[dict[str, JSON]]]:
    _, lines = split_version(data, _VERSION_MAX, "prepared log")
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
    return generation, run_id, messages


def prepared_log(storage: Storage, allowed_modules: Collection[str]) -> MetadataLog[PreparedEntry]:
    """The prepared log of a checkpoint.

    :param allowed_modules: where the classes of messages may be loaded from.
    """

    def deserialize(data: bytes) -> PreparedEntry:
        generation, run_id, messages = _split(data)
        return PreparedEntry(
            generation, run_id, tuple(decode(message, allowed_modules) for message in messages)
        )

    return MetadataLog(storage, "prepared", serialize, deserialize)
