r"""Where the sources of a query began: ``sources/<n>/0``, one file per source.

::

    \0v1
    {"topic":{"0":23,"1":345}}

A zero byte, ``v1``, a newline and the offset as JSON: the bytes of Spark's Kafka source. Spark's
others leave the zero byte out; both are read. Written once and before the first task starts, or a
source that begins at "latest" would begin later with each attempt and lose what came in between.

Source: Spark's KafkaSourceInitialOffsetWriter.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from engine.base.json_text import JSON, dump, load
from engine.checkpoint.storage.contract import Storage
from engine.errors import CheckpointCorruptError

_FOLDER = "sources"
_NAME = re.compile(rf"{_FOLDER}/\d+/\.?0(\.crc)?")


def first_offset(storage: Storage, stream: int, ask: Callable[[], JSON]) -> JSON:
    """Where the stream begins; asked for once in the life of the checkpoint.

    :raises CheckpointCorruptError: what was written cannot be read.
    :raises CheckpointError: the storage cannot be read or written.
    """
    folder = first_offsets_folder(stream)
    name = f"{folder}/0"
    try:
        data = storage.read(name)
    except FileNotFoundError:
        offset = ask()
        if storage.create(name, b"\0v1\n" + dump(offset).encode()):
            return offset
        data = storage.read(name)  # a run that was fenced was faster
    storage.sync(folder)  # its writer may have died before it was durable
    return _parsed(storage, name, data)


def is_first_offset(name: str) -> bool:
    """Whether a file of the checkpoint tells where a source began, or checks one that does."""
    return _NAME.fullmatch(name) is not None


def first_offsets_folder(stream: int) -> str:
    """What is kept of a source; also where one has a log of its own."""
    return f"{_FOLDER}/{stream}"


def forget_first_offsets(storage: Storage, streams: int) -> None:
    """The query reads other sources from now on.

    :raises CheckpointError: the storage cannot be written.
    """
    for stream in range(streams):
        folder = first_offsets_folder(stream)
        # The last entry of a source's own log first: what is left is a log at every moment.
        for info in sorted(storage.list(folder), key=lambda info: -info.modified_s):
            storage.delete(f"{folder}/{info.name}")


def _parsed(storage: Storage, name: str, data: bytes) -> JSON:
    version, _, text = data.removeprefix(b"\0").partition(b"\n")
    try:
        if version != b"v1":
            raise ValueError(f"its version is {version!r}")
        offset: JSON = load(text)
    except ValueError as exc:
        raise CheckpointCorruptError(
            f"The first offset of a source, {storage.path(name)}, cannot be read: {exc}.",
            hint="Restore it. If no epoch was ever committed, delete it, and the source is asked "
            "again.",
        ) from exc
    return offset
