"""A query that is lost while its standby still starts, and that nobody wants any more. The
processes are real; what runs in them is ``stand_in.py`` instead of Spark."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_continuous.deploy.submitted import SubmittedQuery
from airflow_provider_continuous.hooks.checkpoint import CheckpointHook
from airflow_provider_continuous.hooks.query import ContinuousQueryHook
from airflow_provider_continuous.operators.query import (
    DrainContinuousQueryOperator,
    StopContinuousQueryOperator,
)
from airflow_provider_continuous.tasks import killing
from airflow_provider_continuous.tasks.killing import QueryOfTask, TaskIdentity
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.query_state import QueryState
from engine.checkpoint.standing_by import standing_by


@dataclass
class Lost:
    """:ivar gate: lets the standby wait, and take over."""

    checkpoint: Checkpoint
    run_id: str
    standby: SubmittedQuery
    gate: Path

    def nobody_takes_over(self) -> None:
        self.gate.touch()
        assert self.standby.process.wait(120) == 0
        status = self.checkpoint.status()
        assert (status.run_id, status.state) == (self.run_id, QueryState.LOST)


@pytest.fixture
def lost(stand_in: None, spec: dict[str, Any], context: Any, tmp_path: Path) -> Lost:
    gate = tmp_path / "gate"
    gate.touch()
    spec["conf"] = {"lease_gate": str(gate)}
    hook, by = ContinuousQueryHook(), str(TaskIdentity.of(context["ti"]))
    document = hook.specification(spec)
    driver = hook.submit(document, by)
    run_id = str(hook.wait_until_started(driver, 120).run_id)
    gate.unlink()
    standby = hook.stand_by(document, by)
    assert standby is not None
    driver.process.kill()
    driver.process.wait()
    checkpoint = Checkpoint(spec["checkpoint_location"])
    assert checkpoint.status().state is QueryState.LOST
    assert standing_by(checkpoint.storage) == []
    return Lost(checkpoint, run_id, standby, gate)


@pytest.mark.parametrize("end", [DrainContinuousQueryOperator, StopContinuousQueryOperator])
def test_who_ends_the_query_ends_it_too(lost: Lost, context: Any, end: Any) -> None:
    task = end(task_id="end", checkpoint_location=lost.checkpoint.url, deferrable=False)
    if end is DrainContinuousQueryOperator:
        with pytest.raises(Exception, match="was not drained: it is LOST"):
            task.execute(context)
    else:
        assert task.execute(context)["state"] == "LOST"

    lost.nobody_takes_over()


def test_a_killed_task_ends_it_too(
    lost: Lost, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(killing, "task_state", lambda _: "failed")
    monkeypatch.setattr(killing.Users, "others", lambda _: [])
    hook, task = CheckpointHook(lost.checkpoint.url), TaskIdentity.of(context["ti"])

    assert QueryOfTask("drain", hook, lost.run_id, task, logging.getLogger("test")).end()

    lost.nobody_takes_over()
