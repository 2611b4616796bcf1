"""What a task remembers from one attempt, or reschedule, to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk.execution_time.context import NEVER_EXPIRE

if TYPE_CHECKING:
    from airflow.sdk import Context


class TaskMemory:
    """Values that outlive reschedules and retries of a task, but not its clearing.

    Airflow's task state store outlives clearing too, while somebody who clears a task wants it
    done anew; so the keys carry ``max_tries``, which stays through the retries and grows when
    the task is cleared.

    Values never expire: a query may well run longer than the store's default of 30 days.
    """

    def __init__(self, context: Context) -> None:
        self._store = context["task_state_store"]
        self._suffix = f"_{context['ti'].max_tries}"

    def recall(self, name: str) -> Any:
        """Return what was remembered, or None."""
        return self._store.get(name + self._suffix)

    def remember(self, name: str, value: Any) -> None:
        """Remember a JSON value, not None."""
        self._store.set(name + self._suffix, value, retention=NEVER_EXPIRE)
