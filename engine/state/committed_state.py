"""The state behind a committed epoch, for those who only look: no lease, nobody is disturbed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from engine.checkpoint.folder import CheckpointFolder
from engine.checkpoint.logs.commit_log import deserialize
from engine.checkpoint.noted_state import noted_in
from engine.checkpoint.pins import all_pins, committed_entries
from engine.errors import CheckpointCorruptError, ConfigError
from engine.snapshots.handles import SnapshotHandle
from engine.state.chains import read_schemas
from engine.state.files import TableHead
from engine.state.restoring import read_pieces, together


@dataclass(frozen=True)
class CommittedState:
    """What the logs tell of it.

    :param watermark_ms: the query's, that the epoch has ended with.
    :param handles: of all tasks that keep state.
    """

    epoch: int
    watermark_ms: int
    handles: tuple[SnapshotHandle, ...]

    @property
    def stages(self) -> list[int]:
        """The numbers of the pipelines that keep state, ascending."""
        return sorted({handle.stage for handle in self.handles})

    def of_stage(self, stage: int) -> list[SnapshotHandle]:
        """The handles of one of them."""
        return [handle for handle in self.handles if handle.stage == stage]

    def watermark_of(self, stage: int) -> int:
        """By which the rows of one of them are closed."""
        return self.watermark_ms - max(handle.lag_ms for handle in self.of_stage(stage))


def committed_state(checkpoint: CheckpointFolder, epoch: int | None = None) -> CommittedState:
    """What the logs, or a pin, tell of the state behind an epoch.

    :param epoch: None: the last committed one.
    :raises ConfigError: the epoch is not there; lists those that are. Or the query keeps no state,
        or has committed nothing.
    :raises CheckpointCorruptError: an entry is unreadable.
    """
    if epoch is None:
        epoch = checkpoint.committed_epoch()
        if epoch < 0:
            raise ConfigError(f"No epoch of {checkpoint.url} is committed yet.")
    pin = next((pin for pin in all_pins(checkpoint.storage) if pin.epoch == epoch), None)
    offsets, commit = (
        committed_entries(checkpoint, epoch) if pin is None else (pin.offsets, pin.commit)
    )
    handles = noted_in(offsets)
    if not handles:
        raise ConfigError(
            f"The query of {checkpoint.url} keeps no state that this engine has written.",
            hint="Spark's own state is read by spark.read.format('statestore').",
            epoch=epoch,
        )
    try:
        watermark_ms = deserialize(commit.encode()).next_batch_watermark_ms
    except ValueError as exc:
        raise CheckpointCorruptError(
            f"The commit of epoch {epoch} in {checkpoint.url} cannot be read: {exc}.",
            hint="Restore the checkpoint from a copy.",
            epoch=epoch,
        ) from exc
    return CommittedState(epoch, watermark_ms, handles)


def pieces_of(
    checkpoint: CheckpointFolder, state: CommittedState, stage: int
) -> Iterator[dict[TableHead, pa.Table]]:
    """The tables of a pipeline, each with the two columns in front: all of them in each piece, and
    no more than a piece in memory.

    :raises ConfigError: it keeps no state; lists those that do. Or see :func:`read_state`.
    :raises CheckpointCorruptError: a file is missing, damaged or another one.
    """
    return read_state(checkpoint, state, _handles(checkpoint, state, stage))


def read_state(
    checkpoint: CheckpointFolder, state: CommittedState, handles: Sequence[SnapshotHandle]
) -> Iterator[dict[TableHead, pa.Table]]:
    """The same of some tasks of a pipeline, whose key groups are side by side. The query may run,
    and its retention remove the epoch meanwhile.

    :raises ConfigError: it has; lists the epochs that are there.
    :raises CheckpointCorruptError: a file is missing, damaged or another one.
    """
    first = min(handles, key=lambda handle: handle.first_group)
    with _while_there(checkpoint, state):
        yield from read_pieces(
            checkpoint.storage,
            handles,
            range(first.first_group, max(handle.end_group for handle in handles)),
            query_id=checkpoint.query_id(),
            watermark_ms=state.watermark_of(first.stage),
        )


def tables_of(
    checkpoint: CheckpointFolder, state: CommittedState, stage: int
) -> dict[TableHead, pa.Table]:
    """As :func:`pieces_of`, of a state that fits the memory."""
    return together(pieces_of(checkpoint, state, stage))


def schemas_of(
    checkpoint: CheckpointFolder, state: CommittedState, stage: int
) -> dict[TableHead, pa.Schema]:
    """The tables of a pipeline that have, or had, rows; no row is read. Errors as of
    :func:`pieces_of`, but a file may be damaged, or another one."""
    handles = _handles(checkpoint, state, stage)
    with _while_there(checkpoint, state):
        return read_schemas(checkpoint.storage, handles)


def _handles(
    checkpoint: CheckpointFolder, state: CommittedState, stage: int
) -> list[SnapshotHandle]:
    handles = state.of_stage(stage)
    if not handles:
        raise ConfigError(
            f"Stage {stage} of {checkpoint.url} keeps no state.",
            hint=f"Those that do: {', '.join(map(str, state.stages))}.",
        )
    return handles


@contextmanager
def _while_there(checkpoint: CheckpointFolder, state: CommittedState) -> Iterator[None]:
    try:
        yield
    except CheckpointCorruptError:
        committed_state(checkpoint, state.epoch)  # entries go before the files that they need
        raise
