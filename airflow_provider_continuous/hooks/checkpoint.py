"""CheckpointHook: what a query's checkpoint says, and what may be removed from it."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from functools import cached_property
from typing import Any

from airflow.sdk import BaseHook

from airflow_provider_continuous.arguments import seconds
from airflow_provider_continuous.location import CheckpointLocation
from engine.checkpoint.checkpoint import Checkpoint, CheckpointStatus
from engine.checkpoint.retention import PruneReport, prune


class CheckpointHook(BaseHook):
    """Reads a checkpoint, of this engine or of Spark itself, and prunes it.

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

    def status(self) -> CheckpointStatus:
        """Return who runs the query, in which state, and how far it has come."""
        return self.checkpoint.status()

    def prune(
        self,
        keep_epochs: int | None = None,
        keep_for: timedelta | float | None = None,
        dry_run: bool = False,
    ) -> PruneReport:
        """Remove what no restart can need. Safe while the query runs.

        :param keep_epochs: keep at least the last so many committed epochs.
        :param keep_for: keep every epoch committed less than this long ago, a timedelta or
            seconds.
        :param dry_run: only tell what would be removed.
        """
        return prune(
            self.checkpoint,
            keep_epochs=keep_epochs,
            keep_for_s=None if keep_for is None else seconds(keep_for),
            dry_run=dry_run,
        )

    def describe_epoch(self, epoch: int) -> dict[str, Any]:
        """Return ``{epoch, offsets, committed_at}`` of a committed epoch.

        ``committed_at`` is ISO 8601 in UTC. Offsets and time are None once retention has removed
        the epoch.
        """
        committed_ms = self.checkpoint.committed_at_ms(epoch)
        return {
            "epoch": epoch,
            "offsets": self.offsets(epoch),
            "committed_at": None
            if committed_ms is None
            else datetime.fromtimestamp(committed_ms / 1000, timezone.utc).isoformat(),
        }
