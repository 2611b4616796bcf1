"""What the offset log knows of an epoch beside its offsets, of a query with event time or state.

It stands in the entry's metadata. Where Spark has a name for something it has Spark's::

    {"batchWatermarkMs":1000,"batchTimestampMs":1795174660561,"conf":{},"writtenBy":"continuous",
     "nextBatchWatermarkMs":2000,"operatorWatermarksMs":[3000],"keyGroups":128,
     "state":{"1":[{"stage":1,"file":"state/1/...",...}]},
     "statePartitions":{"0":["0/orders-0","0/orders-1"]}}

``batchWatermarkMs`` is the watermark during the epoch, ``nextBatchWatermarkMs`` that behind it,
which the entry of the commit log repeats; ``batchTimestampMs`` is when the epoch began, the
processing time of its records. A watermark is that of the epoch which is opened when it is known,
and several may be under way: ``operatorWatermarksMs`` is what each operator has come to by the
epoch's own records, so that they count behind a restart, too; ``newestOperatorWatermarksMs`` is
there if they would have come further, and partitions that have not caught up hold them back.
``state`` has, for each stage that keeps some, a handle of each task's snapshot at the epoch's end:
written before this entry, durable with it, and gone back to with it. ``statePartitions`` has, for
each stream whose tasks keep state, the names of its partitions, which are the key groups of that
state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from engine.checkpoint.logs.offset_log import OffsetEntry, batch_metadata
from engine.checkpoint.noted_state import STATE, noted_state, to_note
from engine.snapshots.handles import SnapshotHandle

_NEXT = "nextBatchWatermarkMs"
_MARKS = "operatorWatermarksMs"
_NEWEST = "newestOperatorWatermarksMs"
_GROUPS = "keyGroups"
_PARTITIONS = "statePartitions"


@dataclass(frozen=True)
class Marks:
    """How far each operator with a watermark has come, less its delay, in milliseconds.

    :param newest_ms: what it would have come to if no partition had held it back.
    """

    come_to_ms: tuple[int, ...] = ()
    newest_ms: tuple[int, ...] = ()

    @property
    def is_held(self) -> bool:
        """Whether a partition holds one back."""
        return self.newest_ms != self.come_to_ms


NO_MARKS: Final = Marks()


@dataclass(frozen=True)
class EpochState:
    """See the module. Times in milliseconds of the wall clock.

    :param watermark_ms: during the epoch; ``next_watermark_ms`` behind it.
    :param opened_ms: when it began.
    :param handles: of the snapshots at its end.
    :param key_groups: how many the query has; None of one without state.
    :param partitions: the names of a stream's partitions, by its number, where its tasks keep
        state.
    :param marks: what the operators have come to with this epoch; empty of a query without
        watermarks, and in entries of earlier releases.
    """

    watermark_ms: int = 0
    next_watermark_ms: int = 0
    opened_ms: int = 0
    handles: tuple[SnapshotHandle, ...] = ()
    key_groups: int | None = None
    partitions: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    marks: Marks = NO_MARKS

    def added_to(self, metadata: Mapping[str, Any] | None) -> dict[str, Any]:
        """The metadata of the epoch's entry.

        :param metadata: what is carried on from earlier entries.
        """
        told = {
            **batch_metadata(self.opened_ms),
            **(metadata or {}),
            "batchWatermarkMs": self.watermark_ms,
            "batchTimestampMs": self.opened_ms,
            _NEXT: self.next_watermark_ms,
        }
        if self.marks.come_to_ms:
            told[_MARKS] = list(self.marks.come_to_ms)
        if self.marks.is_held:
            told[_NEWEST] = list(self.marks.newest_ms)
        if self.key_groups is not None:
            told.update({_GROUPS: self.key_groups, STATE: to_note(self.handles)})
        if self.partitions:
            told[_PARTITIONS] = {str(n): list(names) for n, names in self.partitions.items()}
        return told

    @classmethod
    def of(cls, entry: OffsetEntry) -> EpochState:
        """What an entry says.

        :raises CheckpointCorruptError: it cannot be read.
        """
        found = entry.metadata or {}
        watermark_ms = found.get("batchWatermarkMs", 0)
        come_to_ms = tuple(found.get(_MARKS, ()))
        return cls(
            watermark_ms,
            found.get(_NEXT, watermark_ms),
            found.get("batchTimestampMs", 0),
            noted_state(entry),
            found.get(_GROUPS),
            {int(n): tuple(names) for n, names in found.get(_PARTITIONS, {}).items()},
            Marks(come_to_ms, tuple(found.get(_NEWEST, come_to_ms))),
        )
