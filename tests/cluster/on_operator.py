"""A query that a stand-in of an operator on Kubernetes runs, by the guide."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_continuous.deploy.managers.kubernetes import LABEL
from airflow_provider_continuous.deploy.plan import APPLICATION
from airflow_provider_continuous.hooks.query import ContinuousQueryHook
from tests.cluster.guide import NODE_PYTHON, follow
from tests.cluster.on_kubernetes import JAVA, NAMESPACE
from tests.cluster.one_query import OneQuery
from tests.servers.kubelet import Kubelet
from tests.servers.kubernetes import ApiServer
from tests.servers.spark_operators import SparkOperators

GUIDE = "An operator on Kubernetes"
KUBECONFIG = "/opt/airflow/kubeconfig"
PROGRAM = "/opt/nodes/lib/python3.12/site-packages/engine/commands/application.py"


class OnOperator(OneQuery):
    """See the module.

    :param conn_id: of the guide.
    """

    def __init__(
        self,
        server: ApiServer,
        kubelet: Kubelet,
        operators: SparkOperators,
        folder: Path,
        conn_id: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        self.server, self.kubelet, self.operators = server, kubelet, operators
        here = {
            PROGRAM: str(APPLICATION),
            NODE_PYTHON: sys.executable,
            KUBECONFIG: str(server.kubeconfig),
        }
        of_this_machine = {
            "spark.kubernetes.driver.master": server.url,
            "spark.driver.extraJavaOptions": JAVA,
            "spark.executor.extraJavaOptions": JAVA,
        }
        follow(GUIDE, monkeypatch, here, of_this_machine)
        monkeypatch.setenv("SPARK_SUBMIT_OPTS", JAVA)
        monkeypatch.setenv("AIRFLOW__CONTINUOUS__LOG_DIR", str(folder / "logs"))
        super().__init__(ContinuousQueryHook(conn_id), str(folder / "checkpoint"), folder / "out")

    def end(self) -> None:
        super().end()
        print(self.operators.said()[-20_000:])
        print(self.kubelet.said())

    def applications(self, kind: str) -> list[Any]:
        """Those of this query, of an operator: ``KUBEFLOW``, ``APACHE``."""
        return self._own(self.operators.applications(kind))

    def secrets(self) -> list[Any]:
        """Those of this query."""
        return self._own(self.server.items(f"/api/v1/namespaces/{NAMESPACE}/secrets"))

    def _own(self, found: list[Any]) -> list[Any]:
        label = self.submitted.handle.label
        return [each for each in found if each["metadata"]["labels"][LABEL] == label]
