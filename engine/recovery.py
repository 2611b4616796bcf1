"""Looks at the disk after whatever happened before, asks the restart table, and tidies up."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.metadata_log import MetadataLog
from engine.coordinator.restart import COMMITS, OFFSETS, PREPARED, RestartPlan, decide
from engine.definition import SinkBinding
from engine.errors import CheckpointCorruptError

logger = logging.getLogger(__name__)


def plan_restart(checkpoint: Checkpoint, sink: SinkBinding) -> RestartPlan:
    """What a start has to do. Entries that the plan sets aside are deleted when this returns.

    :raises CheckpointError: the checkpoint cannot be continued.
    :raises SinkAheadError: the sink belongs to another checkpoint.
    """
    prepared_log = checkpoint.prepared_with(sink.message_modules)
    offsets, commits = checkpoint.offsets.ids(), checkpoint.commits.ids()
    prepared = prepared_log.ids()
    torn_commits = _unreadable(checkpoint.commits.get, commits[-1:])
    committed = max((epoch for epoch in commits if epoch not in torn_commits), default=-1)
    latest_epoch: Callable[[], int | None] | None = getattr(sink.writer, "latestEpoch", None)
    plan = decide(
        offsets_ids=offsets,
        commits_ids=commits,
        prepared=prepared,
        sink_epoch=None if latest_epoch is None else latest_epoch(),
        unreadable_offsets=_unreadable(
            checkpoint.offsets.get, (epoch for epoch in offsets if epoch >= committed)
        ),
        unreadable_commits=torn_commits,
        unreadable_prepared=_unreadable(
            prepared_log.get, (epoch for epoch in prepared if epoch > committed)
        ),
    )
    logs: dict[str, MetadataLog[Any]] = {
        OFFSETS: checkpoint.offsets,
        COMMITS: checkpoint.commits,
        PREPARED: prepared_log,
    }
    for name, epoch in plan.set_aside:
        logger.warning("setting aside %s/%d of %s", name, epoch, checkpoint.url)
        logs[name].delete(epoch)
    return plan


def _unreadable(get: Callable[[int], Any], epochs: Iterable[int]) -> list[int]:
    torn = []
    for epoch in epochs:
        try:
            get(epoch)
        except CheckpointCorruptError as exc:
            logger.warning("%s", exc)
            torn.append(epoch)
    return torn
