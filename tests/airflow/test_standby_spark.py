"""A task that keeps a standby, with the engine itself on Spark: its driver is killed, and what the
query writes has each number once."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from airflow_provider_continuous.compat import TaskDeferred
from airflow_provider_continuous.hooks.checkpoint import CheckpointHook
from airflow_provider_continuous.operators.query import RunContinuousQueryOperator, base
from airflow_provider_continuous.tasks import killing
from airflow_provider_continuous.tasks.killing import QueryOfTask, TaskIdentity
from airflow_provider_continuous.triggers.supervise import QuerySupervisionTrigger
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.query_state import QueryState
from engine.checkpoint.standing_by import standing_by
from tests.airflow.spark_cluster import runs
from tests.faults.l4_processes import bury
from tests.sink_files import committed
from tests.waiting import wait_until

DEADLINE_S = 600.0


@pytest.fixture
def spec(tmp_path: Path) -> dict[str, Any]:
    return {
        "source": {"format": "rate", "options": {"rowsPerSecond": 200, "numPartitions": 1}},
        "sink": {"format": "parquet", "options": {"path": str(tmp_path / "out")}},
        "trigger": {"continuous": "200 milliseconds"},
        "checkpoint_location": str(tmp_path / "checkpoint"),
        "conf": {"spark.master": "local[1]", "spark.driver.memory": "512m"},
    }


def processes(folder: Path) -> list[psutil.Process]:
    """Those of the query, with all that they have started."""
    marker = f"{folder}/checkpoint.logs/"
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if any(part.startswith(marker) for part in process.info["cmdline"] or []):
            with suppress(psutil.NoSuchProcess):  # it may end at any moment
                found += [process, *process.children(recursive=True)]
    return [each for each in found if runs(each)]


@pytest.fixture(autouse=True)
def none_is_left(tmp_path: Path) -> Iterator[None]:
    yield
    for process in processes(tmp_path):
        with suppress(psutil.NoSuchProcess):
            process.kill()


def task(spec: dict[str, Any]) -> RunContinuousQueryOperator:
    return RunContinuousQueryOperator(
        task_id="run", spec=spec, standby=True, deferrable=True, poll_interval=0.1, timeout=600
    )


def has_come(checkpoint: Checkpoint, epoch: int) -> None:
    wait_until(lambda: checkpoint.committed_epoch() >= epoch, f"epoch {epoch}", DEADLINE_S)


def waits(found: pytest.ExceptionInfo[TaskDeferred]) -> QuerySupervisionTrigger:
    assert isinstance(found.value.trigger, QuerySupervisionTrigger)
    return found.value.trigger


def test_nothing_is_lost_or_repeated(
    tmp_path: Path, spec: dict[str, Any], context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "START_LINGER_S", 600.0)
    monkeypatch.setattr(killing, "task_state", lambda _: "failed")
    monkeypatch.setattr(killing.Users, "others", lambda _: [])
    checkpoint = Checkpoint(spec["checkpoint_location"])

    def standby() -> int | None:
        return next((each.pid for each in standing_by(checkpoint.storage)), None)

    with pytest.raises(TaskDeferred) as deferred:
        task(spec).execute(context)
    trigger = waits(deferred)
    successor = wait_until(standby, "a standby", DEADLINE_S)
    has_come(checkpoint, 2)
    driver = psutil.Process(checkpoint.status().pid)
    left = driver.children(recursive=True)
    before, began_s = checkpoint.committed_epoch(), time.monotonic()
    driver.kill()
    # What the dead one has prepared is committed first: an epoch more has new records.
    has_come(checkpoint, before + 2)
    print(f"new records after {time.monotonic() - began_s:.2f} s")
    event = trigger.wait()
    assert (event["outcome"], checkpoint.status().pid) == ("replaced", successor)
    bury(left)
    with pytest.raises(TaskDeferred) as deferred:
        task(spec).supervised(context, event)
    trigger = waits(deferred)
    wait_until(standby, "the next standby", DEADLINE_S)

    identity, hook = TaskIdentity.of(context["ti"]), CheckpointHook(checkpoint.url)
    assert QueryOfTask("drain", hook, str(trigger.run_id), identity, trigger.log).end()

    wait_until(lambda: not processes(tmp_path), "the end of both", DEADLINE_S)
    assert checkpoint.status().state is QueryState.STOPPED
    assert standing_by(checkpoint.storage) == []
    found = Counter(committed(tmp_path / "out", "value"))
    assert found
    assert found == Counter(range(max(found) + 1))
