"""The sink of a checkpoint without its query: enough of it to take rows back.

Needs neither Spark nor pyspark.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from engine.base.json_text import JSON
from engine.base.locations import local_path
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.fingerprint_file import read_fingerprint
from engine.checkpoint.storage.local_storage import LocalStorage
from engine.sinks.files.file_sink_log import FOLDER, FileSinkLog
from engine.sinks.files.file_sink_rewind import FileSinkRewind

FILES: Final = ("parquet", "json", "csv")
_KEEP_NOTHING: Final = ("memory", "noop")


class KeepsNothing:
    """A sink whose rows end with the process that has them."""

    def rewind(self, epoch: int) -> None:
        """Nothing is there to be taken back."""


def reopen_sink(name: str, options: Mapping[str, str]) -> Any:
    """An object with ``rewind``, and perhaps ``checkRewind`` and ``rewindPosition``, as
    :mod:`engine.checkpoint.rewind` has them. None if this sink cannot take rows back, or only its
    own stream writer can.

    :param name: the sink's format.
    :raises ConfigError: the path is not one of this machine.
    """
    path = {key.lower(): value for key, value in options.items()}.get("path")
    if name.lower() in FILES and path is not None:
        folder = local_path(path, f"sink {name}")
        return FileSinkRewind(FileSinkLog(LocalStorage(folder / FOLDER)))
    return KeepsNothing() if name.lower() in _KEEP_NOTHING else None


def recorded_sink(checkpoint: Checkpoint) -> Any:
    """As :func:`reopen_sink`, for the sink that the checkpoint's query had at its last start; None
    if the checkpoint does not tell.

    :raises CheckpointCorruptError: what it tells is unreadable.
    """
    parts: JSON = read_fingerprint(checkpoint.storage)
    if parts is None:
        return None
    return reopen_sink(parts["sink"]["format"], parts["sink"]["options"])
