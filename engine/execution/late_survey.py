"""What a rewound checkpoint holds that a run from before the rewind has written behind it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TypeVar

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.logs.metadata_log import MetadataLog, read_entries
from engine.checkpoint.rewound import Rewound
from engine.coordinator.late_entries import late_entries
from engine.coordinator.restart_table import COMMITS

T = TypeVar("T")


def restore_target(
    rewound: Rewound,
    checkpoint: Checkpoint,
    late: Collection[tuple[str, int]],
    check: Callable[[], None],
) -> None:
    """Put the entries of the epoch that was rewound to back if they are gone. A run that slept
    through the rewind in the middle of its retention goes on with it when it wakes, and removes an
    entry that was the oldest then and may be the only one now."""
    epoch, commits = rewound.to_epoch, checkpoint.commits.ids()
    if max((each for each in commits if (COMMITS, each) not in late), default=-1) > epoch:
        return
    for log, text in ((checkpoint.offsets, rewound.offsets), (checkpoint.commits, rewound.commit)):
        check()
        log.storage.create(f"{log.name}/{epoch}", text.encode())


def look_for_late(
    rewound: Rewound,
    checkpoint: Checkpoint,
    sink_epoch: int | None,
) -> frozenset[tuple[str, int]]:
    """What a run wrote behind a rewind that it slept through."""
    offsets, commits = checkpoint.offsets.ids(), checkpoint.commits.ids()
    if max(commits, default=-1) >= rewound.taken_back.stop:
        return frozenset()

    def entries(log: MetadataLog[T], epochs: Iterable[int]) -> dict[int, T | None]:
        """Those that were taken back; None for a torn one."""
        found, torn = read_entries(log, [epoch for epoch in epochs if epoch in rewound.taken_back])
        return {**found, **dict.fromkeys(torn)}

    by = {
        epoch: None if entry is None else entry.generation
        for epoch, entry in entries(
            checkpoint.prepared_heads, checkpoint.prepared_heads.ids()
        ).items()
    }
    committed_by = {
        epoch: None if entry is None else entry.generation
        for epoch, entry in entries(checkpoint.commits, commits).items()
    }
    open_offsets = entries(checkpoint.offsets, set(offsets).difference(commits))
    return late_entries(
        rewound,
        offsets=offsets,
        commits=commits,
        prepared_by=by,
        committed_by=committed_by,
        vouched=[
            epoch
            for epoch in offsets
            if (sink_epoch is not None and epoch <= sink_epoch)
            or ((entry := open_offsets.get(epoch)) is not None and entry.is_micro_batch)
        ],
    )
