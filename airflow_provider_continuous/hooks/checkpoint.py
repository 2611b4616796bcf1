"""CheckpointHook: what a query's checkpoint says, and what may be done to it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from functools import cached_property
from typing import Any

from airflow.sdk import BaseHook

from airflow_provider_continuous.connections.location import CheckpointLocation
from airflow_provider_continuous.tasks.arguments import iso_time, seconds
from engine.checkpoint.checkpoint import Checkpoint, CheckpointStatus, QueryLook
from engine.checkpoint.copies import CopyReport, copy_checkpoint
from engine.checkpoint.find import find_checkpoints
from engine.checkpoint.inspection import LAST_DEFAULT, Inspection, inspect_checkpoint
from engine.checkpoint.lease import read_holder
from engine.checkpoint.pins import Pin
from engine.checkpoint.query_state import QueryState
from engine.checkpoint.retention import PruneReport, prune
from engine.checkpoint.rewind import RewindReport
from engine.checkpoint.silence import Silence
from engine.checkpoint.watermark import committed_watermark
from engine.pipeline.given_sink import given_sink
from engine.sinks.files.file_sink_upkeep import SinkPruneReport, prune_sink
from engine.sinks.reopen import recorded_sink, reopen_sink

LOST_AFTER_S = 60.0
"""A query that says nothing for so long is over for those who wait for what it does. One whose
machine was suspended, or whose storage was away, comes back and goes on if nobody replaced it."""


class CheckpointHook(BaseHook):
    """Reads a checkpoint, of this engine or of Spark itself, and looks after it.

    Needs neither Spark nor Java, only the storage.

    :param checkpoint_location: path or any URL that fsspec knows; ``s3://my_conn@bucket/path``
        opens it with an Airflow connection, as ``ObjectStoragePath`` does.
    :param storage_conn_id: that connection, given apart.
    """

    def __init__(self, checkpoint_location: object, storage_conn_id: str | None = None) -> None:
        super().__init__()
        self.location = CheckpointLocation.parse(checkpoint_location, storage_conn_id)

    @cached_property
    def checkpoint(self) -> Checkpoint:
        """The engine's own view of the checkpoint."""
        return Checkpoint(self.location.url, storage_options=self.location.storage_options())

    def exists(self) -> bool:
        """Tell whether a query has ever used this checkpoint."""
        return self.checkpoint.exists()

    def committed_epoch(self) -> int:
        """Return the last committed epoch, -1 if there is none."""
        return self.checkpoint.committed_epoch()

    def epochs(self) -> list[int]:
        """Return the committed epochs that retention has kept, oldest first."""
        return self.checkpoint.epochs()

    def offsets(self, epoch: int | None = None) -> list[Any] | None:
        """Return the end offsets of an epoch, one per source.

        :param epoch: a committed epoch; None is the last one.
        """
        offsets = self.checkpoint.committed_offsets(epoch)
        return None if offsets is None else list(offsets)

    def watermark(self) -> tuple[int, int] | None:
        """Return the last committed epoch and its watermark, in milliseconds since 1970.

        What is behind the watermark is in the sink, and does not change any more; 0: there is none
        yet. None: nothing is committed.
        """
        return committed_watermark(self.checkpoint)

    def status(self) -> CheckpointStatus:
        """Return who runs the query, in which state, and how far it has come.

        A run on another machine that looks lost is watched for some heartbeats before that is
        believed: its clock may be behind.
        """
        status = self.checkpoint.status()
        if status.state is not QueryState.LOST:
            return status
        told = self._silence.state()
        return status if told is None else replace(status, state=told)

    def may_go_on(self, status: CheckpointStatus) -> bool:
        """Tell whether a run may still do something: it is active, or LOST for no longer than a
        pause takes, unless its process is known to be dead: that of this machine is."""
        if status.state is not QueryState.LOST:
            return status.state.is_active
        if is_over(status):
            return False
        holder = read_holder(self.checkpoint.storage)
        if holder is None or holder.run_id != status.run_id:
            return False  # another one has taken over
        return holder.process.is_running() is not False

    @cached_property
    def _silence(self) -> Silence:
        return Silence(self.checkpoint.storage)

    def glance(self) -> QueryLook | None:
        """Return nearly the same with one read: as of the run's last heartbeat, without offsets.

        None where nobody keeps a summary, or where it does not tell enough.
        """
        found = self.checkpoint.glance()
        return found if found is not None and found.is_sure else None

    def prune(
        self,
        keep_epochs: int | None = None,
        keep_for: timedelta | float | None = None,
        dry_run: bool = False,
        *,
        keep_bytes: int | None = None,
    ) -> PruneReport:
        """Remove what no restart can need. Safe while the query runs.

        :param keep_epochs: keep the last so many committed epochs.
        :param keep_for: keep every epoch committed less than this long ago, a timedelta or
            seconds.
        :param dry_run: only tell what would be removed.
        :param keep_bytes: and of these, only the newest that take so many bytes together.
        """
        return prune(
            self.checkpoint,
            keep_epochs=keep_epochs,
            keep_for_s=None if keep_for is None else seconds(keep_for),
            dry_run=dry_run,
            keep_bytes=keep_bytes,
        )

    def prune_sink(
        self,
        path: str | None = None,
        *,
        sink: tuple[str, Mapping[str, str]] | None = None,
        compact: bool = True,
        orphans_older_than: timedelta | float | None = None,
        dry_run: bool = False,
    ) -> SinkPruneReport | None:
        """Remove what nobody needs from the folder of the query's files sink.

        :param path: the folder; None: the one that the query had at its last start.
        :param sink: its format and options; what the checkpoint tells may be left out.
        :param compact: remove entries of the sink's log that its compactions hold too.
        :param orphans_older_than: remove data files of no epoch that are older.
        :returns: None: the query's sink writes no files.
        """
        return prune_sink(
            self.checkpoint,
            path,
            sink=None if sink is None else (sink[0], given_sink(self.checkpoint, *sink)),
            compact=compact,
            orphans_older_than_s=None
            if orphans_older_than is None
            else seconds(orphans_older_than),
            dry_run=dry_run,
        )

    def pins(self) -> list[Pin]:
        """Return the pinned epochs, lowest first."""
        return self.checkpoint.pins()

    def pin(self, name: str, epoch: int | None = None, *, sink: Any = None) -> Pin:
        """Keep a committed epoch for a rewind, with the position of the query's sink.

        :param epoch: None: the last committed one, or that of the pin if there is one already.
        :param sink: see :func:`engine.sinks.reopen.reopen_sink`; None: the one that the
            query had at its last start.
        :raises ConfigError: the name cannot be used or has another epoch, or the epoch is not
            there.
        """
        if epoch is None:
            known = next((pin for pin in self.pins() if pin.name == name), None)
            if known is not None:
                return known
        found = recorded_sink(self.checkpoint) if sink is None else sink
        return self.checkpoint.pin(name, epoch, sink=found)

    def reopened(self, name: str, options: Mapping[str, str]) -> Any:
        """Return a sink for :meth:`pin` and :meth:`rewind`; None if it cannot take rows back.

        :param name: the sink's format.
        :param options: of the sink; what the checkpoint tells may be left out.
        :raises ConfigError: the query has another sink.
        """
        return reopen_sink(name, given_sink(self.checkpoint, name, options))

    def unpin(self, name: str) -> None:
        """Forget a pin.

        :raises ConfigError: there is none of this name; lists those that are there.
        """
        self.checkpoint.unpin(name)

    def rewind(
        self,
        to_epoch: int | None = None,
        *,
        to_pin: str | None = None,
        sink: Any = None,
        accept_repeats: bool = False,
        expected_epoch: int | None = None,
    ) -> RewindReport:
        """Take a query that does not run back to the end of a committed epoch.

        :param to_epoch: the last epoch that stays; or ``to_pin``, the name of a pin.
        :param sink: see :func:`engine.sinks.reopen.reopen_sink`; None: the one that the
            query had at its last start.
        :param accept_repeats: go on with a sink that cannot take rows back.
        :param expected_epoch: refuse unless this one is the last committed one still.
        :raises ConfigError: the epoch is not there, or the sink cannot take rows back; nothing has
            changed.
        :raises ConcurrentRunError: a run holds the checkpoint, or ``expected_epoch`` is not the
            last committed one.
        """
        return self.checkpoint.rewind(
            to_epoch,
            to_pin=to_pin,
            sink=recorded_sink(self.checkpoint) if sink is None else sink,
            accept_repeats=accept_repeats,
            expected_epoch=expected_epoch,
        )

    def inspect(self, last: int = LAST_DEFAULT) -> Inspection:
        """Return all that the checkpoint tells, its faults included.

        :param last: so many of the newest epochs are described.
        """
        return inspect_checkpoint(self.checkpoint, last)

    def copy_to(
        self, target: CheckpointHook, to_epoch: int | None = None, *, asked_by: str | None = None
    ) -> CopyReport:
        """Fork the checkpoint for another query. Safe while the query runs.

        :param target: where nothing is yet.
        :param to_epoch: the last committed epoch in the copy; None: the last one there is.
        :param asked_by: a second call for the same asker returns what the first has made.
        :raises ConfigError: there is something at the target, or the epoch is not there.
        """
        return copy_checkpoint(self.checkpoint, target.checkpoint, to_epoch, asked_by=asked_by)

    def describe_epoch(self, epoch: int) -> dict[str, Any]:
        """Return ``{epoch, offsets, committed_at}`` of a committed epoch.

        ``committed_at`` is ISO 8601 in UTC. Offsets and time are None once retention has removed
        the epoch.
        """
        committed_ms = self.checkpoint.committed_at_ms(epoch)
        return {
            "epoch": epoch,
            "offsets": self.offsets(epoch),
            "committed_at": None if committed_ms is None else iso_time(committed_ms),
        }


def matching_checkpoints(
    pattern: object, storage_conn_id: str | None = None
) -> list[CheckpointHook]:
    """Open every checkpoint that a location with a ``*`` matches.

    :raises ConfigError: the location cannot be used.
    :raises CheckpointError: the storage cannot be listed.
    """
    location = CheckpointLocation.parse(pattern, storage_conn_id)
    found = find_checkpoints(location.url, location.storage_options())
    return [CheckpointHook(each, location.conn_id) for each in found]


def is_over(status: CheckpointStatus) -> bool:
    """Tell whether a query has ended, or is LOST for longer than a pause would take."""
    if status.state is QueryState.LOST and status.heartbeat_at_ms is not None:
        return time.time() - status.heartbeat_at_ms / 1000 >= LOST_AFTER_S
    return status.state.is_over
