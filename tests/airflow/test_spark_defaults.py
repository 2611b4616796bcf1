"""What the worker's spark-defaults.conf says of applications, beside a program that is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_continuous.deploy import processes
from airflow_provider_continuous.deploy.cluster import Cluster
from airflow_provider_continuous.deploy.contract import Handle
from airflow_provider_continuous.deploy.launch import query_environment
from airflow_provider_continuous.deploy.managers.standalone import StandaloneMaster
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
