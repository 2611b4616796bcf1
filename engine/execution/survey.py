"""Looks at the disk after whatever happened before, asks the restart table, and tidies up."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from engine.base.failpoints import reach
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.logs.metadata_log import MetadataLog, read_entries
from engine.checkpoint.logs.prepared_log import PreparedEntry
from engine.checkpoint.rewound import read_rewound
from engine.coordinator.restart_table import COMMITS, OFFSETS, PREPARED, RestartPlan, decide
from engine.errors import CheckpointCorruptError
from engine.execution.late_survey import look_for_late, restore_target
from engine.sinks.contract import SinkBinding

logger = logging.getLogger(__name__)


def plan_restart(
    checkpoint: Checkpoint, sink: SinkBinding, check: Callable[[], None] = lambda: None
) -> RestartPlan:
    """What a start has to do. Entries that the plan sets aside are deleted when this returns.

    :param check: asserts, before anything is changed, that this run still owns the checkpoint.
    :raises CheckpointError: the checkpoint cannot be continued.
    :raises SinkAheadError: the sink belongs to another checkpoint.
    """
    storage = checkpoint.storage
    for folder in ("", OFFSETS, COMMITS, PREPARED):
        storage.sync(folder)
    prepared_log = checkpoint.prepared_with(sink.codec)
    latest_epoch, check_logged = sink.driver.latest_epoch, sink.driver.check_logged
    sink_epoch = None if latest_epoch is None else latest_epoch()
    offsets, commits, prepared, rewound = storage.together(
        checkpoint.offsets.ids,
        checkpoint.commits.ids,
        prepared_log.ids,
        partial(read_rewound, storage),
    )
    late: frozenset[tuple[str, int]] = frozenset()
    if rewound is not None:
        late = look_for_late(rewound, checkpoint, sink_epoch)
        restore_target(rewound, checkpoint, late, check)
        offsets, commits = checkpoint.offsets.ids(), checkpoint.commits.ids()
        prepared = [epoch for epoch in prepared if (PREPARED, epoch) not in late]
    offsets = [epoch for epoch in offsets if (OFFSETS, epoch) not in late]
    commits = _without_leftovers([epoch for epoch in commits if (COMMITS, epoch) not in late])
    committed = max(commits, default=-1)
    offsets = _without_gap(offsets, committed, checkpoint, prepared, check)
    sunk = -1 if sink_epoch is None else sink_epoch
    stray = _behind_a_gap(offsets, committed, {*prepared, *range(committed + 1, sunk + 1)})
    late |= {(OFFSETS, epoch) for epoch in stray}
    offsets = _without_leftovers([epoch for epoch in offsets if epoch not in stray])
    (_, torn_commits), query_id = storage.together(
        partial(read_entries, checkpoint.commits, commits[-1:]), checkpoint.query_id
    )
    committed = max((epoch for epoch in commits if epoch not in torn_commits), default=-1)
    # Of the last committed epoch the header is needed, to compare its offsets; of those behind it
    # the messages, too, to commit them; of earlier ones nothing.
    done = [epoch for epoch in prepared if epoch <= committed][-1:]
    (heads, _), (entries, torn_prepared), (_, torn_offsets), texts = storage.together(
        partial(read_entries, checkpoint.prepared_heads, done),
        partial(read_entries, prepared_log, [epoch for epoch in prepared if epoch > committed]),
        partial(
            read_entries, checkpoint.offsets, [epoch for epoch in offsets if epoch >= committed]
        ),
        partial(_texts, checkpoint, [epoch for epoch in offsets if epoch >= committed]),
    )
    if rewound is not None and texts.get(rewound.to_epoch) == rewound.offsets:
        # They are right: messages that do not fit are of a run that slept through the rewind.
        heads = {
            epoch: head
            for epoch, head in heads.items()
            if epoch != rewound.to_epoch or head.offsets in (None, rewound.offsets)
        }
    entries.update(heads)
    _check_identity(checkpoint, query_id, entries)
    restored = _compare(checkpoint, entries, texts, committed, check)
    lost = {epoch: entry.done for epoch, entry in entries.items() if entry.lost}
    plan = decide(
        offsets_ids=offsets,
        commits_ids=commits,
        prepared=[epoch for epoch in prepared if epoch not in lost],
        sink_epoch=sink_epoch,
        unreadable_offsets=[epoch for epoch in torn_offsets if epoch not in restored],
        unreadable_commits=torn_commits,
        unreadable_prepared=torn_prepared,
        late=late,
    )
    plan = replace(plan, done=lost.get(-1 if plan.replay is None else plan.replay, frozenset()))
    if check_logged is not None:  # the dead letters, for example, may be another checkpoint's
        check_logged(max(offsets, default=-1))
    if rewound is not None:
        # Its number alone does not say whose the epoch is that the sink has: the sink compares.
        skipped = plan.skip_sink_commit.difference(entries)
        plan = replace(plan, rewound=True, skip_sink_commit=skipped)
    logs: dict[str, MetadataLog[Any]] = {
        OFFSETS: checkpoint.offsets,
        COMMITS: checkpoint.commits,
        PREPARED: prepared_log,
    }
    reach("setAside.before")
    # The newest first, and each for good before the next: behind a gap the rest would count.
    for name, epoch in sorted(plan.set_aside, key=lambda entry: (entry[0], -entry[1])):
        logger.warning("setting aside %s/%d of %s", name, epoch, checkpoint.url)
        check()
        logs[name].delete(epoch)
        storage.sync(name)
    reach("setAside.after")
    return plan


def _check_identity(
    checkpoint: Checkpoint, found: str | None, prepared: Mapping[int, PreparedEntry]
) -> None:
    """A sink that keeps which epochs of which query it has would not know them under another id,
    and take them a second time."""
    entry = prepared[max(prepared)] if prepared else None
    if entry is not None and entry.query_id not in (None, found):
        raise CheckpointCorruptError(
            f"{checkpoint.url}/metadata says that this is query {found}, but its last run was "
            f"query {entry.query_id}.",
            hint=f'It was damaged, or changed by hand: put back {{"id":"{entry.query_id}"}}.',
        )


def _compare(
    checkpoint: Checkpoint,
    prepared: Mapping[int, PreparedEntry],
    texts: Mapping[int, str],
    committed: int,
    check: Callable[[], None],
) -> list[int]:
    """See that an epoch's entry in the offset log is the one that belongs to its messages.

    If the epoch is not committed, either the entry is damaged, or it is the late write of a run
    that was suspended for long, and which was stopped before it could tell the sink. In both cases
    the one that belongs to the messages is right, and is put in its place.

    :param texts: what the entries of the offset log hold.
    :returns: the epochs whose entry was put in its place.
    """
    restored = []
    for epoch, found in texts.items():
        entry = prepared.get(epoch)
        if entry is None or entry.offsets in (None, found):
            continue
        assert entry.offsets is not None
        if epoch == committed:
            raise CheckpointCorruptError(
                f"{checkpoint.url}/offsets/{epoch} holds {found!r}, but its epoch was committed "
                f"with {entry.offsets!r}.",
                hint="It was damaged, or changed by hand: restore it. To go on with what it holds, "
                f"delete prepared/{epoch}.",
                epoch=epoch,
            )
        logger.warning("restoring offsets/%d of %s, which held %r", epoch, checkpoint.url, found)
        check()
        checkpoint.offsets.restore(epoch, entry.offsets)
        restored.append(epoch)
    return restored


def _without_gap(
    offsets: list[int],
    committed: int,
    checkpoint: Checkpoint,
    prepared: Collection[int],
    check: Callable[[], None],
) -> list[int]:
    """Put back what is gone of the last committed epoch, of those behind it that others follow, and
    of one that the sink has dropped. A rewind that was suspended in a move carries it out when it
    wakes, and moves what another run has logged since."""
    last = max(offsets, default=-1)
    gap = {committed, *range(committed + 1, last + 2)}.difference(offsets)
    found, _ = read_entries(checkpoint.prepared_heads, sorted(gap.intersection(prepared)))
    for epoch, entry in found.items():
        # What is only prepared was perhaps never logged.
        if entry.offsets is not None and (epoch <= last or epoch == committed or entry.lost):
            logger.warning("putting offsets/%d of %s back, which is gone", epoch, checkpoint.url)
            check()
            checkpoint.offsets.restore(epoch, entry.offsets)
            offsets = sorted([*offsets, epoch])
    return offsets


def _behind_a_gap(offsets: Sequence[int], committed: int, known: Collection[int]) -> frozenset[int]:
    """What nobody can have acted upon: a run that was suspended in a write carries it out when it
    wakes, and another one has set aside what it had logged before.

    :param known: epochs that are prepared, or in the sink.
    """
    end = committed
    while end + 1 in offsets:
        end += 1
    behind = frozenset(epoch for epoch in offsets if epoch > end)
    starts = committed in offsets or (committed < 0 and 0 in offsets)
    return behind if starts and behind.isdisjoint(known) else frozenset()


def _without_leftovers(ids: Sequence[int]) -> Sequence[int]:
    """The newest ids without a gap. Those below, if any, are what retention has left when it was
    killed, or the late write of a run that was suspended while another one went on: an epoch that
    has a committed one behind it was committed itself, and its entries are not needed."""
    newest = next((at for at in range(len(ids) - 1, 0, -1) if ids[at] != ids[at - 1] + 1), 0)
    return ids[newest:]


def _texts(checkpoint: Checkpoint, epochs: Sequence[int]) -> dict[int, str]:
    looks = checkpoint.storage.together(
        *(partial(checkpoint.offsets.text_of, epoch) for epoch in epochs)
    )
    return dict(zip(epochs, looks, strict=True))
