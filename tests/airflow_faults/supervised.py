"""Scenarios: a task stays with its query in the triggerer, and restarts it or ends it."""

from __future__ import annotations

import psutil

from engine.checkpoint.checkpoint import CheckpointStatus
from scripts.local_airflow.rest import wait_for
from tests.airflow_faults.case import Case, Scenario
from tests.airflow_faults.query import WAIT_S, started_by
from tests.airflow_faults.triggerers import triggerer_away
from tests.airflow_faults.world import Run


def killed(case: Case) -> None:
    """The task starts the query again, and goes on."""
    run, first = _supervised(case)
    attempts = run.attempts("run")
    psutil.Process(first.pid).kill()
    second = case.query.wait_until_running(other_than=first.run_id)
    case.promise(run, "run", "deferred")
    case.promise_attempts(run, "run", attempts)
    case.promise_same_run(second.run_id)
    case.settle(queries=1)


def killed_with_its_spark(case: Case) -> None:
    """A real Spark: the Python process of the query is killed, and its JVM must not stay."""
    run, first = _supervised(case, "supervise_spark")
    psutil.Process(first.pid).kill()
    second = case.query.wait_until_running(other_than=first.run_id)
    case.promise(run, "run", "deferred")
    case.promise_same_run(second.run_id)
    case.settle(queries=1)


def marked_failed(case: Case) -> None:
    """Somebody wants the task to end: the query is drained."""
    run, _ = _supervised(case)
    _mark_failed(case, run)


def marked_failed_while_running(case: Case) -> None:
    """The same, of a task that stays in its worker."""
    run = case.run("supervise_attended")
    case.query.wait_until_running()
    run.wait("run", "running")
    _mark_failed(case, run)


def _mark_failed(case: Case, run: Run) -> None:
    run.mark("run", "failed")
    case.promise(run, "run", "failed")
    case.settle(queries=0)
    if case.query.status().state.value != "STOPPED":
        case.outcome.broken.append(f"the query was not drained: {case.query.status().state}")


def cleared(case: Case) -> None:
    """The next attempt adopts the query."""
    run, first = _supervised(case)
    run.clear("run")
    wait_for(lambda: run.attempts("run") == 2, WAIT_S, "the second attempt")
    case.promise(run, "run", "deferred")
    case.promise_same_run(first.run_id)
    case.settle(queries=1)


def triggerer_killed(case: Case) -> None:
    """The next triggerer stays with the query."""
    run, first = _supervised(case)
    case.world.processes.kill("triggerer")
    psutil.Process(first.pid).kill()
    case.world.processes.launch("triggerer")
    second = case.query.wait_until_running(other_than=first.run_id)
    case.promise(run, "run", "deferred")
    case.promise_same_run(second.run_id)
    case.settle(queries=1)


def worker_killed(case: Case) -> None:
    """While it restarts the query: the retry adopts the one that was started, or starts one."""
    run, first = _supervised(case)
    psutil.Process(first.pid).kill()
    started_by(case.query.wait_for_process(other_than=first.pid)).kill()
    second = case.query.wait_until_running(other_than=first.run_id)
    wait_for(lambda: run.attempts("run") == 2, WAIT_S, "the second attempt")
    case.promise(run, "run", "deferred")
    case.promise_same_run(second.run_id)
    case.settle(queries=1)


def suspended(case: Case) -> None:
    """The triggerer, beyond its heartbeat, with a second one: when it goes on, Airflow tells the
    task's trigger to end the query, which must not believe it."""
    run, first = _supervised(case)
    with triggerer_away(case, run, "run"):
        case.promise(run, "run", "deferred")
        case.promise_same_run(first.run_id)
        case.settle(queries=1)
        run.mark("run", "failed")
        case.promise(run, "run", "failed")
        case.settle(queries=0)


def standby_takes_over(case: Case) -> None:
    """The driver is killed: its standby takes over and another one comes; twice. Then somebody ends
    the task, and both end with it."""
    run, status = _supervised(case, "supervise_with_standby")
    attempts = run.attempts("run")
    for _ in range(2):
        standby = case.query.wait_for_standby()
        psutil.Process(status.pid).kill()
        first, status = status, case.query.wait_until_running(other_than=status.run_id)
        if status.pid != standby:
            case.outcome.broken.append(f"not the standby took over from {first.run_id}")
        case.query.wait_for_standby()
        case.promise(run, "run", "deferred")
        case.promise_attempts(run, "run", attempts)
        case.promise_same_run(status.run_id)
    case.settle(queries=1, standbys=1)
    _await_triggerer(run)  # with its new standby the task has deferred anew
    _mark_failed(case, run)


def both_killed_and_cleared(case: Case) -> None:
    """The task restarts the query, with a standby; its next attempt doubles neither."""
    run, first = _supervised(case, "supervise_with_standby")
    psutil.Process(case.query.wait_for_standby()).kill()
    psutil.Process(first.pid).kill()
    second = case.query.wait_until_running(other_than=first.run_id)
    case.query.wait_for_standby()
    case.promise(run, "run", "deferred")
    case.promise_same_run(second.run_id)
    run.clear("run")
    wait_for(lambda: run.attempts("run") == 2, WAIT_S, "the second attempt")
    case.promise(run, "run", "deferred")
    case.promise_same_run(second.run_id)
    case.settle(queries=1, standbys=1)


def _supervised(case: Case, dag_id: str = "supervise") -> tuple[Run, CheckpointStatus]:
    run = case.run(dag_id)
    status = case.query.wait_until_running()
    run.wait("run", "deferred")
    _await_triggerer(run)
    return run, status


def _await_triggerer(run: Run) -> None:
    """Only a triggerer that has seen the trigger can restart the query, or end it."""
    wait_for(lambda: run.triggerer("run"), WAIT_S, "a triggerer to take the task")


SCENARIOS = (
    Scenario("query killed while supervised", killed),
    Scenario("query and triggerer killed while supervised", triggerer_killed),
    Scenario("worker killed while it restarts the query", worker_killed),
    Scenario("supervised: cleared while deferred", cleared),
    Scenario("supervised: marked failed while deferred", marked_failed),
    Scenario("supervised: marked failed while running", marked_failed_while_running),
    Scenario(
        "supervised: triggerer suspended, a second one, then marked failed",
        suspended,
        two_triggerers=True,
    ),
    Scenario("query killed, its standby takes over, then marked failed", standby_takes_over),
    Scenario("query and standby killed, and the task cleared", both_killed_and_cleared),
    Scenario("query of a real Spark killed while supervised", killed_with_its_spark),
)
