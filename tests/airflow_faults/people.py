"""Scenarios: somebody clears a task, marks it as failed, pauses the DAG."""

from __future__ import annotations

import psutil

from scripts.local_airflow.rest import wait_for
from tests.airflow_faults.case import Case, Scenario
from tests.airflow_faults.query import WAIT_S, started_by


def cleared_while_deferred(case: Case) -> None:
    _cleared(case, "start_deferred", "deferred")


def cleared_while_running(case: Case) -> None:
    _cleared(case, "start_attended", "running")


def _cleared(case: Case, dag_id: str, state: str) -> None:
    """The next attempt adopts the query."""
    run = case.run(dag_id)
    status = case.query.wait_until_running()
    run.wait("start", state)
    run.clear("start")
    wait_for(lambda: run.attempts("start") == 2, WAIT_S, "the second attempt")
    case.query.open_gate()
    case.promise(run, "start", "success")
    case.promise_result(run, "start", status.run_id)
    case.promise_same_run(status.run_id)
    case.settle(queries=1)


def failed_while_deferred(case: Case) -> None:
    _marked_failed(case, "start_deferred", "deferred")


def failed_while_running(case: Case) -> None:
    _marked_failed(case, "start_attended", "running")


def _marked_failed(case: Case, dag_id: str, state: str) -> None:
    """The query goes on: it is no child of the task that has started it."""
    run = case.run(dag_id)
    status = case.query.wait_until_running()
    run.wait("start", state)
    worker = started_by(psutil.Process(status.pid)) if state == "running" else None
    run.mark("start", "failed")
    if worker is not None:
        wait_for(lambda: not worker.is_running(), WAIT_S, "the task's process to end")
    case.promise(run, "start", "failed")
    case.promise_same_run(status.run_id)
    case.settle(queries=1)


def paused_while_deferred(case: Case) -> None:
    """The query goes on; the task waits until the DAG does, too."""
    run = case.run("start_deferred")
    status = case.query.wait_until_running()
    run.wait("start", "deferred")
    attempts = run.attempts("start")
    case.world.airflow.pause(run.dag_id)
    case.query.open_gate()
    run.wait("start", "scheduled")
    case.query.goes_on()
    case.world.airflow.pause(run.dag_id, paused=False)
    case.promise(run, "start", "success")
    case.promise_attempts(run, "start", attempts)
    case.promise_same_run(status.run_id)
    case.settle(queries=1)


SCENARIOS = (
    Scenario("cleared while deferred", cleared_while_deferred),
    Scenario("cleared while running", cleared_while_running),
    Scenario("marked failed while deferred", failed_while_deferred),
    Scenario("marked failed while running", failed_while_running),
    Scenario("DAG paused while a task is deferred", paused_while_deferred),
)
