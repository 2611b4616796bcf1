"""Looks at the disk after whatever happened before, asks the restart table, and tidies up."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, TypeVar

from engine.base.failpoints import reach
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.logs.metadata_log import MetadataLog
from engine.checkpoint.logs.prepared_log import PreparedEntry
from engine.checkpoint.rewound import Rewound, read_rewound
from engine.coordinator.late_entries import late_entries
from engine.coordinator.restart_table import COMMITS, OFFSETS, PREPARED, RestartPlan, decide
from engine.errors import CheckpointCorruptError
from engine.sinks.contract import SinkBinding

T = TypeVar("T")
logger = logging.getLogger(__name__)


def plan_restart(
    checkpoint: Checkpoint, sink: SinkBinding, check: Callable[[], None] = lambda: None
) -> RestartPlan:
    """What a start has to do. Entries that the plan sets aside are deleted when this returns.

    :param check: asserts, before anything is changed, that this run still owns the checkpoint.
    :raises CheckpointError: the checkpoint cannot be continued.
    :raises SinkAheadError: the sink belongs to another checkpoint.
    """
    for folder in ("", OFFSETS, COMMITS, PREPARED):
        checkpoint.storage.sync(folder)
    prepared_log = checkpoint.prepared_with(sink.message_modules)
    prepared = prepared_log.ids()
    torn_prepared = _unreadable(prepared_log.get, prepared)
    latest_epoch, check_logged = sink.driver.latest_epoch, sink.driver.check_logged
    sink_epoch = None if latest_epoch is None else latest_epoch()
    rewound = read_rewound(checkpoint.storage)
    late: frozenset[tuple[str, int]] = frozenset()
    if rewound is not None:
        late = _late(rewound, checkpoint, prepared_log, prepared, sink_epoch)
        _restore_target(rewound, checkpoint, late, check)
    prepared = [epoch for epoch in prepared if (PREPARED, epoch) not in late]
    offsets = _without_leftovers(
        [epoch for epoch in checkpoint.offsets.ids() if (OFFSETS, epoch) not in late]
    )
    commits = _without_leftovers(
        [epoch for epoch in checkpoint.commits.ids() if (COMMITS, epoch) not in late]
    )
    torn_commits = _unreadable(checkpoint.commits.get, commits[-1:])
    committed = max((epoch for epoch in commits if epoch not in torn_commits), default=-1)
    _check_identity(checkpoint, prepared_log, [e for e in prepared if e not in torn_prepared])
    for epoch in prepared:
        if epoch in offsets and epoch >= committed and epoch not in torn_prepared:
            _compare(checkpoint, prepared_log, epoch, committed, check)
    plan = decide(
        offsets_ids=offsets,
        commits_ids=commits,
        prepared=prepared,
        sink_epoch=sink_epoch,
        unreadable_offsets=_unreadable(
            checkpoint.offsets.get, (epoch for epoch in offsets if epoch >= committed)
        ),
        unreadable_commits=torn_commits,
        unreadable_prepared=[epoch for epoch in torn_prepared if epoch > committed],
        late=late,
    )
    if check_logged is not None:  # of what the writer keeps beside its rows
        check_logged(max(offsets, default=-1))
    logs: dict[str, MetadataLog[Any]] = {
        OFFSETS: checkpoint.offsets,
        COMMITS: checkpoint.commits,
        PREPARED: prepared_log,
    }
    reach("setAside.before")
    for name, epoch in plan.set_aside:
        logger.warning("setting aside %s/%d of %s", name, epoch, checkpoint.url)
        check()
        logs[name].delete(epoch)
    reach("setAside.after")
    return plan


def _restore_target(
    rewound: Rewound,
    checkpoint: Checkpoint,
    late: Collection[tuple[str, int]],
    check: Callable[[], None],
) -> None:
    """A run that slept through the rewind in the middle of its retention removes, when it wakes, an
    entry that was the oldest then, and may be the only one now."""
    epoch, commits = rewound.to_epoch, checkpoint.commits.ids()
    if max((each for each in commits if (COMMITS, each) not in late), default=-1) > epoch:
        return
    for log, text in ((checkpoint.offsets, rewound.offsets), (checkpoint.commits, rewound.commit)):
        check()
        log.storage.create(f"{log.name}/{epoch}", text.encode())


def _late(
    rewound: Rewound,
    checkpoint: Checkpoint,
    prepared_log: MetadataLog[PreparedEntry],
    prepared: Sequence[int],
    sink_epoch: int | None,
) -> frozenset[tuple[str, int]]:
    """What a run wrote behind a rewind that it slept through."""
    offsets, commits = checkpoint.offsets.ids(), checkpoint.commits.ids()
    if max(commits, default=-1) >= rewound.taken_back.stop:
        return frozenset()

    def entries(log: MetadataLog[T], epochs: Iterable[int]) -> dict[int, T | None]:
        """Those that were taken back; None for a torn one."""
        wanted = [epoch for epoch in epochs if epoch in rewound.taken_back]
        torn = _unreadable(log.get, wanted)
        return {epoch: None if epoch in torn else log.get(epoch) for epoch in wanted}

    by = {
        epoch: None if entry is None else entry.generation
        for epoch, entry in entries(prepared_log, prepared).items()
    }
    # Who has prepared the next epoch since has seen that this one is committed.
    unsure = [epoch for epoch in commits if (by.get(epoch + 1) or 0) <= rewound.generation]
    committed_by = {
        epoch: None if entry is None else entry.generation
        for epoch, entry in entries(checkpoint.commits, unsure).items()
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
            or ((entry := open_offsets.get(epoch)) is not None and entry.metadata is not None)
        ],
    )


def _check_identity(
    checkpoint: Checkpoint, prepared_log: MetadataLog[PreparedEntry], prepared: Sequence[int]
) -> None:
    """A sink knows the query by its id: another one would commit again what it has."""
    entry = prepared_log.get(prepared[-1]) if prepared else None
    found = checkpoint.query_id()
    if entry is not None and entry.query_id not in (None, found):
        raise CheckpointCorruptError(
            f"{checkpoint.url}/metadata says that this is query {found}, but its last run was "
            f"query {entry.query_id}.",
            hint=f'It was damaged, or changed by hand: put back {{"id":"{entry.query_id}"}}.',
        )


def _compare(
    checkpoint: Checkpoint,
    prepared_log: MetadataLog[PreparedEntry],
    epoch: int,
    committed: int,
    check: Callable[[], None],
) -> None:
    """See that an epoch's entry in the offset log is the one that belongs to its messages.

    If the epoch is not committed, either the entry is damaged, or it is the late write of a run
    that was suspended for long, and which was stopped before it could tell the sink. In both cases
    the one that belongs to the messages is right, and is put in its place.
    """
    entry = prepared_log.get(epoch)
    if entry is None or entry.offsets is None:
        return
    found = checkpoint.offsets.text_of(epoch)
    if found == entry.offsets:
        return
    if epoch == committed:
        raise CheckpointCorruptError(
            f"{checkpoint.url}/offsets/{epoch} holds {found!r}, but its epoch was committed with "
            f"{entry.offsets!r}.",
            hint="It was damaged, or changed by hand: restore it. To go on with what it holds, "
            f"delete prepared/{epoch}.",
            epoch=epoch,
        )
    logger.warning("restoring offsets/%d of %s, which held %r", epoch, checkpoint.url, found)
    check()
    checkpoint.offsets.restore(epoch, entry.offsets)


def _without_leftovers(ids: Sequence[int]) -> Sequence[int]:
    """The newest ids without a gap. Those below, if any, are what retention has left when it was
    killed, or the late write of a run that was suspended while another one went on: an epoch that
    has a committed one behind it was committed itself, and its entries are not needed."""
    newest = next((at for at in range(len(ids) - 1, 0, -1) if ids[at] != ids[at - 1] + 1), 0)
    return ids[newest:]


def _unreadable(get: Callable[[int], Any], epochs: Iterable[int]) -> list[int]:
    torn = []
    for epoch in epochs:
        try:
            get(epoch)
        except CheckpointCorruptError as exc:
            logger.warning("%s", exc)
            torn.append(epoch)
    return torn
