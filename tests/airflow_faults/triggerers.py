"""Scenarios: triggerers are killed, and suspended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow_provider_continuous.deploy.driver_log import tail
from scripts.local_airflow.rest import wait_for
from tests.airflow_faults.case import Case, Scenario
from tests.airflow_faults.query import WAIT_S
from tests.airflow_faults.world import HEARTBEAT_S, Run


def triggerer_killed(case: Case) -> None:
    """With many deferred tasks: the next triggerer takes all of them over."""
    start = case.run("start_deferred", epoch="running")
    case.promise(start, "start", "success")
    status = case.query.wait_until_running()
    run, count = case.run("many_wait"), case.world.sensors
    run.wait("wait", "deferred", count)
    attempts = run.attempts("wait")
    case.world.processes.kill("triggerer")
    case.query.open_gate()
    case.world.processes.launch("triggerer")
    case.promise(run, "wait", "success", count)
    case.promise_attempts(run, "wait", attempts)
    case.promise_same_run(status.run_id)
    case.settle(queries=1)


def triggerer_suspended(case: Case) -> None:
    """Beyond its heartbeat, with a second one: that one takes the deferred task over."""
    run = case.run("start_deferred")
    status = case.query.wait_until_running()
    run.wait("start", "deferred")
    attempts = run.attempts("start")
    with triggerer_away(case, run, "start"):
        case.promise(run, "start", "deferred")
        case.promise_same_run(status.run_id)
        case.query.open_gate()
        case.promise(run, "start", "success")
        case.promise_attempts(run, "start", attempts)
        case.settle(queries=1)


@contextmanager
def triggerer_away(case: Case, run: Run, task_id: str) -> Iterator[None]:
    """Suspend the triggerer until a second one has its deferred task, and let it go on. Airflow
    then cancels the trigger that it still holds, as if a user had killed the task. The second one
    runs until the end of the block."""
    processes = case.world.processes
    first = wait_for(lambda: run.triggerer(task_id), WAIT_S, "a triggerer to take the task")
    suspended = processes.family("triggerer")
    processes.launch("triggerer", "triggerer-2")
    try:
        for process in suspended:
            process.suspend()
        what = f"the second triggerer to take the task after {HEARTBEAT_S} s"
        wait_for(lambda: run.triggerer(task_id) not in (None, first), WAIT_S, what)
        for process in suspended:
            process.resume()
        what = "the first triggerer to cancel its trigger"
        wait_for(lambda: _cancels(case, run, task_id), WAIT_S, what)
        yield
    finally:
        for process in suspended:
            process.resume()
        processes.end("triggerer-2")


def _cancels(case: Case, run: Run, task_id: str) -> bool:
    """Whether a triggerer has told the trigger that its task was killed."""
    log = run.airflow.log(run.dag_id, run.run_id, task_id, run.attempts(task_id))
    return "Trigger cancelled by user action" in log + tail(case.world.log("triggerer"), 200)


SCENARIOS = (
    Scenario("triggerer killed while tasks are deferred", triggerer_killed, short=True),
    Scenario("triggerer suspended, a second one running", triggerer_suspended, two_triggerers=True),
)
