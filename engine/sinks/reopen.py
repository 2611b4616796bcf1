"""The sink of a checkpoint without its query: enough of it to take rows back.

Needs neither Spark nor pyspark.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.base.json_text import JSON
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.fingerprint_file import read_fingerprint
from engine.sinks.builtin_sinks import load, sink_kind


def reopen_sink(name: str, options: Mapping[str, str]) -> Any:
    """An object with what :mod:`engine.checkpoint.rewindable` describes. None if this sink cannot
    take rows back, or only its own stream writer can.

    :param name: the sink's format.
    :raises ConfigError: the path is not one of this machine.
    """
    kind = sink_kind(name)
    return load(kind.reopen)(options) if kind.reopen else None


def recorded_sink(checkpoint: Checkpoint) -> Any:
    """As :func:`reopen_sink`, for the sink that the checkpoint's query had at its last start; None
    if the checkpoint does not tell.

    :raises CheckpointCorruptError: what it tells is unreadable.
    """
    parts: JSON = read_fingerprint(checkpoint.storage)
    if parts is None:
        return None
    return reopen_sink(parts["sink"]["format"], parts["sink"]["options"])
