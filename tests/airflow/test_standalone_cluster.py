"""Queries on a real standalone cluster, started through the hook in client and in cluster mode."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from airflow_provider_continuous.deploy.contract import DriverState
from airflow_provider_continuous.hooks.query import ContinuousQueryHook
from engine.checkpoint.query_state import QueryState
from scripts.local_airflow.rest import wait_for
from tests.airflow.spark_cluster import SparkCluster
from tests.sink_files import committed

pytestmark = [pytest.mark.spark, pytest.mark.sampled(1 / 3)]
REPOSITORY = Path(__file__).parents[2]
SECRET = "correct-horse-battery"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path_factory.mktemp("spark") / "cluster") as cluster:
        yield cluster


@pytest.fixture
def hook(
    cluster: SparkCluster, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> ContinuousQueryHook:
    """Submits to the cluster; the test's parameter is the deploy mode."""
    connections = {
        "continuous_default": {
            "conn_type": "continuous",
            "extra": {
                "deploy-mode": "spark-submit",
                "spark-conn-id": "the_cluster",
                "conf": {"spark.pyspark.python": sys.executable},
                "environment-from": {"ROWS": "a_vault.extra.rows", "WORD": "a_vault.password"},
                "environment": {"PYTHONPATH": str(REPOSITORY), "SPARK_LOCAL_IP": "127.0.0.1"},
                "spark_submit": {
                    "executor_memory": "512m",
                    "driver_memory": "512m",
                    "total_executor_cores": 1,
                    "master_web": cluster.web,
                    "conf": {"spark.hadoop.test.password": SECRET},
                },
            },
        },
        "the_cluster": {
            "conn_type": "spark",
            "host": cluster.master,
            "extra": {"deploy-mode": request.param},
        },
        "a_vault": {"conn_type": "generic", "password": SECRET, "extra": {"rows": "20"}},
    }
    for name, content in connections.items():
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(content))
    return ContinuousQueryHook()


@pytest.fixture
def query(tmp_path: Path) -> dict[str, Any]:
    return {
        "name": "numbers on a cluster",
        "source": {
            "format": "rate",
            "options": {"rowsPerSecond": "${ROWS}", "numPartitions": 1},
        },
        "sql": "SELECT value, timestamp FROM source",
        "sink": {"format": "parquet", "options": {"path": str(tmp_path / "out")}},
        "trigger": {"continuous": "500 milliseconds"},
        "conf": {"spark.master": "local[1]"},  # gives way to the connection's
        "checkpoint_location": str(tmp_path / "checkpoint"),
    }


def command_lines() -> str:
    lines = []
    for process in psutil.process_iter():
        try:
            lines.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    return "\n".join(lines)


@pytest.mark.parametrize("hook", ["client", "cluster"], indirect=True)
def test_a_query_lives_on_the_cluster(
    hook: ContinuousQueryHook,
    cluster: SparkCluster,
    query: dict[str, Any],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    location = query["checkpoint_location"]
    submitted = hook.submit(hook.specification(query))
    try:
        status = hook.wait_until_started(submitted, 600)
        assert submitted.runs(status)
        assert submitted.look().state is DriverState.RUNNING
        assert status.application is not None
        assert status.application.startswith("app-")
        wait_for(lambda: hook.status(location).epoch >= 2, 240, "three epochs", 0.1)

        assert SECRET not in command_lines()
        assert "application.py" in command_lines()
        assert list(Path(location + ".logs").glob("*.spec.json")) == []
        assert list(Path(location + ".logs").glob("*.properties")) == []

        hook.drain(location, by="a test", run_id=status.run_id)
        wait_for(lambda: hook.find(location) is None, 240, "the end of the query", 0.1)
        assert submitted.process.wait(240) == 0
        wait_for(lambda: not cluster.children(), 240, "the end of drivers and executors", 0.1)
    except BaseException:
        print(submitted.log_path.read_text(), cluster.driver_logs(), sep="\n----\n")
        submitted.end()
        raise

    ended = hook.status(location)
    assert ended.state is QueryState.STOPPED
    assert ended.error is None
    numbers = committed(tmp_path / "out", "value")
    assert sorted(numbers) == list(range(len(numbers)))
    assert len(numbers) > 0
    task_log = "".join(capfd.readouterr())
    assert "Spark-Submit cmd: " in task_log
    assert "Using Spark's default log4j profile" in task_log or "ClientEndpoint" in task_log
    told = task_log + submitted.log_path.read_text() + cluster.driver_logs()
    assert SECRET not in told
    assert not psutil.pid_exists(status.pid or -1)
    # A master hears of the end when the worker has told it.
    wait_for(lambda: submitted.look().state is DriverState.ENDED, 240, "its end as told", 0.1)


def is_executor(process: psutil.Process) -> bool:
    try:
        return any("CoarseGrainedExecutorBackend" in word for word in process.cmdline())
    except psutil.Error:  # one that has ended
        return False


@pytest.mark.parametrize("hook", ["client"], indirect=True)
def test_a_query_waits_for_the_executor_that_replaces_a_killed_one(
    hook: ContinuousQueryHook, cluster: SparkCluster, query: dict[str, Any], tmp_path: Path
) -> None:
    location = query["checkpoint_location"]
    submitted = hook.submit(hook.specification(query))

    def waits() -> bool:
        status = hook.status(location)
        assert not status.state.is_over, status.error
        return status.state is QueryState.WAITING

    def goes_on() -> bool:
        status = hook.status(location)
        assert not status.state.is_over, status.error
        return status.epoch >= before + 3

    try:
        hook.wait_until_started(submitted, 600)
        wait_for(lambda: hook.status(location).epoch >= 2, 240, "three epochs", 0.1)
        before = hook.status(location).epoch
        executors = [child for child in cluster.children() if is_executor(child)]
        assert len(executors) == 1
        with cluster.suspended_workers():
            executors[0].kill()
            wait_for(waits, 240, "the query to wait for an executor", 0.05)
        wait_for(goes_on, 240, "epochs of the next executor", 0.05)
        restarts = hook.status(location).restarts
        hook.drain(location, by="a test")
        wait_for(lambda: hook.find(location) is None, 240, "the end of the query", 0.1)
        assert submitted.process.wait(240) == 0
    except BaseException:
        print(submitted.log_path.read_text())
        submitted.end()
        raise
    assert restarts <= 3
    assert hook.status(location).state is QueryState.STOPPED
    numbers = committed(tmp_path / "out", "value")
    assert sorted(numbers) == list(range(len(numbers)))
