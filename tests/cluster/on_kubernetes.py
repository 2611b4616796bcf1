"""A query on a stand-in of Kubernetes, by the guide."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_provider_continuous.hooks.query import ContinuousQueryHook
from tests.cluster.guide import NODE_PYTHON, follow
from tests.cluster.one_query import OneQuery
from tests.servers.jvm import QUICK
from tests.servers.kubelet import Kubelet
from tests.servers.kubernetes import ApiServer

GUIDE = "Kubernetes"
NAMESPACE = "streams"
JAVA = " ".join(QUICK)


class OnKubernetes(OneQuery):
    """See the module.

    :param mode: ``client`` or ``cluster``.
    """

    def __init__(
        self,
        server: ApiServer,
        kubelet: Kubelet,
        python: Path,
        folder: Path,
        mode: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        self.server, self.kubelet = server, kubelet
        uploads = folder / "uploads"
        uploads.mkdir()
        here = {
            NODE_PYTHON: str(python),
            "https://kubernetes.example:6443": server.url,
            "s3a://bucket/uploads": uploads.as_uri(),
        }
        of_this_machine = {
            # A pod has no port 443 of its own: it asks where we do.
            "spark.kubernetes.driver.master": server.url,
            "spark.driver.extraJavaOptions": JAVA,
            "spark.executor.extraJavaOptions": JAVA,
        }
        follow(GUIDE, monkeypatch, here, of_this_machine, mode)
        monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig))
        monkeypatch.setenv("AIRFLOW__KUBERNETES_EXECUTOR__IN_CLUSTER", "False")
        monkeypatch.setenv("AIRFLOW__KUBERNETES_EXECUTOR__CONFIG_FILE", str(server.kubeconfig))
        monkeypatch.setenv("SPARK_SUBMIT_OPTS", JAVA)
        monkeypatch.setenv("AIRFLOW__CONTINUOUS__LOG_DIR", str(folder / "logs"))
        location = str(folder / "checkpoint")
        super().__init__(ContinuousQueryHook(), location, folder / "out")

    def end(self) -> None:
        super().end()
        print(self.kubelet.said())

    def pods(self, role: str) -> list[Any]:
        """Those of a role, ``driver`` or ``executor``, that have not ended."""
        return self.kubelet.waiting_or_running(role)
