"""Tasks of a stage with all that outlives them: snapshots on a storage, the logs that name them,
retention, pins. They die anywhere, and go on with any number behind any epoch that is there."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext, suppress
from random import Random
from typing import Any

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.logs.commit_log import CommitEntry
from engine.checkpoint.logs.offset_log import OffsetEntry, batch_metadata
from engine.checkpoint.noted_state import noted_state, to_note
from engine.checkpoint.state_retention import StatePurge
from engine.errors import CheckpointCorruptError
from engine.exchange.key_groups import groups_of
from engine.snapshots.handles import SnapshotHandle
from engine.state.contract import StatefulStage
from engine.state.restoring import restore
from engine.state.snapshots import SnapshotWriter
from tests.unit.rewinding import Death, MortalStorage, PrivateMemory
from tests.unit.shelves import Slow
from tests.unit.stateful_stages import GROUPS, Make, Tasks

RETAINED = 5
_WATERMARK = "nextBatchWatermarkMs"


class WalkedTasks(Tasks):
    """See the module.

    :param chance: of what happens beside the epochs.
    :ivar committed: the last epoch.
    :ivar kept_from: the oldest that retention has left.
    """

    def __init__(self, make: Make, keys: Sequence[int], chance: Random) -> None:
        self._chance = chance
        self._death, self._memory = Death(), PrivateMemory()
        self._open()
        self.checkpoint.create_or_read_query_id("query")
        self.committed, self.kept_from, self._generation = -1, 0, 1
        self._handles: tuple[SnapshotHandle, ...] = ()
        self._later: list[Slow] = []
        super().__init__(make, keys, chance.randint(1, 3))

    def _open(self) -> None:
        self.checkpoint = Checkpoint(MortalStorage(self._memory, "/checkpoint", self._death))

    def _start(self, tasks: int) -> None:
        super()._start(tasks)
        self._purge, slow = StatePurge(self.checkpoint), Slow()
        self._later.append(slow)  # that of the runs before goes on: they may not know that they end
        self._writers = [
            SnapshotWriter(
                self.checkpoint.storage,
                query_id="query",
                stage=1,
                groups=groups,
                generation=self._generation,
                chain=self._restored(stage, groups),
                later=slow,
            )
            for stage, groups in zip(
                self.stages, (groups_of(n, tasks, GROUPS) for n in range(tasks)), strict=True
            )
        ]

    def _restored(self, stage: StatefulStage, groups: range) -> Any:
        if not self._handles:
            return None
        return restore(
            self.checkpoint.storage,
            self._handles,
            groups,
            [stage],
            query_id="query",
            watermark_ms=self.clock.watermark_ms,
        )

    def commit(self) -> None:
        """What the tasks have come to is written and logged, and what nobody needs goes.

        :raises Crash: in the midst of it; whether the epoch is committed :meth:`go_on` tells.
        """
        jobs = [
            writer.prepare(self.committed + 1, self.clock.watermark_ms, [stage])
            for writer, stage in zip(self._writers, self.stages, strict=True)
        ]
        self._death.writes, self._death.after = 0, self._chance.random() < 0.5
        self._death.at = self._chance.randint(1, 6) if self._chance.random() < 0.15 else None
        try:
            self._log(tuple(job.write() for job in jobs))
            self._clean_up()
        finally:
            self._death.at = None

    def _log(self, handles: tuple[SnapshotHandle, ...]) -> None:
        epoch, watermark_ms = self.committed + 1, self.clock.watermark_ms
        of_epoch = {"state": to_note(handles), _WATERMARK: watermark_ms}
        metadata = {**batch_metadata(0), **of_epoch}
        self.checkpoint.offsets.add(epoch, OffsetEntry((epoch,), metadata))
        self._purge.note(epoch, handles)
        self.checkpoint.commits.add(epoch, CommitEntry(watermark_ms, generation=self._generation))
        self.committed = epoch

    def _clean_up(self) -> None:
        if self._chance.random() < 0.1:
            self.checkpoint.pin(f"at-{self.committed}", self.committed)
        self.kept_from = max(self.kept_from, self.committed + 1 - RETAINED)
        for log in (self.checkpoint.commits, self.checkpoint.offsets):
            log.purge(self.kept_from)
        self._purge(self.kept_from, lambda: None)
        for slow in self._later:
            is_present = slow is self._later[-1]
            while slow.work and self._chance.random() < 0.7:
                with nullcontext() if is_present else suppress(CheckpointCorruptError):
                    slow.do_one()

    def go_on(self, behind: int | None = None) -> None:
        """Another run, with any number of tasks.

        :param behind: the epoch that the query is rewound to; None: that of the last commit.
        """
        self._open()
        if behind is not None:
            pins = {pin.epoch: pin.name for pin in self.checkpoint.pins()}
            self.checkpoint.rewind(behind, to_pin=pins.get(behind), accept_repeats=True)
            self.committed, self.kept_from = behind, min(self.kept_from, behind)
        elif self.checkpoint.offsets.get(self.committed + 1) is not None:  # it is finished
            self.committed += 1
            finished = CommitEntry(generation=self._generation)
            if self.checkpoint.commits.get(self.committed) is None:
                self.checkpoint.commits.add(self.committed, finished)
        self._generation += 2  # a rewind takes one as well
        entry = self.checkpoint.offsets.get(self.committed)
        self._handles = noted_state(entry)
        self.clock.watermark_ms = 0 if entry is None else (entry.metadata or {})[_WATERMARK]
        self._start(self._chance.randint(1, 4))

    def rewindable(self) -> list[int]:
        """The epochs before the last one that it may be rewound to."""
        pinned = (pin.epoch for pin in self.checkpoint.pins())
        return sorted({*range(self.kept_from, self.committed), *pinned} - {self.committed})
