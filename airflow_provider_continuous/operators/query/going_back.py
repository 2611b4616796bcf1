"""What an upgrade keeps of a query before it changes it, and how it brings that back."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from airflow_provider_continuous.connections.sinks import reopened, sink_to_rewind
from airflow_provider_continuous.hooks.checkpoint import CheckpointHook
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.fingerprint_file import read_fingerprint, write_fingerprint
from engine.checkpoint.lease import Lease
from engine.checkpoint.query_state import QueryState
from engine.errors import ConfigError

_PIN = "before-upgrade"


@dataclass(frozen=True)
class Before:
    """The query as it was; JSON without secrets.

    :param epoch: the last one that the old version has committed, -1 if there was none; pinned.
    :param fingerprint: of the old version, None if the checkpoint has none.
    """

    epoch: int
    fingerprint: dict[str, Any] | None = field(default=None, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


@dataclass(frozen=True)
class WentBack:
    """:param rewound: whether everything is as the old version has left it; ``reason`` if not."""

    rewound: bool
    reason: str | None = None


def remember(hook: CheckpointHook, document: Mapping[str, Any]) -> Before:
    """Pin the last committed epoch of a query that does not run, and keep what it is made of.

    :param document: a specification whose sink has the connection that reaches the query's own.
    """
    checkpoint = hook.checkpoint
    before = Before(checkpoint.committed_epoch(), read_fingerprint(checkpoint.storage))
    if before.epoch >= 0:
        forget(hook)
        checkpoint.pin(_PIN, before.epoch, sink=sink_to_rewind(checkpoint, document))
    return before


def forget(hook: CheckpointHook) -> None:
    """Remove the pin, if it is there."""
    with suppress(ConfigError):
        hook.checkpoint.unpin(_PIN)


def go_back(hook: CheckpointHook, before: Before, document: Mapping[str, Any]) -> WentBack:
    """Take a query that does not run back to where it was, if its sink can take rows back.

    :param document: as for :func:`remember`.
    :raises ConcurrentRunError: somebody runs it.
    """
    checkpoint = hook.checkpoint
    if _has_later_entries(checkpoint, before.epoch):
        if before.epoch < 0:
            return WentBack(False, "there was no epoch before the upgrade to go back to")
        try:
            checkpoint.rewind(to_pin=_PIN, sink=_sink_of(before, document))
        except ConfigError as error:
            return WentBack(False, str(error))
    if before.fingerprint is not None:
        # The checkpoint is as the old version has left it, so it is the old version's again.
        lease = Lease.acquire(checkpoint, run_id=str(uuid.uuid4()))
        write_fingerprint(checkpoint.storage, before.fingerprint)
        lease.release(QueryState.STOPPED)
    return WentBack(True)


def _has_later_entries(checkpoint: Checkpoint, epoch: int) -> bool:
    logs = (checkpoint.prepared, checkpoint.offsets, checkpoint.commits)
    return any(log.latest_id() is not None and max(log.ids()) > epoch for log in logs)


def _sink_of(before: Before, document: Mapping[str, Any]) -> Any:
    return None if before.fingerprint is None else reopened(before.fingerprint["sink"], document)
