"""Queries on a real standalone cluster, of which a part is killed while records flow."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from airflow_provider_continuous.hooks.query import ContinuousQueryHook
from tests.airflow.spark_cluster import SparkCluster
from tests.cluster.guide import NODE_PYTHON, follow
from tests.cluster.one_query import WAIT_S, OneQuery, command_line
from tests.waiting import wait_until

EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path_factory.mktemp("spark") / "cluster", workers=2) as cluster:
        yield cluster


@pytest.fixture
def query(
    cluster: SparkCluster,
    node_python: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[OneQuery]:
    """In client mode: the driver is a process of its own, beside the cluster."""
    here = {NODE_PYTHON: str(node_python), "spark://master:7077": cluster.master}
    here |= {'"total_executor_cores": 2': '"total_executor_cores": 1'}  # one executor to be killed
    follow("Spark standalone", monkeypatch, here)
    query = OneQuery(ContinuousQueryHook(), str(tmp_path / "checkpoint"), tmp_path / "out")
    yield query
    query.end()


def executor_of(cluster: SparkCluster, application: str | None) -> psutil.Process:
    """The one executor of an application."""

    def found() -> list[psutil.Process]:
        lines = ((each, command_line(each)) for each in cluster.children())
        return [each for each, line in lines if EXECUTOR in line and application in line]

    (executor,) = wait_until(found, "an executor", WAIT_S)
    return executor


def test_an_executor_is_killed(cluster: SparkCluster, query: OneQuery) -> None:
    _, status = query.start()
    query.await_epochs(2)
    executor_of(cluster, status.application).kill()
    query.await_epochs(3)
    query.drain()
    query.assert_each_once()


def test_a_worker_is_killed(cluster: SparkCluster, query: OneQuery) -> None:
    _, status = query.start()
    query.await_epochs(2)
    executor = executor_of(cluster, status.application)
    cluster.kill_worker_of(executor)
    try:
        wait_until(lambda: not psutil.pid_exists(executor.pid), "the executor's end", WAIT_S)
        query.await_epochs(3)  # by an executor of the other worker
        assert query.hook.status(query.location).run_id == status.run_id
        query.drain()
        query.assert_each_once()
    finally:
        cluster.start_worker()


def test_the_master_is_killed_and_comes_back(cluster: SparkCluster, query: OneQuery) -> None:
    _, status = query.start()
    query.await_epochs(2)
    cluster.kill_master()
    query.await_epochs(3)  # nothing of the query goes through it
    cluster.start_master()
    executor_of(cluster, status.application).kill()
    query.await_epochs(3)  # the executor that replaces it is the new master's
    assert query.hook.status(query.location).run_id == status.run_id
    query.drain()
    query.assert_each_once()


@pytest.mark.parametrize("what", ["all", "Java", "Python"])
def test_the_driver_is_killed(cluster: SparkCluster, query: OneQuery, what: str) -> None:
    submitted, status = query.start()
    query.await_epochs(2)
    leader = submitted.handle.pid
    assert leader is not None
    family = [psutil.Process(leader), *psutil.Process(leader).children(recursive=True)]
    if what == "all":
        os.killpg(leader, signal.SIGKILL)
    else:
        python = status.pid
        commands = {each.pid: "".join(command_line(each)[:1]) for each in family}
        (java, *_) = [pid for pid, command in commands.items() if command.endswith("java")]
        psutil.Process(python if what == "Python" else java).kill()
    submitted.process.wait(WAIT_S)
    psutil.wait_procs(family, WAIT_S)
    assert [each for each in family if each.is_running()] == []

    query.start()
    query.await_epochs(2)
    query.drain()
    query.assert_each_once()
