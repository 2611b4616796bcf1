"""Tasks that supervise a query, and what they wait with."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_continuous.compat import TaskDeferred
from airflow_provider_continuous.operators.query import RunContinuousQueryOperator
from airflow_provider_continuous.triggers.supervise import QuerySupervisionTrigger


def supervisor(spec: dict[str, Any], /, **arguments: Any) -> RunContinuousQueryOperator:
    """A task that looks often, and waits for nothing that a test does not wait for."""
    given = {
        "task_id": "run",
        "spec": spec,
        "poll_interval": 0.05,
        "timeout": 120,
        "restart_delay": 0.0,
        "takeover_grace": 0.0,
    }
    return RunContinuousQueryOperator(**{**given, **arguments})


def deferred(task: RunContinuousQueryOperator, context: Any) -> QuerySupervisionTrigger:
    """What it waits with when it has begun."""
    with pytest.raises(TaskDeferred) as caught:
        task.execute(context)
    return trigger_of(caught.value)


def trigger_of(found: TaskDeferred) -> QuerySupervisionTrigger:
    """What a supervising task waits with."""
    assert found.method_name == "supervised"
    assert isinstance(found.trigger, QuerySupervisionTrigger)
    return found.trigger
