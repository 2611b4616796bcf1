"""Queries as ``SparkApplication``s, on stand-ins: of the API server, of nodes, and of the two
operators that know the kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_provider_continuous.deploy.contract import DriverState
from airflow_provider_continuous.deploy.managers.kubernetes import LABEL
from airflow_provider_continuous.deploy.submitted import QueryStartError
from engine.checkpoint.query_state import QueryState
from scripts.local_airflow.rest import wait_for
from tests.cluster.on_kubernetes import NAMESPACE
from tests.cluster.on_operator import OnOperator
from tests.cluster.one_query import WAIT_S, all_ended
from tests.servers.kubelet import Kubelet
from tests.servers.kubernetes import ApiServer
from tests.servers.spark_operators import (
    APACHE,
    KUBEFLOW,
    SparkOperators,
    running_operators,
)

both_operators = pytest.mark.parametrize(
    ("conn_id", "kind"),
    [("continuous_default", KUBEFLOW), ("continuous_apache", APACHE)],
    ids=["kubeflow", "apache"],
)
Make = Callable[[str], OnOperator]
SECRET = "s3cret-of-the-query"


@pytest.fixture
def operators(server: ApiServer, tmp_path: Path) -> Iterator[SparkOperators]:
    with running_operators(server, NAMESPACE, tmp_path / "operators") as operators:
        yield operators


@pytest.fixture
def on_operator(
    server: ApiServer,
    kubelet: Kubelet,
    operators: SparkOperators,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Make]:
    """Makes a query of a connection."""

    def make(conn_id: str) -> OnOperator:
        return OnOperator(server, kubelet, operators, tmp_path, conn_id, monkeypatch)

    with all_ended(make) as queries:
        yield queries


@both_operators
def test_a_query_drains_and_goes_on(on_operator: Make, conn_id: str, kind: str) -> None:
    query = on_operator(conn_id)
    assert query.hook.test_connection()[0]
    submitted, status = query.start()
    assert submitted.runs(status)
    assert submitted.look().state is DriverState.RUNNING
    (application,) = query.applications(kind)
    assert application["metadata"]["name"] == submitted.handle.driver_id
    assert application["metadata"]["labels"][LABEL] == submitted.handle.label
    (secret,) = query.secrets()
    assert secret["metadata"]["ownerReferences"][0]["name"] == submitted.handle.driver_id
    query.await_epochs(2)
    query.drain()
    wait_for(lambda: submitted.look().state is DriverState.ENDED, WAIT_S, "its end as told", 0.2)
    first = query.assert_each_once()

    again, status = query.start()
    assert again.handle.driver_id != submitted.handle.driver_id
    assert [each["metadata"]["name"] for each in query.secrets()] == [again.handle.driver_id]
    query.await_epochs(2)
    query.drain()
    assert len(query.assert_each_once()) > len(first)


@both_operators
def test_a_worker_that_died_left_one_application_and_a_kill_leaves_none(
    on_operator: Make, conn_id: str, kind: str
) -> None:
    query = on_operator(conn_id)
    query.submit_and_die()

    submitted, _ = query.start()  # found by its note, and by its name
    (application,) = query.applications(kind)
    assert application["metadata"]["name"] == submitted.handle.driver_id
    query.await_epochs(2)
    assert submitted.kill()
    wait_for(lambda: submitted.look().state is DriverState.ENDED, WAIT_S, "its end as told", 0.2)
    assert query.applications(kind) == []
    assert query.secrets() == []
    wait_for(lambda: not query.kubelet.waiting_or_running(), WAIT_S, "the end of all pods", 0.2)

    query.start()
    query.await_epochs(2)
    query.drain()
    query.assert_each_once()


def test_a_start_that_fails_says_why_and_a_driver_that_is_gone_is_missed(
    on_operator: Make,
) -> None:
    query = on_operator("continuous_default")
    query.document["checkpoint_storage"] = {"password": SECRET}
    with pytest.raises(QueryStartError, match="is FAILED") as failed:
        query.start()
    words = str(failed.value).splitlines()
    told = "continuous run: Option checkpointStorage.password"
    assert any(line.startswith(told) for line in words)
    del query.document["checkpoint_storage"]

    query.document["conf"] = {"spark.my.password": SECRET}
    submitted, _ = query.start()
    query.await_epochs(2)
    assert SECRET not in str([*query.applications(KUBEFLOW), *query.kubelet.pods(), *words])
    query.kubelet.lose(f"{submitted.handle.name}-driver")

    def lost() -> bool:
        return query.hook.status(query.location).state is QueryState.LOST

    wait_for(lost, WAIT_S, "its loss as told", 0.2)
    query.start()
    query.await_epochs(2)
    query.drain()
    query.assert_each_once()
