"""DAGs run by a real scheduler, dag-processor, triggerer and api-server."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.query_state import QueryState
from scripts.local_airflow.rest import AirflowClient, wait_for
from tests.airflow.live.dag_run import RUN_S, DagRun
from tests.airflow.live_checkpoint import LiveCheckpoint

pytestmark = pytest.mark.airflow

GOLDEN = Path(__file__).parents[2] / "golden" / "checkpoints"


def test_a_deferred_sensor_goes_on_when_the_epoch_commits(
    airflow: AirflowClient, live: LiveCheckpoint
) -> None:
    live.hold()
    live.commit(0)
    run = DagRun(airflow, "wait_deferred", checkpoint=live.location, epoch="1")
    run.wait_for_task("wait", "deferred")

    live.commit(1, 2)

    result = run.succeeds().result("wait")
    assert (result["epoch"], result["offsets"]) == (1, [{"0": 20}])


def test_a_sensor_on_a_checkpoint_of_spark(airflow: AirflowClient, tmp_path: Path) -> None:
    copy = tmp_path / "spark"
    shutil.copytree(GOLDEN / "spark-4.3-rate-continuous", copy)
    epoch = Checkpoint(str(copy)).committed_epoch()

    run = DagRun(airflow, "wait_deferred", checkpoint=str(copy), epoch=epoch).succeeds()

    assert run.result("wait")["offsets"] == list(Checkpoint(str(copy)).committed_offsets() or ())


def test_now_outlives_a_reschedule(airflow: AirflowClient, live: LiveCheckpoint) -> None:
    live.hold()
    live.commit(0, 1)
    run = DagRun(airflow, "wait_rescheduled", checkpoint=live.location)
    run.wait_for_task("wait", "up_for_reschedule")

    live.commit(2, 3, 4, 5)

    assert run.succeeds().result("wait")["epoch"] == 3
    assert run.task("wait")["try_number"] == 1


def test_a_sensor_fails_at_once_when_the_query_dies(
    airflow: AirflowClient, live: LiveCheckpoint
) -> None:
    live.hold()
    run = DagRun(airflow, "wait_deferred", checkpoint=live.location, epoch="7")
    run.wait_for_task("wait", "deferred")

    live.end(QueryState.FAILED, "disk full")

    assert "the query is FAILED at epoch -1: disk full" in run.fails()
    assert run.task("wait")["try_number"] == 1, "a retry cannot help"


def test_an_epoch_that_is_no_number_fails_at_once(
    airflow: AirflowClient, live: LiveCheckpoint
) -> None:
    run = DagRun(airflow, "wait_deferred", checkpoint=live.location, epoch="tomorrow")

    assert "epoch is 'tomorrow', and not a whole number" in run.fails()


def test_marking_a_deferred_sensor_failed_leaves_the_query(
    airflow: AirflowClient, live: LiveCheckpoint
) -> None:
    live.hold("run-1")
    run = DagRun(airflow, "wait_deferred", checkpoint=live.location, epoch="7")
    run.wait_for_task("wait", "deferred")

    airflow.set_task_state(run.dag_id, run.run_id, "wait", "failed")

    run.fails()
    assert live.checkpoint.requests.pending("run-1") is None
    assert live.checkpoint.status().state is QueryState.RUNNING


def test_the_example_that_waits_before_a_batch_task(
    airflow: AirflowClient, live: LiveCheckpoint
) -> None:
    live.hold()
    live.commit(0)
    run = DagRun(airflow, "wait_for_epoch", checkpoint=live.location)
    run.wait_for_task("committed", "deferred")

    live.commit(1, 2)

    assert "Complete up to [{'0': 30}]" in run.succeeds().result("report")


def test_the_example_that_prunes_every_night(airflow: AirflowClient, tmp_path: Path) -> None:
    small, large = LiveCheckpoint(tmp_path / "small"), LiveCheckpoint(tmp_path / "large")
    small.commit(*range(3))
    large.commit(*range(150))
    (tmp_path / "no-checkpoint").mkdir()

    run = DagRun(airflow, "scheduled_pruning", root=str(tmp_path)).succeeds()

    pruned = run.result("prune")["checkpoints"]
    assert [each["checkpoint_location"] for each in pruned] == [large.location, small.location]
    assert small.checkpoint.epochs() == [0, 1, 2]
    assert large.checkpoint.epochs() == list(range(150)), "they are younger than an hour"


def test_the_example_that_tells_metrics_of_all_queries(
    airflow: AirflowClient, tmp_path: Path
) -> None:
    """Nobody listens here: it says so, and is no failure."""
    run = DagRun(airflow, "query_metrics", root=str(tmp_path)).succeeds()

    assert run.task("publish")["state"] == "skipped"


def test_the_demo_fails_when_one_of_its_steps_does(airflow: AirflowClient, tmp_path: Path) -> None:
    """The start fails; the drain, a teardown, must not make the run a success."""
    run = DagRun(airflow, "flights_demo", checkpoint="relative")

    assert "'relative' is relative" in run.fails()


# -- real queries ---------------------------------------------------------------------------------


@pytest.fixture
def numbers(tmp_path: Path) -> Iterator[Checkpoint]:
    """The checkpoint of a query that a DAG will start; nothing of it is left running."""
    checkpoint = Checkpoint(str(tmp_path / "numbers"))
    yield checkpoint
    status = checkpoint.status()
    if status.state.is_active and status.pid is not None:
        with suppress(ProcessLookupError):  # it may end at any moment
            os.kill(status.pid, signal.SIGKILL)


def test_a_query_from_its_start_to_its_drained_end(
    airflow: AirflowClient, numbers: Checkpoint
) -> None:
    location = numbers.url
    first = DagRun(airflow, "start", checkpoint=location, epoch="1").succeeds()

    started = first.result("start")
    assert started["epoch"] >= 1
    assert started["checkpoint_location"] == location
    status = numbers.status()
    assert (status.state, status.run_id) == (QueryState.RUNNING, started["run_id"])
    assert status.pid is not None
    assert os.getsid(status.pid) == status.pid, "the query would end with its task"

    # A second DAG run, and the first one cleared, find the same query.
    second = DagRun(airflow, "start", checkpoint=location, epoch="2")
    airflow.clear(first.dag_id, first.run_id, "start")
    wait_for(lambda: first.task("start")["try_number"] == 2, RUN_S, "the second attempt")
    for run in (first, second):
        assert run.succeeds().result("start")["run_id"] == started["run_id"]

    drained = DagRun(airflow, "drain", checkpoint=location).succeeds().result("drain")
    assert (drained["run_id"], drained["state"]) == (started["run_id"], "STOPPED")
    assert drained["epoch"] == numbers.committed_epoch() >= 2
    wait_for(lambda: is_gone(status.pid), RUN_S, "the query's process to end")


def is_gone(pid: int | None) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_killed_worker_leaves_the_query_and_the_retry_adopts_it(
    airflow: AirflowClient, numbers: Checkpoint
) -> None:
    # The epoch is far enough away for a busy machine to kill the worker before it comes.
    run = DagRun(airflow, "start_attended", checkpoint=numbers.url, epoch="30")
    wait_for(lambda: run.task("start")["state"] == "running", RUN_S, "the task to run")
    attempt = run.task("start")["try_number"]
    wait_for(lambda: numbers.status().state is QueryState.RUNNING, RUN_S, "the query to run")
    status = numbers.status()
    worker = psutil.Process(status.pid).parent()
    assert worker is not None
    assert worker.pid != 1, "the task should still be waiting"

    worker.kill()

    assert run.succeeds().result("start")["run_id"] == status.run_id
    assert run.task("start")["try_number"] == attempt + 1
    stopped = DagRun(airflow, "stop", checkpoint=numbers.url).succeeds().result("stop")
    assert (stopped["run_id"], stopped["state"]) == (status.run_id, "STOPPED")


def test_a_decorated_function_is_a_query(airflow: AirflowClient, numbers: Checkpoint) -> None:
    run = DagRun(airflow, "start_decorated", checkpoint=numbers.url, epoch="1").succeeds()

    assert run.result("decorated")["run_id"] == numbers.status().run_id
    assert numbers.status().state is QueryState.RUNNING


def test_a_query_that_cannot_start_says_why(airflow: AirflowClient, numbers: Checkpoint) -> None:
    run = DagRun(airflow, "start_query_that_fails", checkpoint=numbers.url)

    assert "no_such_column" in run.fails()
