"""Wait a little in the worker, then go on waiting in the triggerer."""

from __future__ import annotations

import os
import time
from functools import cache

from airflow.sdk import BaseOperator

from airflow_provider_continuous.compat import conf
from airflow_provider_continuous.tasks.arguments import flag
from airflow_provider_continuous.triggers.base import CheckpointTrigger
from airflow_provider_continuous.triggers.poller import Event

LINGER_S = 5.0
"""For so long a task waits in its worker: deferring and resuming takes longer than that."""


MARGIN_S = 4.0
"""For so long a busy scheduler may leave a worker's exit lying, besides."""
_DEFAULT_DEFERRABLE = "AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE"


@cache
def by_default() -> bool:
    """Whether tasks defer that do not say it: as ``[operators] default_deferrable`` says in the
    environment, and if it is not there, yes: these waits are long.

    ``False`` in ``airflow.cfg`` says nothing: Airflow writes that there by itself. Where an option
    comes from is not asked of Airflow: it would run the commands of all secret ones, and a worker
    may have no right to what they read.
    """
    unsaid = _DEFAULT_DEFERRABLE not in os.environ
    return unsaid or conf.getboolean("operators", "default_deferrable")


def defers(name: str, deferrable: bool | None) -> bool:
    """Return what a DAG says of ``deferrable``, or the default; for the constructors of operators.

    :param name: with the task's id, for the error.
    :raises ValueError: it is neither True, False nor None.
    """
    return by_default() if deferrable is None else flag(name, deferrable)


def wait_or_defer(
    task: BaseOperator, trigger: CheckpointTrigger, method: str = "execute_complete"
) -> Event:
    """Return the event if it comes soon; else defer the task, to this method of it.

    A task must not be resumed at once: the worker's exit, which Airflow notices up to
    ``min_heartbeat_interval`` seconds late, would then count as the end of the resumed task, and
    the scheduler would fail it (apache/airflow#72716, open in Airflow 3.3).
    """
    event = trigger.wait_for(LINGER_S)
    if event is None:
        notices_exit_s = conf.getint("workers", "min_heartbeat_interval")
        trigger.not_before = time.time() + notices_exit_s + MARGIN_S
        task.defer(trigger=trigger, method_name=method)
    return event
