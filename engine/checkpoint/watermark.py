"""How far event time has come in what is committed.

Behind the watermark nothing changes any more: windows that end by then are closed, and what they
have come to is in the sink. Our epoch N commits what the watermark of epoch N+1 closes, and both
logs name that one. Spark's micro-batch N notes it as well, and closes in batch N+1: there the
watermark that counts is the one that the batch itself began with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.checkpoint.folder import CheckpointFolder


def event_watermark_ms(checkpoint: CheckpointFolder, epoch: int | None = None) -> int | None:
    """The watermark of what is committed; None if there is none, or none yet.

    :param epoch: see :func:`committed_watermark`.
    :raises CheckpointCorruptError: an entry of the logs cannot be read.
    """
    found = committed_watermark(checkpoint, epoch)
    return None if found is None else found[1] or None


def committed_watermark(
    checkpoint: CheckpointFolder, epoch: int | None = None
) -> tuple[int, int] | None:
    """The last committed epoch, and the watermark behind which all is in the sink, in milliseconds
    since 1970; 0 if the query has none, or has none yet.

    :param epoch: the last committed one, if the caller knows it: the log is not listed then.
    :returns: None if nothing is committed.
    :raises CheckpointCorruptError: an entry of the logs cannot be read.
    """
    epoch = checkpoint.committed_epoch() if epoch is None else epoch
    while epoch >= 0:
        commit, offsets = checkpoint.commits.get(epoch), checkpoint.offsets.get(epoch)
        if commit is None:
            epoch = checkpoint.committed_epoch()
            continue  # removed since the listing: newer ones are there
        if offsets is not None and offsets.is_micro_batch:
            assert offsets.metadata is not None, "that is what tells it"
            return epoch, int(offsets.metadata.get("batchWatermarkMs", 0))
        return epoch, commit.next_batch_watermark_ms
    return None
