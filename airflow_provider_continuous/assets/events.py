"""What asset events of queries tell, at both ends: those who emit them and those who follow."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset

from airflow_provider_continuous.tasks.memory import TaskMemory

if TYPE_CHECKING:
    from airflow.sdk import Context


def committed_epochs(context: Context, asset: Asset) -> list[dict[str, Any]]:
    """Return what the epoch events that triggered this DAG run tell, oldest first, each once.

    An event that Airflow has stored twice, because its triggerer died in between, is given to one
    DAG run only; retries of the task get the same answer. The asset must be an inlet of the task,
    and the DAG must run one after the other: ``max_active_runs=1``.

    :param asset: the asset of the query.
    :returns: the payloads of :class:`EpochEventTrigger`.
    """
    memory = TaskMemory(context)
    fresh: list[dict[str, Any]] | None = memory.recall("committed_epochs")
    store: Any = context["asset_state_store"][asset]
    task = f"{context['ti'].dag_id} {context['ti'].task_id} {context['ti'].map_index}"
    key = f"followed_{hashlib.sha256(task.encode()).hexdigest()[:16]}"
    if fresh is None:
        seen = set(store.get(key) or [])
        events = context["triggering_asset_events"][asset]
        told = [_payload(event.extra) for event in events]
        unique = {payload["id"]: payload for payload in told if payload is not None}
        fresh = [payload for name, payload in unique.items() if name not in seen]
        fresh.sort(key=lambda payload: int(payload["epoch"]))
        memory.remember("committed_epochs", fresh)
    # Noted last, and again by a retry: the answer itself is safe by now.
    if fresh:
        known = [name for name in store.get(key) or [] if name not in {e["id"] for e in fresh}]
        store.set(key, [*known, *(payload["id"] for payload in fresh)][-_SEEN_MAX:])
    return fresh


_SEEN_MAX = 200
"""A repeated event comes within seconds of its first: so many ids are more than enough."""


def _payload(extra: Mapping[str, Any]) -> dict[str, Any] | None:
    payload = extra.get("payload")
    return payload if isinstance(payload, dict) and "first_epoch" in payload else None


def emit(context: Context, **extra: Any) -> None:
    """Give the events of a task's asset outlets an extra.

    Airflow emits an event for each outlet when the task succeeds; this adds what it tells, such as
    ``epoch``, ``offsets`` and ``run_id``. The operators and sensors of this provider do so.

    :param extra: JSON values.
    """
    for outlet in context["ti"].task.outlets:
        if isinstance(outlet, Asset):
            context["outlet_events"][outlet].extra.update(extra)
