"""What the query of a checkpoint is made of, as its last start has written it::

    control/fingerprint    {"version":1,"sources":[...],"sink":{...},...}

JSON for people, with one part per line. :mod:`engine.pipeline.fingerprint` makes it and compares
two of them. Checkpoints of Spark, and those of older engines, have none until their next start.
"""

from __future__ import annotations

import json
from typing import Any

from engine.base.json_text import load_object
from engine.checkpoint.storage.contract import Storage
from engine.errors import CheckpointCorruptError, CheckpointVersionError
from engine.redaction.texts import encodable

NAME = "control/fingerprint"
VERSION = 1


def read_fingerprint(storage: Storage) -> dict[str, Any] | None:
    """The parts, or None if no start has written them.

    :raises CheckpointCorruptError: the file is unreadable.
    :raises CheckpointVersionError: a newer engine has written it.
    """
    try:
        data = storage.read(NAME)
    except FileNotFoundError:
        return None
    path = storage.path(NAME)
    try:
        found = load_object(data)
        version = int(found["version"])
    except (ValueError, KeyError, TypeError) as exc:
        raise CheckpointCorruptError(
            f"{path} cannot be read: {exc}.",
            hint="Delete it if you are sure that the query has not changed; it is written again.",
        ) from exc
    if version > VERSION:
        raise CheckpointVersionError(
            f"{path} has version {version}; this engine knows up to {VERSION}.",
            hint="Upgrade this engine.",
        )
    return found


def write_fingerprint(storage: Storage, parts: dict[str, Any]) -> None:
    """Replace it.

    :raises CheckpointError: it cannot be written.
    """
    text = json.dumps({"version": VERSION, **parts}, indent=2, ensure_ascii=False)
    storage.replace(NAME, encodable(text).encode())
