"""What a task remembers from one attempt, or reschedule, to the next."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_continuous.compat import AIRFLOW_VERSION, NEVER_EXPIRE, task_state_store
from airflow_provider_continuous.tasks.killing import TaskIdentity
from engine.errors import ConfigError

if TYPE_CHECKING:
    from airflow.sdk import Context

log = logging.getLogger(__name__)
_Attempt = tuple[TaskIdentity, int]
_OF_ATTEMPTS: dict[_Attempt, dict[str, Any]] = {}
"""What the attempts of this process remember where Airflow has no store: one, but for ``dag.test``,
which runs a whole DAG in it."""
_LIVES: dict[tuple[Any, ...], str] = {}
"""What :func:`_life` has found for the attempts of this process."""
CARRIED: Final = "carried"
"""The key of an event that has what was carried through a wait in the triggerer."""


class TaskMemory:
    """Values that outlive reschedules and retries of a task, but not its clearing.

    Airflow's task state store outlives clearing too, while somebody who clears a task wants it
    done anew; so the keys carry ``max_tries``, which stays through the retries and grows when
    the task is cleared; see :func:`_life` for where it does not. A task that is cleared while a
    worker runs it is an exception: Airflow lets it go on as a retry, and so it remembers.

    Values never expire: a query may well run longer than the store's default of 30 days.

    Airflow before 3.3 has no such store: there, an attempt recalls what it has remembered itself,
    also behind its waits in the triggerer, whose triggers carry it; the next one begins anew. Who
    runs a query is decided by the lease in its checkpoint, so that costs convenience, and never a
    second query; what cannot do without says so before it begins.
    """

    def __init__(self, context: Context) -> None:
        self._store = task_state_store(context)
        self._context = context
        self._of_attempt: dict[str, Any] = {}
        if self._store is None:
            attempt = TaskIdentity.of(context["ti"]), int(context["ti"].try_number)
            self._of_attempt = _OF_ATTEMPTS.setdefault(attempt, {})
        self._reschedules = getattr(context.get("task"), "mode", None) == "reschedule"

    @cached_property
    def _suffix(self) -> str:
        return _life(self._store, self._context)

    def recall(self, name: str) -> Any:
        """Return what was remembered, or None."""
        if self._store is None:
            return self._of_attempt.get(name)
        return self._store.get(name + self._suffix)

    def remember(self, name: str, value: Any) -> None:
        """Remember a JSON value, not None.

        :raises ConfigError: the task reschedules, and Airflow is too old to remember it till then.
        """
        if self._store is None:
            if self._reschedules:
                self.must_last("mode='reschedule' with a point where the wait began")
            if name not in self._of_attempt:
                log.info("Airflow %s forgets %r when this attempt ends", AIRFLOW_VERSION, name)
            self._of_attempt[name] = value
            return
        self._store.set(name + self._suffix, value, retention=NEVER_EXPIRE)

    def to_carry(self) -> dict[str, Any]:
        """Return what a trigger has to carry: another process goes on behind its wait."""
        return dict(self._of_attempt)

    def take_over(self, event: Mapping[str, Any]) -> None:
        """Recall what a trigger has carried, if it did."""
        self._of_attempt.update(event.get(CARRIED) or {})

    def must_last(self, what: str) -> None:
        """Refuse what would be wrong if it were forgotten.

        :param what: needs the memory, for the error.
        :raises ConfigError: Airflow is too old.
        """
        if self._store is None:
            raise ConfigError(
                f"{what} needs the task state store that came with Airflow 3.3; this is Airflow "
                f"{AIRFLOW_VERSION}.",
                hint="Upgrade Airflow; README says what works without.",
            )


def _life(store: Any, context: Context) -> str:
    """Return what names the life of a task from one clear to the next.

    Airflow's clear sets ``max_tries`` to the tries so far and the task's retries of now: with fewer
    retries than before, that may be what it was. So retries are noted, and how often tasks of the
    DAG run were cleared: only where both have changed since the last look is it another life.
    Either alone tells nothing: a DAG is edited while its tasks live, and others are cleared.
    """
    ti: Any = context["ti"]
    name = f"_{ti.max_tries}"
    retries = getattr(getattr(ti, "task", None), "retries", None)
    clears = getattr(context.get("dag_run"), "clear_number", None)
    if retries is None or clears is None:
        return name
    now = {"retries": int(retries), "clears": int(clears)}
    attempt = TaskIdentity.of(ti), int(ti.try_number), name, *now.values()
    if attempt not in _LIVES:
        noted = store.get(f"life{name}")
        last = noted or {**now, "number": 0}
        is_another = all(now[what] != last[what] for what in now)
        found = {**now, "number": last["number"] + is_another}
        if found != noted:
            store.set(f"life{name}", found, retention=NEVER_EXPIRE)
        _LIVES[attempt] = f"{name}_{found['number']}" if found["number"] else name
    return _LIVES[attempt]


def forget_process() -> None:
    """Be as a new process: for tests, in which an attempt is over and another one begins."""
    _OF_ATTEMPTS.clear()
    _LIVES.clear()
