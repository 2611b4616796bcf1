"""``control/copy``: what a checkpoint is a copy of. :mod:`engine.checkpoint.copies` writes it."""

from __future__ import annotations

from dataclasses import dataclass

from engine.base.json_text import load_object
from engine.checkpoint.folder import COPY_RECORD, CheckpointFolder
from engine.errors import CheckpointCorruptError


@dataclass(frozen=True)
class CopyRecord:
    """``control/copy``: what a copy was made of."""

    source: str
    source_id: str | None
    to_epoch: int
    query_id: str
    asked_by: str | None = None


def read_copy(checkpoint: CheckpointFolder) -> CopyRecord | None:
    """What a checkpoint was copied from; None if it is no copy.

    :raises CheckpointCorruptError: the record is unreadable.
    """
    try:
        data = checkpoint.storage.read(COPY_RECORD)
    except FileNotFoundError:
        return None
    try:
        return CopyRecord(**load_object(data))
    except (ValueError, TypeError) as exc:
        raise CheckpointCorruptError(
            f"{checkpoint.storage.path(COPY_RECORD)} cannot be read: {exc}.",
            hint="Delete it: it only tells where the checkpoint was copied from.",
        ) from exc
