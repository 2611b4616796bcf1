"""Keep a table of Delta or of Iceberg fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_provider_continuous.connections.document import connected_sink
from airflow_provider_continuous.errors import final_errors
from airflow_provider_continuous.operators.checkpoint.base import used_checkpoint
from airflow_provider_continuous.tasks.arguments import (
    check_found,
    flag,
    given,
    optional_duration,
    whole_number,
)
from engine.base.extras import needs_engine
from engine.errors import ConfigError

if TYPE_CHECKING:
    from airflow.sdk import Context


class MaintainTableOperator(BaseOperator):
    """Compacts small files of a table, forgets its old states, and removes files that nobody can
    need any more. Safe while queries write to it, and again; what a restart or a rewind of theirs
    needs stays.

    Runs in the worker, which reads and writes the files that it compacts; a worker that is killed
    harms nothing. Returns what was done: files_before, bytes_before, files_after, bytes_after,
    compacted_files, compacted_into, left_files, expired, removed_files, removed_bytes.

    :param table: ``{"format": "delta", "options": {...}}`` (templated), as the sink of a query
        names it, with its ``connection`` if it has one. None: the table that the first checkpoint's
        query wrote to at its last start.
    :param checkpoint_location: of a query that writes to the table, or of several (templated):
        their pins stay possible to rewind to. With ``table`` it may be left out, but not be empty.
    :param compact: make larger files of small ones.
    :param expire: forget old snapshots (Iceberg), or old entries of the table's log (Delta).
    :param vacuum: remove files that neither the table nor a state of it that is kept has.
    :param retain: so long old states and their files stay, a timedelta or seconds, an hour or
        more; None: as the table says (Delta a week, Iceberg five days).
    :param rewindable: files that are younger are not compacted, and no history of that time is
        forgotten, a timedelta or seconds: a query can be rewound as far; None: a day.
    :param file_bytes: how large files should be (templated); None: as the table says.
    :param dry_run: change nothing, return what would be done.
    :param storage_conn_id: the Airflow connection that opens the checkpoints' storage (templated).
    """

    template_fields: Sequence[str] = (
        "table",
        "checkpoint_location",
        "file_bytes",
        "storage_conn_id",
    )
    template_fields_renderers = {"table": "json"}  # noqa: RUF012
    ui_color = "#efe6f7"

    def __init__(
        self,
        *,
        table: Mapping[str, Any] | None = None,
        checkpoint_location: str | Sequence[str] | None = None,
        compact: bool = True,
        expire: bool = True,
        vacuum: bool = True,
        retain: timedelta | float | None = None,
        rewindable: timedelta | float | None = None,
        file_bytes: int | str | None = None,
        dry_run: bool = False,
        storage_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if table is None and not checkpoint_location:
            raise ValueError(f"{self.task_id}: give table, checkpoint_location or both.")
        if not (compact or expire or vacuum):
            raise ValueError(f"{self.task_id}: give compact, expire or vacuum.")
        self.table = table
        self.checkpoint_location = checkpoint_location
        self.compact = flag(f"{self.task_id}: compact", compact)
        self.expire = flag(f"{self.task_id}: expire", expire)
        self.vacuum = flag(f"{self.task_id}: vacuum", vacuum)
        self.retain = optional_duration(f"{self.task_id}: retain", retain)
        self.rewindable = optional_duration(f"{self.task_id}: rewindable", rewindable)
        self.file_bytes = file_bytes
        self.maintain_dry_run = flag(f"{self.task_id}: dry_run", dry_run)
        self.storage_conn_id = storage_conn_id
        self._said = given(
            table=table,
            checkpoint_location=checkpoint_location,
            file_bytes=file_bytes,
            storage_conn_id=storage_conn_id,
        )

    def execute(self, context: Context) -> dict[str, Any]:
        """Maintain the table, and return the report."""
        with final_errors(), needs_engine("To look after a table"):
            from engine.commands.maintain import describe
            from engine.pipeline.given_sink import given_sink
            from engine.sinks.lakes.maintenance import maintain
            from engine.sinks.lakes.upkeep import Orders
            from engine.sinks.maintain import pinned_epochs, recorded_table, table_of

            check_found(self, self._said)
            at = self.checkpoint_location or ()
            if not at and "checkpoint_location" in self._said:
                raise ConfigError(
                    f"checkpoint_location is {self.checkpoint_location!r}, and names no checkpoint "
                    "whose pins are to stay.",
                    hint="If it is a template, see in the task's rendered template what it became; "
                    "a table without queries is looked after without checkpoint_location.",
                )
            locations = [at] if isinstance(at, str) else at
            checkpoints = [
                used_checkpoint(each, self.storage_conn_id).checkpoint for each in locations
            ]
            orders = Orders(
                compact=self.compact,
                expire=self.expire,
                vacuum=self.vacuum,
                retain_s=self.retain,
                rewindable_s=self.rewindable,
                pinned=pinned_epochs(checkpoints),
                file_bytes=None
                if self.file_bytes is None
                else whole_number("file_bytes", self.file_bytes, minimum=1),
                dry_run=self.maintain_dry_run,
            )
            if self.table is None:
                table = recorded_table(checkpoints[0])
            else:
                name, options = connected_sink(self.table, "table")
                for each in checkpoints:
                    options = given_sink(each, name, options)
                table = table_of(name, options)
            report = maintain(table, orders)
        self.log.info("%s", describe(report))
        return report.to_dict()
