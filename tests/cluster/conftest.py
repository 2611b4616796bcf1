"""Real clusters on loopback, and Airflow's connections to them; ``make test-cluster``."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

if "AIRFLOW_HOME" not in os.environ:  # before anything imports airflow
    _HOME = tempfile.TemporaryDirectory(prefix="airflow-cluster-")
    os.environ["AIRFLOW_HOME"] = _HOME.name
    os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"

from tests.cluster.nodes import python_of_nodes
from tests.cluster.on_kubernetes import NAMESPACE
from tests.servers.hadoop import Hadoop, running_hadoop
from tests.servers.kubelet import Kubelet, running_kubelet
from tests.servers.kubernetes import ApiServer, running_api_server
from tests.servers.process import NoServerError


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.cluster)


@pytest.fixture(scope="session")
def hadoop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hadoop]:
    """HDFS and YARN, for all tests."""
    try:
        with running_hadoop(tmp_path_factory.mktemp("hadoop") / "hadoop") as hadoop:
            yield hadoop
    except NoServerError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def node_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of the cluster's nodes, without the engine."""
    return python_of_nodes(tmp_path_factory.mktemp("node") / "python")


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    try:
        with running_api_server(tmp_path_factory.mktemp("kubernetes") / "api") as server:
            yield server
    except NoServerError as error:
        pytest.skip(str(error))


@pytest.fixture
def kubelet(server: ApiServer, tmp_path: Path) -> Iterator[Kubelet]:
    try:
        with running_kubelet(server, NAMESPACE, tmp_path / "kubelet") as kubelet:
            yield kubelet
    except NoServerError as error:
        pytest.skip(str(error))
    server.forget()
