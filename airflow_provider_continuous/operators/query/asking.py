"""What all operators have in common that ask a run for something."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from airflow.sdk import BaseOperator

from airflow_provider_continuous.deferral import defers, wait_or_defer
from airflow_provider_continuous.links.query import QUERY_LINKS
from airflow_provider_continuous.openlineage.operators import QueryLineage
from airflow_provider_continuous.tasks.arguments import duration, given
from airflow_provider_continuous.triggers.base import CheckpointTrigger
from airflow_provider_continuous.triggers.poller import Event


class QueryAskingOperator(QueryLineage, BaseOperator):
    """Asks the run of a checkpoint for something, and waits until it is done.

    :param checkpoint_location: the query's checkpoint (templated); with
        ``s3://my_conn@bucket/path`` an Airflow connection opens it.
    :param timeout: how long to wait until it is done, a timedelta or seconds.
    :param storage_conn_id: the Airflow connection that opens the storage (templated).
    :param poll_interval: seconds between two looks at the checkpoint.
    :param deferrable: after a few seconds, wait in the triggerer, without a worker slot; the
        default unless ``AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE`` is ``False``.
    """

    operator_extra_links = QUERY_LINKS
    template_fields: Sequence[str] = ("checkpoint_location", "storage_conn_id")
    ui_color = "#f4e7de"

    def __init__(
        self,
        *,
        checkpoint_location: str,
        timeout: timedelta | float = 600.0,
        storage_conn_id: str | None = None,
        poll_interval: timedelta | float = 1.0,
        deferrable: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.checkpoint_location = checkpoint_location
        self.timeout = duration(f"{self.task_id}: timeout", timeout)
        self.storage_conn_id = storage_conn_id
        self.poll_interval = duration(f"{self.task_id}: poll_interval", poll_interval)
        self.deferrable = defers(f"{self.task_id}: deferrable", deferrable)
        self._said = given(storage_conn_id=storage_conn_id)

    def _waiting(self) -> dict[str, Any]:
        """Return the arguments of a trigger."""
        return {
            "storage_conn_id": self.storage_conn_id,
            "poll_interval_s": self.poll_interval,
            "deadline": time.time() + self.timeout,
        }

    def _await(self, trigger: CheckpointTrigger) -> Event:
        """Wait here, or defer to ``execute_complete``."""
        return wait_or_defer(self, trigger) if self.deferrable else trigger.wait()
