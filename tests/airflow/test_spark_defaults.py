"""What the worker's spark-defaults.conf says of applications, beside a program that is none."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from airflow_provider_continuous.deploy import processes
from airflow_provider_continuous.deploy.cluster import Cluster
from airflow_provider_continuous.deploy.contract import Handle
from airflow_provider_continuous.deploy.launch import query_environment
from airflow_provider_continuous.deploy.managers.standalone import StandaloneMaster
from airflow_provider_continuous.deploy.options import SubmitOptions
from tests.waiting import wait_until

pytestmark = pytest.mark.spark
DRIVER = "driver-20260101000000-0001"


@pytest.mark.parametrize(
    "said",
    [
        "spark.submit.deployMode cluster",
        "spark.jars.packages org.example:nothing:1\nspark.jars.repositories http://127.0.0.1:1/",
    ],
)
def test_a_kill_gets_as_far_as_the_master(
    said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is none at this port, as Spark's client finds out."""
    (tmp_path / "spark-defaults.conf").write_text(f"{said}\nspark.jars.ivy {tmp_path / 'ivy'}\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    address = "spark://127.0.0.1:1"
    cluster = Cluster("a_cluster", address, "standalone", "cluster", "spark-submit", None)
    master = StandaloneMaster(
        address,
        None,
        cluster.find_binary,
        lambda: cluster.environment_with(query_environment(), {}, None),
    )
    before = set(processes._children)

    assert master.kill(DRIVER, Handle("standalone", "continuous-abc", 0, log=f"{tmp_path}/log"))

    (pid,) = set(processes._children) - before
    wait_until(lambda: processes._children[pid].poll() is not None, "the end of Spark's client")
    assert "service 'driverClient'" in (tmp_path / "log.kill").read_text()


def test_a_driver_gets_its_variables_where_the_master_speaks_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By REST Spark sends only those along whose names begin with SPARK_."""
    extra = {"deploy-mode": "cluster"}
    said = {"conn_type": "spark", "host": "spark://127.0.0.1:1", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_A_CLUSTER", json.dumps(said))
    (tmp_path / "spark-defaults.conf").write_text("spark.master.rest.enabled true\n")
    cluster = Cluster.find("a_cluster", SubmitOptions())
    environment = {**query_environment(), "SPARK_CONF_DIR": str(tmp_path)}
    command = cluster.command(
        "any.jar", java_class="a.Program", deploy_mode="cluster", application_args=[]
    )

    ran = subprocess.run(
        [cluster.find_binary(), *command[1:]],
        env={**cluster.environment_with(environment, {}, None), "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert "RestSubmissionClient" not in ran.stderr
    assert "service 'driverClient'" in ran.stderr
