"""Queries kept running, restarted and changed by a real Airflow: one query, whatever happens.

The queries are real processes, but ``stand_in.py`` instead of Spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.query_state import QueryState
from scripts.local_airflow.rest import AirflowClient, wait_for
from tests.airflow.live.dag_run import RUN_S, DagRun

pytestmark = pytest.mark.airflow


@pytest.fixture
def numbers(tmp_path: Path) -> Iterator[Checkpoint]:
    """The checkpoint of a query that a DAG will start; nothing of it is left running."""
    checkpoint = Checkpoint(str(tmp_path / "numbers"))
    yield checkpoint
    for process in processes_of(checkpoint):
        with suppress(psutil.NoSuchProcess):  # it may end at any moment
            process.kill()


def processes_of(checkpoint: Checkpoint) -> list[psutil.Process]:
    """The processes that run this query, or are about to."""
    specification = f"{checkpoint.url}.logs/".removeprefix("file://")
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        command = process.info["cmdline"] or []
        is_query = any(part.startswith(specification) for part in command)
        if is_query and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process)
    return found


def one_runs(checkpoint: Checkpoint) -> None:
    """One process: that of an earlier run may be on its way out."""
    wait_for(lambda: len(processes_of(checkpoint)) == 1, RUN_S, "one process")


def is_running(checkpoint: Checkpoint, not_run: str | None = None) -> bool:
    status = checkpoint.status()
    return status.state is QueryState.RUNNING and status.run_id != not_run and status.epoch >= 0


def test_a_supervised_query_that_is_killed_cleared_and_ended(
    airflow: AirflowClient, numbers: Checkpoint
) -> None:
    run = DagRun(airflow, "run", checkpoint=numbers.url)
    run.wait_for_task("run", "deferred")
    wait_for(lambda: is_running(numbers), RUN_S, "the query to run")
    first = numbers.status().run_id
    (process,) = processes_of(numbers)
    attempt = run.task("run")["try_number"]

    process.kill()

    wait_for(lambda: is_running(numbers, not_run=first), RUN_S, "the query to run again")
    run.wait_for_task("run", "deferred")
    second = numbers.status().run_id
    one_runs(numbers)
    assert run.task("run")["try_number"] == attempt, "no retry was spent"

    airflow.clear(run.dag_id, run.run_id, "run")

    wait_for(lambda: run.task("run")["try_number"] > attempt, RUN_S, "the next attempt")
    run.wait_for_task("run", "deferred")
    one_runs(numbers)
    assert numbers.status().run_id == second
    assert numbers.requests.pending(str(second)) is None, "a cleared task adopts its query"
    run.wait_for_trigger("run")  # before, nobody is told of the task's end

    airflow.set_task_state(run.dag_id, run.run_id, "run", "failed")

    wait_for(lambda: processes_of(numbers) == [], RUN_S, "the query to end")
    status = numbers.status()
    assert (status.run_id, status.state) == (second, QueryState.STOPPED), "it was drained"


def test_a_query_that_has_come_far_enough(airflow: AirflowClient, numbers: Checkpoint) -> None:
    run = DagRun(airflow, "run_until_epoch", checkpoint=numbers.url, epoch=2).succeeds()

    result = run.result("run")
    assert (result["reason"], result["state"]) == ("epoch", "STOPPED")
    assert result["epoch"] >= 2
    wait_for(lambda: processes_of(numbers) == [], RUN_S, "the query's process to end")


def test_a_query_is_upgraded_refused_and_rewound(
    airflow: AirflowClient, numbers: Checkpoint
) -> None:
    """Each of the three tasks finds the query of the one before."""
    DagRun(airflow, "start_stand_in", checkpoint=numbers.url, epoch="2").succeeds()
    old = numbers.status().run_id

    upgraded = DagRun(airflow, "upgrade", checkpoint=numbers.url).succeeds().result("upgrade")

    new = numbers.status().run_id
    assert (upgraded["upgraded"], upgraded["run_id"]) == (True, new)
    assert new != old

    log = DagRun(airflow, "upgrade_that_is_refused", checkpoint=numbers.url).fails()

    assert "This is not the query that" in log
    assert "Rolled back" in log
    wait_for(lambda: is_running(numbers, not_run=new), RUN_S, "the old version")
    one_runs(numbers)
    generation = numbers.status().generation

    restarted = DagRun(airflow, "restart", checkpoint=numbers.url, epoch="1").succeeds()

    status = numbers.status()
    assert restarted.result("restart")["run_id"] == status.run_id
    assert generation is not None
    assert numbers.storage.exists(f"rewound/{generation + 1}/commits/2")
    one_runs(numbers)
