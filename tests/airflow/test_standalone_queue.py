"""Drivers that wait for room on a real standalone cluster: one, however often it is asked for. And
one that fails there."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_continuous.deploy import processes
from airflow_provider_continuous.deploy.contract import DriverState
from airflow_provider_continuous.deploy.managers.contract import ask
from airflow_provider_continuous.deploy.notes import Notes
from airflow_provider_continuous.deploy.submitted import QueryStartError, SubmittedQuery
from airflow_provider_continuous.hooks.query import ContinuousQueryHook
from scripts.local_airflow.rest import wait_for
from tests.airflow.spark_cluster import SparkCluster

pytestmark = pytest.mark.spark
WAIT_S = 240


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """It wants a secret, which all of this machine read in spark-defaults.conf."""
    folder = tmp_path_factory.mktemp("spark")
    said = "spark.authenticate true\nspark.authenticate.secret correct-horse-battery\n"
    (folder / "spark-defaults.conf").write_text(said)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_CONF_DIR", str(folder))
        with SparkCluster(folder / "cluster", cores=1) as cluster:
            yield cluster


@pytest.fixture
def hook(cluster: SparkCluster, monkeypatch: pytest.MonkeyPatch) -> ContinuousQueryHook:
    """Submits drivers that need more cores than there are."""
    connections = {
        "continuous_default": {
            "conn_type": "continuous",
            "extra": {
                "deploy-mode": "spark-submit",
                "spark-conn-id": "the_cluster",
                "environment": {"SPARK_LOCAL_IP": "127.0.0.1"},
                "conf": {"spark.pyspark.python": sys.executable},
                "spark_submit": {
                    "deploy_mode": "cluster",
                    "master_web": cluster.web,
                    "conf": {"spark.driver.cores": 64},
                },
            },
        },
        "the_cluster": {"conn_type": "spark", "host": cluster.master},
    }
    for name, content in connections.items():
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(content))
    return ContinuousQueryHook()


def drivers(cluster: SparkCluster) -> Counter[str]:
    """How many drivers the master knows, by their state."""
    told = ask(f"{cluster.web}/json/")
    return Counter(each["state"] for each in (*told["activedrivers"], *told["completeddrivers"]))


def queued(submitted: SubmittedQuery) -> bool:
    status = submitted.look()
    assert status.state is not DriverState.ENDED, submitted.log_path.read_text()
    return submitted.handle.driver_id is not None and status.detail.endswith("SUBMITTED")


def test_three_attempts_leave_one_driver_and_a_kill_leaves_none(
    hook: ContinuousQueryHook,
    cluster: SparkCluster,
    spec: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = drivers(cluster)
    with monkeypatch.context() as dying:
        dying.setattr(Notes, "write", lambda *_: None)
        first = hook.submit(hook.specification(spec), "a task")
    assert first.process.wait(WAIT_S) == 0, first.log_path.read_text()
    monkeypatch.setattr(processes, "child", lambda _: None)  # who comes later is another process

    for _ in range(3):
        attempt = hook.submit(hook.specification(spec), "a task")
        wait_for(lambda attempt=attempt: queued(attempt), WAIT_S, "the queued driver", 0.2)

    assert drivers(cluster) - before == Counter(SUBMITTED=1)
    noted = Notes(hook._checkpoint(spec["checkpoint_location"]).checkpoint.storage).last()
    assert noted is not None
    assert noted.driver_id == attempt.handle.driver_id
    assert attempt.kill()
    wait_for(
        lambda: attempt.look().state is DriverState.ENDED, WAIT_S, "the end of the driver", 0.2
    )
    assert drivers(cluster) - before == Counter(KILLED=1)
    assert hook.on_its_way(spec["checkpoint_location"]) is None
    assert not Path(attempt.spec_path).exists()


def test_a_start_that_is_too_late_takes_its_driver_back(
    hook: ContinuousQueryHook, cluster: SparkCluster, spec: dict[str, Any]
) -> None:
    before = drivers(cluster)
    submitted = hook.submit(hook.specification(spec), "a task")
    wait_for(lambda: queued(submitted), WAIT_S, "the queued driver", 0.2)

    with pytest.raises(QueryStartError, match=r"hung for 1 s \(driver-.* is SUBMITTED\)"):
        hook.wait_until_started(submitted, 1)

    assert drivers(cluster) - before == Counter(KILLED=1)
    assert hook.on_its_way(spec["checkpoint_location"]) is None


def test_a_driver_is_killed_while_it_is_submitted(
    hook: ContinuousQueryHook, cluster: SparkCluster, spec: dict[str, Any]
) -> None:
    before = drivers(cluster)
    submitted = hook.submit(hook.specification(spec), "a task")

    assert submitted.end(), submitted.look()

    assert drivers(cluster)["SUBMITTED"] == before["SUBMITTED"]
    assert hook.on_its_way(spec["checkpoint_location"]) is None


def test_what_a_driver_has_written_on_the_cluster_is_told(
    hook: ContinuousQueryHook, spec: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    there = json.loads(os.environ["AIRFLOW_CONN_CONTINUOUS_DEFAULT"])
    del there["extra"]["spark_submit"]["conf"]
    monkeypatch.setenv("AIRFLOW_CONN_CONTINUOUS_DEFAULT", json.dumps(there))
    spec["sql"] = "SELECT no_such_column FROM source"
    hook = ContinuousQueryHook()
    submitted = hook.submit(hook.specification(spec), "a task")

    with pytest.raises(QueryStartError) as told:
        hook.wait_until_started(submitted, WAIT_S)

    _, _, words = str(told.value).partition("has written on the cluster:\n")
    assert "no_such_column" in words, str(told.value)
