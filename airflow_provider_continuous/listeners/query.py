"""When a task that watches a query fails, its log says how the query itself is.

The two are not the same: a query goes on when a task is killed or times out, and a person who
reads the task's log wants to know that first.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from airflow.listeners import hookimpl

if TYPE_CHECKING:
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

logger = logging.getLogger(__name__)


@hookimpl
def on_task_instance_failed(
    previous_state: Any, task_instance: RuntimeTaskInstance, error: str | BaseException | None
) -> None:
    """Log the state of the failed task's query. Never raises: the task has failed already."""
    task = getattr(task_instance, "task", None)
    classes = type(task).__mro__  # that of a DAG may be derived from one of ours
    if not any(each.__module__.startswith("airflow_provider_continuous.") for each in classes):
        return
    from airflow_provider_continuous.hooks.checkpoint import CheckpointHook
    from airflow_provider_continuous.notifications.query import describe
    from airflow_provider_continuous.observing.places import place_of
    from airflow_provider_continuous.observing.pool import POOL
    from airflow_provider_continuous.tasks.query_note import location_of
    from airflow_provider_continuous.view.overview import look_at
    from engine.redaction.logs import redact

    try:
        location = location_of(task, task_instance)
        if location is not None:
            hook = CheckpointHook(location, getattr(task, "storage_conn_id", None))
            overview = POOL.within(
                place_of(location), lambda: look_at(hook.checkpoint, str(location))
            )
            logger.info("%s", describe(overview))
    except Exception as failure:
        logger.warning("How the query is cannot be told: %s", redact(str(failure)))
