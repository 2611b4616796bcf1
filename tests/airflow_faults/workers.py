"""Scenarios: the worker, the scheduler and the query itself are killed."""

from __future__ import annotations

import psutil

from scripts.local_airflow.rest import wait_for
from tests.airflow_faults.case import Case, Scenario
from tests.airflow_faults.query import WAIT_S, started_by


def worker_killed_after_submit(case: Case) -> None:
    """Before the query has its lease: the retry finds it by its checkpoint, and waits for it."""
    case.query.hold_start()
    run = case.run("start_attended")
    first = case.query.wait_for_process()
    started_by(first).kill()
    wait_for(lambda: run.attempts("start") == 2, WAIT_S, "the second attempt")
    run.wait("start", "running")
    case.query.let_start()
    case.query.open_gate()
    case.promise(run, "start", "success")
    case.promise_result(run, "start", case.query.status().run_id)
    case.promise_submissions(1)
    case.settle(queries=1)


def worker_killed_before_xcom(case: Case) -> None:
    """The query runs, its task waits for an epoch, and has returned nothing yet."""
    run = case.run("start_attended")
    status = case.query.wait_until_running()
    worker = started_by(psutil.Process(status.pid))
    worker.kill()
    wait_for(lambda: run.attempts("start") == 2, WAIT_S, "the second attempt")
    case.query.open_gate()
    case.promise(run, "start", "success")
    case.promise_result(run, "start", status.run_id)
    case.promise_same_run(status.run_id)
    case.settle(queries=1)


def two_runs_at_once(case: Case) -> None:
    """Two DAG runs start the same query: the slower one waits for what the faster has submitted."""
    case.query.hold_start()
    runs = [case.run("start_deferred") for _ in range(2)]
    case.query.wait_for_process()
    for run in runs:
        run.wait("start", "running")
    case.query.let_start()
    case.query.wait_until_running()
    case.query.open_gate()
    for run in runs:
        case.promise(run, "start", "success")
        case.promise_result(run, "start", case.query.status().run_id)
    case.promise_submissions(1)
    case.settle(queries=1)


def query_killed_while_awaited(case: Case) -> None:
    """Its task waits for an epoch that nobody will commit, and has no retry: it fails."""
    run = case.run("start_once")
    status = case.query.wait_until_running()
    run.wait("start", "deferred")
    psutil.Process(status.pid).kill()
    case.promise(run, "start", "failed")
    case.promise_submissions(1)
    case.settle(queries=0)


def scheduler_restarted(case: Case) -> None:
    """Politely, while a task is deferred: it goes on when the new scheduler has come up."""
    run = case.run("start_deferred")
    status = case.query.wait_until_running()
    run.wait("start", "deferred")
    attempts = run.attempts("start")
    case.world.processes.end("scheduler")
    case.query.open_gate()
    case.world.processes.launch("scheduler")
    case.promise(run, "start", "success")
    case.promise_attempts(run, "start", attempts)
    case.promise_same_run(status.run_id)
    case.settle(queries=1)


def scheduler_killed(case: Case) -> None:
    """With all its workers, one of which runs a task: another attempt adopts the query."""
    run = case.run("start_attended")
    status = case.query.wait_until_running()
    case.world.processes.kill("scheduler")
    case.query.open_gate()
    case.world.processes.launch("scheduler")
    case.promise(run, "start", "success")
    case.promise_result(run, "start", status.run_id)
    case.promise_same_run(status.run_id)
    case.settle(queries=1)


SCENARIOS = (
    Scenario("worker killed between submit and lease", worker_killed_after_submit),
    Scenario("worker killed between submit and XCom", worker_killed_before_xcom),
    Scenario("two DAG runs start the same query at once", two_runs_at_once, short=True),
    Scenario("query killed while its start waits", query_killed_while_awaited),
    Scenario("scheduler restarted while a task is deferred", scheduler_restarted),
    Scenario("scheduler and its workers killed", scheduler_killed),
)
