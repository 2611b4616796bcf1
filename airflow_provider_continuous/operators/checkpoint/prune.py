"""Remove from checkpoints what no restart can need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_provider_continuous.compat import AirflowException, AirflowFailException
from airflow_provider_continuous.connections.document import connected_sink
from airflow_provider_continuous.deploy.leftovers import tidy
from airflow_provider_continuous.deploy.submission import log_folders
from airflow_provider_continuous.errors import final_errors, is_final
from airflow_provider_continuous.hooks.checkpoint import CheckpointHook
from airflow_provider_continuous.operators.checkpoint.base import CheckpointOperator
from airflow_provider_continuous.tasks.arguments import (
    flag,
    given,
    optional_duration,
    optional_number,
)
from engine.base.text_tables import count
from engine.checkpoint.find import is_pattern
from engine.commands.result import format_bytes, format_table
from engine.errors import CheckpointError, ConfigError, ContinuousError
from engine.redaction.logs import redact
from engine.sinks.files.file_sink_upkeep import ORPHAN_AGE_S

if TYPE_CHECKING:
    from airflow.sdk import Context


class PruneCheckpointOperator(CheckpointOperator):
    """Prunes checkpoints, of this engine or of Spark itself, while their queries run or not.

    Never removes what a restart could need: the last two committed epochs, all that is newer, and
    pins stay. Temporary files that crashes have left go after an hour. Old logs of the query's
    drivers and code of its tasks go, too, if they are on this worker's machine: see
    :mod:`airflow_provider_continuous.deploy.leftovers`.

    Returns what was removed, and how many bytes that was; for a location with a ``*``:
    ``{"checkpoints": [...], "removed_epochs": ..., "removed_files": ..., "removed_bytes": ...}``.

    All parameters of
    :class:`~airflow_provider_continuous.operators.checkpoint.base.CheckpointOperator`, and

    :param checkpoint_location: with a ``*``, all checkpoints that match, one after another: one
        that cannot be pruned does not keep the others from it, and fails the task at the end, by
        its name.
    :param keep_epochs: keep the last so many committed epochs, 2 or more (templated).
    :param keep_for: keep every epoch committed less than this long ago, a timedelta or seconds.
        With both, an epoch goes only when neither keeps it.
    :param keep_bytes: and of those, only the newest whose entries take so many bytes together
        (templated). Alone, it keeps every epoch that fits.
    :param compact_sink: also remove entries of the files sink's log (``_spark_metadata``) that
        its compactions hold too, and that no kept or pinned epoch needs for a rewind.
    :param remove_orphans: also remove data files that runs which are over have left, and that no
        committed and no prepared epoch names.
    :param orphans_older_than: with ``remove_orphans``: how old such a file must be, a timedelta or
        seconds; an hour or more. None: a day.
    :param sink_path: the folder of the sink (templated), for a checkpoint that does not tell it:
        Spark's own, or one that no recent engine has run.
    :param sink: ``{"format": ..., "options": {...}}`` (templated), with its ``connection`` if it
        has one: what opens the bucket of a files sink, which no checkpoint tells; what it tells
        may be left out. Without, the worker's environment opens it.
    :param dry_run: remove nothing, return what would be removed.
    """

    template_fields: Sequence[str] = (
        *CheckpointOperator.template_fields,
        "keep_epochs",
        "keep_bytes",
        "sink_path",
        "sink",
    )
    template_fields_renderers = {"sink": "json"}  # noqa: RUF012

    def __init__(
        self,
        *,
        keep_epochs: int | str | None = None,
        keep_for: timedelta | float | None = None,
        keep_bytes: int | str | None = None,
        compact_sink: bool = False,
        remove_orphans: bool = False,
        orphans_older_than: timedelta | float | None = None,
        sink_path: str | None = None,
        sink: Mapping[str, Any] | None = None,
        dry_run: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if keep_epochs is None and keep_for is None and keep_bytes is None:
            raise ValueError(f"{self.task_id}: give keep_epochs, keep_for or both, or keep_bytes.")
        if sink_path is not None and not (compact_sink or remove_orphans):
            raise ValueError(f"{self.task_id}: sink_path is for compact_sink or remove_orphans.")
        if sink is not None and not (compact_sink or remove_orphans):
            raise ValueError(f"{self.task_id}: sink is for compact_sink or remove_orphans.")
        if sink is not None and sink_path is not None:
            raise ValueError(f"{self.task_id}: give sink or sink_path; sink has a path, too.")
        self.keep_epochs = keep_epochs
        self.keep_for = optional_duration(f"{self.task_id}: keep_for", keep_for)
        self.keep_bytes = keep_bytes
        self._given = given(keep_epochs=keep_epochs, keep_bytes=keep_bytes)
        self.compact_sink = flag(f"{self.task_id}: compact_sink", compact_sink)
        self.remove_orphans = flag(f"{self.task_id}: remove_orphans", remove_orphans)
        age = optional_duration(f"{self.task_id}: orphans_older_than", orphans_older_than)
        if age is not None and not remove_orphans:
            raise ValueError(f"{self.task_id}: orphans_older_than needs remove_orphans=True.")
        self.orphans_older_than = ORPHAN_AGE_S if remove_orphans and age is None else age
        self.sink_path = sink_path
        self.sink = sink
        self._said |= given(sink_path=sink_path, sink=sink)
        self.prune_dry_run = flag(f"{self.task_id}: dry_run", dry_run)

    def execute(self, context: Context) -> dict[str, Any]:
        """Prune, and return the report."""
        with final_errors():
            if is_pattern(str(self.checkpoint_location)):
                return self._prune_all()
            return self._prune(self.hook())

    def _prune(self, hook: CheckpointHook) -> dict[str, Any]:
        report = hook.prune(
            optional_number("keep_epochs", self.keep_epochs, self._given),
            self.keep_for,
            self.prune_dry_run,
            keep_bytes=optional_number("keep_bytes", self.keep_bytes, self._given),
        )
        found = {"checkpoint_location": hook.location.url, **report.to_dict()}
        if self.compact_sink or self.remove_orphans:
            sink = hook.prune_sink(
                self.sink_path,
                sink=None if self.sink is None else connected_sink(self.sink, "sink"),
                compact=self.compact_sink,
                orphans_older_than=self.orphans_older_than,
                dry_run=self.prune_dry_run,
            )
            found["sink"] = None if sink is None else sink.to_dict()
        if not self.prune_dry_run:
            self._tidy(hook)
        return found

    def _tidy(self, hook: CheckpointHook) -> None:
        """Old logs and code of the query, as far as they are on this machine, and this user's."""
        checkpoint = hook.checkpoint
        for folder in log_folders(checkpoint.url):
            try:
                files, size = tidy(folder, checkpoint.url, checkpoint.storage)
            except (OSError, CheckpointError) as error:
                self.log.warning("Old logs stay in %s: %s", folder, error)
                continue
            if files:
                self.log.info("Removed %d old files, %d bytes, of %s", files, size, folder)

    def _prune_all(self) -> dict[str, Any]:
        options = (self.sink or {}).get("options") or {}
        if self.sink_path is not None or any(str(key).lower() == "path" for key in options):
            raise ConfigError(
                f"{self.checkpoint_location} may match many checkpoints, and there is one path "
                "of a sink.",
                hint="Leave it out: a checkpoint of this engine tells its own.",
            )
        hooks = self.matching_hooks()
        if not hooks:
            raise ConfigError(
                f"No checkpoint matches {self.checkpoint_location}.",
                hint="Check checkpoint_location; * stands for any part of one folder's name.",
            )
        reports: list[dict[str, Any]] = []
        errors: dict[str, Exception] = {}
        for hook in hooks:
            # Whatever is wrong with one checkpoint: the others are pruned all the same.
            try:
                reports.append(self._prune(hook))
            except Exception as error:
                errors[hook.location.url] = error
                self.log.error("%s: %s", hook.location.url, redact(str(error)))
        self.log.info("Pruned %d of %d:\n%s", len(reports), len(hooks), _table(reports))
        if errors:
            _fail(errors, len(hooks))
        totals = ("removed_epochs", "removed_files", "removed_bytes")
        return {
            "checkpoints": reports,
            **{total: sum(report[total] for report in reports) for total in totals},
            "dry_run": self.prune_dry_run,
        }


def _table(reports: Sequence[dict[str, Any]]) -> str:
    return format_table(
        ["checkpoint", "epochs", "files", "size", "kept from"],
        [
            [
                report["checkpoint_location"],
                report["removed_epochs"],
                report["removed_files"],
                format_bytes(report["removed_bytes"]),
                report["kept_from"],
            ]
            for report in reports
        ],
    )


def _fail(errors: dict[str, Exception], total: int) -> None:
    """:raises AirflowException: names them all; for good, if a retry can help none of them."""
    listed = "\n".join(f"{location}: {redact(str(error))}" for location, error in errors.items())
    were = "was" if total == 1 else "were"
    text = f"{len(errors)} of {count(total, 'checkpoint')} {were} not pruned:\n{listed}"
    final = all(isinstance(each, ContinuousError) and is_final(each) for each in errors.values())
    raise (AirflowFailException if final else AirflowException)(text)
