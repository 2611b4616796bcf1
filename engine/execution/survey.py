"""Looks at the disk after whatever happened before, asks the restart table, and tidies up."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from engine.base.failpoints import reach
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.logs.metadata_log import MetadataLog
from engine.checkpoint.logs.prepared_log import PreparedEntry
from engine.coordinator.restart_table import COMMITS, OFFSETS, PREPARED, RestartPlan, decide
from engine.errors import CheckpointCorruptError
from engine.execution.definition import SinkBinding

logger = logging.getLogger(__name__)
T = TypeVar("T")


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
    offsets, commits, prepared = storage.together(
        checkpoint.offsets.ids, checkpoint.commits.ids, prepared_log.ids
    )
    offsets, commits = _without_leftovers(offsets), _without_leftovers(commits)
    (_, torn_commits), query_id = storage.together(
        partial(_read, checkpoint.commits, commits[-1:]), checkpoint.query_id
    )
    committed = max((epoch for epoch in commits if epoch not in torn_commits), default=-1)
    # Of the last committed epoch its end is needed, of those behind it all, of others nothing.
    done = [epoch for epoch in prepared if epoch <= committed][-1:]
    (heads, _), (entries, torn_prepared), (_, torn_offsets), texts = storage.together(
        partial(_read, checkpoint.prepared_heads, done),
        partial(_read, prepared_log, [epoch for epoch in prepared if epoch > committed]),
        partial(_read, checkpoint.offsets, [epoch for epoch in offsets if epoch >= committed]),
        partial(_texts, checkpoint, [epoch for epoch in offsets if epoch >= committed]),
    )
    entries.update(heads)
    _check_identity(checkpoint, query_id, entries)
    restored = _compare(checkpoint, entries, texts, committed, check) or ()
    latest_epoch: Callable[[], int | None] | None = getattr(sink.writer, "latestEpoch", None)
    plan = decide(
        offsets_ids=offsets,
        commits_ids=commits,
        prepared=prepared,
        sink_epoch=None if latest_epoch is None else latest_epoch(),
        unreadable_offsets=[epoch for epoch in torn_offsets if epoch not in restored],
        unreadable_commits=torn_commits,
        unreadable_prepared=torn_prepared,
    )
    check_logged: Callable[[int], None] | None = getattr(sink.writer, "checkLogged", None)
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


def _check_identity(
    checkpoint: Checkpoint, found: str | None, prepared: Mapping[int, PreparedEntry]
) -> None:
    """A sink knows the query by its id: another one would commit again what it has."""
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


def _without_leftovers(ids: Sequence[int]) -> Sequence[int]:
    """The newest ids without a gap. Those below, if any, are what retention has left when it was
    killed, or the late write of a run that was suspended while another one went on: an epoch that
    has a committed one behind it was committed itself, and its entries are not needed."""
    newest = next((at for at in range(len(ids) - 1, 0, -1) if ids[at] != ids[at - 1] + 1), 0)
    return ids[newest:]


def _read(log: MetadataLog[T], epochs: Sequence[int]) -> tuple[dict[int, T], list[int]]:
    """The entries that can be read, and the epochs of those that cannot."""

    def look(epoch: int) -> tuple[T | None, bool]:
        try:
            return log.get(epoch), False
        except CheckpointCorruptError as exc:
            logger.warning("%s", exc)
            return None, True

    looks = log.storage.together(*(partial(look, epoch) for epoch in epochs))
    found = dict(zip(epochs, looks, strict=True))
    return (
        {epoch: entry for epoch, (entry, _) in found.items() if entry is not None},
        [epoch for epoch, (_, torn) in found.items() if torn],
    )


def _texts(checkpoint: Checkpoint, epochs: Sequence[int]) -> dict[int, str]:
    looks = checkpoint.storage.together(
        *(partial(checkpoint.offsets.text_of, epoch) for epoch in epochs)
    )
    return dict(zip(epochs, looks, strict=True))
