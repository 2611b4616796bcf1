"""What the operators tell of their task, and to whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_continuous.assets.events import emit
from airflow_provider_continuous.hooks.checkpoint import CheckpointHook
from airflow_provider_continuous.tasks.users import Users
from airflow_provider_continuous.triggers.poller import Event

if TYPE_CHECKING:
    from airflow.sdk import Context


def result(context: Context, location: str, event: Event) -> dict[str, Any]:
    """Return where a query is, as the operators return it; their asset events tell the same."""
    found = {
        "query_id": event["query_id"],
        "run_id": event["run_id"],
        "checkpoint_location": location,
        "epoch": event["epoch"],
    }
    emit(context, **found)
    return found


def users(context: Context, location: str, storage_conn_id: str | None) -> Users:
    """Return who uses a query, as the DAG run of this task sees it."""
    storage = CheckpointHook(location, storage_conn_id).checkpoint.storage
    return Users(storage, context["ti"].dag_id, context["ti"].run_id)


def this_task(context: Context) -> str:
    """Name this task among those of its DAG run."""
    mapped = context["ti"].map_index
    return context["ti"].task_id + ("" if mapped is None or mapped < 0 else f"[{mapped}]")


def asker(context: Context) -> str:
    """Name this task, for the log of a query that it asks to end."""
    return f"Airflow task {context['ti'].dag_id}.{context['ti'].task_id}, {context['run_id']}"
