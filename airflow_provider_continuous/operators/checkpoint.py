"""Remove from a checkpoint what no restart can need."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_provider_continuous.arguments import whole_number
from airflow_provider_continuous.errors import final_errors
from airflow_provider_continuous.hooks.checkpoint import CheckpointHook
from engine.errors import ConfigError

if TYPE_CHECKING:
    from airflow.sdk import Context


class PruneCheckpointOperator(BaseOperator):
    """Prunes a checkpoint, of this engine or of Spark itself, while its query runs or not.

    Never removes what a restart could need. Returns what it removed and how many bytes that was.

    :param checkpoint_location: path or URL of the checkpoint (templated);
        ``s3://my_conn@bucket/path`` opens it with an Airflow connection.
    :param keep_epochs: keep at least the last so many committed epochs, 2 or more (templated).
    :param keep_for: keep every epoch committed less than this long ago, a timedelta or seconds.
        With both, an epoch goes only when neither keeps it.
    :param dry_run: remove nothing, return what would be removed.
    :param storage_conn_id: the Airflow connection that opens the storage (templated).
    """

    template_fields: Sequence[str] = ("checkpoint_location", "keep_epochs", "storage_conn_id")
    ui_color = "#efe6f7"

    def __init__(
        self,
        *,
        checkpoint_location: str,
        keep_epochs: int | str | None = None,
        keep_for: timedelta | float | None = None,
        dry_run: bool = False,
        storage_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if keep_epochs is None and keep_for is None:
            raise ValueError(f"{self.task_id}: give keep_epochs, keep_for or both.")
        self.checkpoint_location = checkpoint_location
        self.keep_epochs = keep_epochs
        self.keep_for = keep_for
        self.prune_dry_run = dry_run
        self.storage_conn_id = storage_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        """Prune, and return the report."""
        with final_errors():
            hook = CheckpointHook(self.checkpoint_location, self.storage_conn_id)
            if not hook.exists():
                raise ConfigError(
                    f"There is no checkpoint at {hook.location.url}.",
                    hint="Check checkpoint_location; a query creates it when it first runs.",
                )
            keep_epochs = (
                None if self.keep_epochs is None else whole_number("keep_epochs", self.keep_epochs)
            )
            report = hook.prune(keep_epochs, self.keep_for, self.prune_dry_run)
        return report.to_dict()
