"""Kubernetes is asked by Airflow's own client, and spark-submit is told where it is by the Spark
connection: the two may lead to different clusters."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_continuous.deploy.backends import _kubernetes_client
from airflow_provider_continuous.deploy.contract import DriverState
from airflow_provider_continuous.deploy.managers.kubernetes import Kubernetes
from tests.airflow.kubernetes_stand_in import ApiServer, api_server


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ApiServer]:
    """The one that Airflow knows."""
    with api_server() as server:
        monkeypatch.setenv("AIRFLOW__KUBERNETES_EXECUTOR__IN_CLUSTER", "False")
        config = str(server.kubeconfig(tmp_path))
        monkeypatch.setenv("AIRFLOW__KUBERNETES_EXECUTOR__CONFIG_FILE", config)
        yield server


@pytest.mark.parametrize(
    ("master", "is_told"),
    [
        ("k8s://{url}", False),
        ("k8s://{url}/", False),
        ("k8s://http://localhost:{port}", False),
        ("k8s://http://127.0.0.1:1", True),
        ("k8s://127.0.0.1:{port}", False),
        ("k8s://https://no-such-name.invalid", True),
    ],
)
def test_that_they_differ_is_told(
    server: ApiServer, caplog: pytest.LogCaptureFixture, master: str, is_told: bool
) -> None:
    """One cluster may have several names, so it is not refused."""
    master = master.format(url=server.url, port=server.url.rpartition(":")[2])
    kubernetes = Kubernetes("streams", _kubernetes_client(), master)

    kubernetes.check()
    status = kubernetes.status("a-driver")

    told = [each.getMessage() for each in caplog.records]
    said = [text for text in told if "kubernetes_executor" in text]
    assert len(said) == is_told
    assert status.state is DriverState.ENDED
    for text in (*said, *([status.detail] if is_told else [])):
        assert server.url in text
        assert master.removeprefix("k8s://") in text
