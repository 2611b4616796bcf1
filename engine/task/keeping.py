"""The state of a task: loaded before its first epoch, written behind each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from engine.base.background import Background
from engine.state.arrays import Budget, budget
from engine.state.contract import EventClock, StatefulStage
from engine.state.restoring import restore
from engine.state.snapshots import Job, SnapshotWriter
from engine.task.spec import Kept, TaskSpec

_CLOSE_S: Final = 5.0
"""Nobody waits for longer for files that are being made into one."""


class Keeping:
    """See the module.

    :param stages: those of the task that keep state.
    """

    def __init__(self, spec: TaskSpec, stages: Sequence[StatefulStage], clock: EventClock) -> None:
        self._spec, self._stages, self._clock = spec, stages, clock
        self._writer: SnapshotWriter | None = None
        self._later = Background("task-upkeep-of-state")

    def restore(self) -> None:
        """Load what the checkpoint has of this task's key groups.

        :raises CheckpointError: it cannot be read.
        """
        spec, kept = self._spec, self._spec.kept
        if kept is None:
            return
        identity, groups, handles = spec.identity, kept.owned, kept.restored
        chain = None
        if handles:  # else the query begins
            chain = restore(
                kept.storage,
                handles,
                groups,
                self._stages,
                query_id=identity.query_id,
                watermark_ms=self._clock.watermark_ms,
                scratch=kept.scratch,
            )
        self._writer = SnapshotWriter(
            kept.storage,
            query_id=identity.query_id,
            stage=spec.stage,
            groups=groups,
            generation=identity.generation,
            chain=chain,
            lag_ms=self._clock.lag_ms,
            later=self._later,
            scratch=kept.scratch,
        )

    def close(self) -> None:
        """End what is done beside the epochs."""
        self._later.close(_CLOSE_S)

    def snapshot(self, epoch: int) -> Job | None:
        """The state at the end of the epoch, to be written; None if there is none to keep. To be
        called before the clock goes on.

        :raises CheckpointError: it cannot be written.
        """
        if self._writer is None:
            return None
        job = self._writer.prepare(epoch, self._clock.next_watermark_ms, self._stages)
        if (spilling := budget()) is not None:
            spilling.let_go()
        return job


def budget_of(kept: Kept | None) -> Budget | None:
    """What a task's state may have of its memory; None: all."""
    if kept is None or not kept.spill_after_bytes:
        return None
    return Budget(kept.spill_after_bytes, kept.scratch)
