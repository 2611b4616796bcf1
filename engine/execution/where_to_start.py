"""Where the streams of a query go on, or begin."""

from __future__ import annotations

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.first_offsets import first_offset
from engine.checkpoint.logs.offset_log import OffsetEntry
from engine.checkpoint.storage.contract import Storage
from engine.errors import CheckpointError
from engine.sources.contract import DataSourceContinuousReader, Offset


def where_to_start(
    storage: Storage, index: int, reader: DataSourceContinuousReader, committed: Offset | None
) -> Offset:
    """Where a stream goes on, or begins.

    :param index: the stream's.
    :param committed: where the last committed epoch ends; None before the first, and of a source
        that Spark has found without data, for which it notes no offset.
    """
    if committed is not None:
        return committed
    if reader.keepsLog:
        return reader.initialOffset()
    return first_offset(storage, index, reader.initialOffset)


def logged_entry(checkpoint: Checkpoint, streams: int, epoch: int) -> OffsetEntry:
    """What the offset log says of an epoch of this query; per stream where it ends, None of a
    source that had no data yet: it ends where it begins.

    :raises CheckpointError: it is of a query with another number of streams, or of several that
        Spark has noted by names that the user gave.
    """
    entry = checkpoint.offsets.get(epoch)
    if entry is None or len(entry.offsets) != streams:
        offsets = None if entry is None else entry.offsets
        raise CheckpointError(
            f"The checkpoint {checkpoint.url} holds the offsets {offsets} of epoch {epoch}, and "
            f"the query reads {streams} stream(s).",
            hint="It belongs to another query: use the checkpoint of this one.",
            epoch=epoch,
        )
    if not entry.is_in_order:
        raise CheckpointError(
            f"The checkpoint {checkpoint.url} holds the offsets of epoch {epoch} under the names "
            f"of its sources: {', '.join(entry.source_names or ())}. This engine does not know "
            "which stream is which.",
            hint='Let Spark go on with it: trigger(processingTime="..."). Or start the query with '
            "a checkpoint of its own.",
            epoch=epoch,
        )
    return entry
