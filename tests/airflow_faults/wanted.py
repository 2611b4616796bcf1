"""Scenarios: what is wanted is not what runs, waits in a queue, has failed, is used by others."""

from __future__ import annotations

import psutil

from engine.checkpoint.query_state import QueryState
from scripts.local_airflow.rest import wait_for
from tests.airflow.stand_in import BEFORE_GATE
from tests.airflow_faults.case import Case, Scenario
from tests.airflow_faults.query import WAIT_S
from tests.airflow_faults.world import Run


def marked_failed_in_queue(case: Case) -> None:
    """A task waits for its submission in the triggerer: it takes that along."""
    run = _queued(case)
    run.mark("start", "failed")
    case.promise(run, "start", "failed")
    case.promise_submissions(1)
    case.settle(queries=0)


def cleared_in_queue(case: Case) -> None:
    """The next attempt waits for what the first one has submitted."""
    run = _queued(case)
    run.clear("start")
    wait_for(lambda: run.attempts("start") == 2, WAIT_S, "the second attempt")
    _goes_on(case, run)


def triggerer_killed_in_queue(case: Case) -> None:
    """The next triggerer finds the submission by its number."""
    run = _queued(case)
    case.world.processes.kill("triggerer")
    case.query.let_start()
    case.query.wait_until_running()
    case.world.processes.launch("triggerer")
    _goes_on(case, run)


def failed_with_retries_left(case: Case) -> None:
    """Each retry starts a query again that has failed."""
    run = case.run("start_deferred")
    first = case.query.wait_until_running()
    run.wait("start", "deferred")
    psutil.Process(first.pid).kill()
    second = case.query.wait_until_running(other_than=first.run_id)
    case.query.open_gate()
    case.promise(run, "start", "success")
    case.promise_attempts(run, "start", 2)
    case.promise_result(run, "start", second.run_id)
    case.promise_same_run(second.run_id)
    case.settle(queries=1)


def changed(case: Case) -> None:
    """A DAG run that wants another SQL is refused at once, and touches nothing."""
    start = case.run("start_deferred", epoch="running")
    case.promise(start, "start", "success")
    status = case.query.wait_until_running()
    run = case.run("start_changed")
    case.promise(run, "start", "failed")
    case.promise_attempts(run, "start", 1)
    case.promise_submissions(1)
    case.promise_same_run(status.run_id)
    case.settle(queries=1)


def last_one_out(case: Case) -> None:
    """Two DAG runs use one query: the first that drains it leaves it to the other."""
    last = case.run("use_and_drain")
    case.promise(last, "start", "success")
    status = case.query.wait_until_running()
    first = case.run("use_and_drain", epoch=BEFORE_GATE - 1)
    case.promise(first, "drain", "success")
    case.promise_same_run(status.run_id)
    case.query.open_gate()
    case.query.goes_on()
    case.promise(last, "drain", "success")
    case.promise_result(last, "drain", status.run_id)
    case.promise_submissions(1)
    case.settle(queries=0)
    if case.query.status().state is not QueryState.STOPPED:
        case.outcome.broken.append(f"the query was not drained: {case.query.status().state}")


def _queued(case: Case) -> Run:
    """A task that waits for its submission, which does not get the lease, without a worker."""
    case.query.hold_start()
    run = case.run("start_queued")
    case.query.wait_for_process()
    run.wait("start", "deferred")
    wait_for(lambda: run.triggerer("start"), WAIT_S, "a triggerer to take the task")
    return run


def _goes_on(case: Case, run: Run) -> None:
    case.query.let_start()
    case.query.open_gate()
    case.promise(run, "start", "success")
    case.promise_result(run, "start", case.query.status().run_id)
    case.promise_submissions(1)
    case.settle(queries=1)


SCENARIOS = (
    Scenario("marked failed while its submission waits", marked_failed_in_queue),
    Scenario("cleared while its submission waits", cleared_in_queue),
    Scenario("triggerer killed while a submission waits", triggerer_killed_in_queue),
    Scenario("query killed while its start waits, with retries left", failed_with_retries_left),
    Scenario("started with another document", changed),
    Scenario("two DAG runs use a query, and drain it in turn", last_one_out),
)
