"""Fork a checkpoint for a shadow run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_continuous.errors import final_errors
from airflow_provider_continuous.hooks.checkpoint import CheckpointHook
from airflow_provider_continuous.operators.checkpoint.base import CheckpointOperator
from airflow_provider_continuous.tasks.arguments import given, optional_number

if TYPE_CHECKING:
    from airflow.sdk import Context


class CopyCheckpointOperator(CheckpointOperator):
    """Forks a checkpoint, of this engine or of Spark itself, while its query runs or not: another
    query, with a sink of its own, goes on behind the same committed epoch.

    The copy has an id of its own and no lease. What the sink holds is not copied, nor are pins,
    prepared epochs and progress. A retry of the task finds the copy that an earlier attempt has
    made, and finishes one that was interrupted.

    Returns source, source_id, target, query_id, from_epoch, to_epoch, files, bytes, left_behind.

    :param target_location: path or URL where nothing is yet (templated), as checkpoint_location.
    :param to_epoch: the last committed epoch in the copy (templated); None: the last one there is.
    :param target_conn_id: the Airflow connection that opens the target's storage (templated).
    """

    template_fields: Sequence[str] = (
        *CheckpointOperator.template_fields,
        "target_location",
        "to_epoch",
        "target_conn_id",
    )

    def __init__(
        self,
        *,
        target_location: str,
        to_epoch: int | str | None = None,
        target_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.target_location = target_location
        self.to_epoch = to_epoch
        self._given = given(to_epoch=to_epoch)
        self.target_conn_id = target_conn_id
        self._said |= given(target_conn_id=target_conn_id)

    def execute(self, context: Context) -> dict[str, Any]:
        """Copy, and return what was copied."""
        ti = context["ti"]
        with final_errors():
            report = self.hook().copy_to(
                CheckpointHook(self.target_location, self.target_conn_id),
                optional_number("to_epoch", self.to_epoch, self._given),
                asked_by=f"{ti.dag_id}/{context['run_id']}/{ti.task_id}/{ti.map_index}",
            )
        self.log.info(
            "Copied epochs %d to %d to %s. Not copied: %s.",
            report.from_epoch,
            report.to_epoch,
            report.target,
            report.left_behind,
        )
        return report.to_dict()
