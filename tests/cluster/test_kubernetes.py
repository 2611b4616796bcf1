"""Queries on a stand-in of Kubernetes: fabric8's API server, and pods that are processes of this
machine; submitted by the provider, with Spark's own submission, scheduler and executors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_provider_continuous.deploy.contract import DriverState
from airflow_provider_continuous.deploy.managers.kubernetes import LABEL
from airflow_provider_continuous.deploy.submitted import QueryStartError
from engine.checkpoint.query_state import QueryState
from scripts.local_airflow.rest import wait_for
from tests.cluster.on_kubernetes import OnKubernetes
from tests.cluster.one_query import WAIT_S, all_ended
from tests.servers.kubelet import Kubelet
from tests.servers.kubernetes import ApiServer

both_modes = pytest.mark.parametrize("mode", ["client", "cluster"])
Make = Callable[[str], OnKubernetes]


@pytest.fixture
def on_kubernetes(
    server: ApiServer,
    kubelet: Kubelet,
    node_python: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Make]:
    """Makes a query of a mode."""

    def make(mode: str) -> OnKubernetes:
        return OnKubernetes(server, kubelet, node_python, tmp_path, mode, monkeypatch)

    with all_ended(make) as queries:
        yield queries


@both_modes
def test_a_query_drains_and_goes_on(on_kubernetes: Make, mode: str) -> None:
    query = on_kubernetes(mode)
    submitted, status = query.start()
    assert submitted.runs(status)
    assert submitted.look().state is DriverState.RUNNING
    drivers = [pod["metadata"]["name"] for pod in query.pods("driver")]
    assert drivers == ([submitted.handle.driver_id] if mode == "cluster" else [])
    query.await_epochs(2)
    query.drain()
    wait_for(lambda: submitted.look().state is DriverState.ENDED, WAIT_S, "its end as told", 0.2)
    first = query.assert_each_once()

    submitted, status = query.start()
    query.await_epochs(2)
    query.drain()
    wait_for(lambda: submitted.look().state is DriverState.ENDED, WAIT_S, "its end as told", 0.2)
    assert len(query.assert_each_once()) > len(first)
    wait_for(lambda: not query.pods("executor"), WAIT_S, "the executors' end", 0.2)


def test_an_executor_is_evicted_and_later_the_driver_is_gone(on_kubernetes: Make) -> None:
    query = on_kubernetes("cluster")
    submitted, status = query.start()
    query.await_epochs(2)
    (executor,) = query.pods("executor")
    query.kubelet.evict(executor["metadata"]["name"])
    query.await_epochs(3)
    assert query.hook.status(query.location).run_id == status.run_id
    assert [pod["metadata"]["name"] for pod in query.pods("executor")] != [
        executor["metadata"]["name"]
    ]

    (driver,) = query.pods("driver")
    query.kubelet.lose(driver["metadata"]["name"])
    wait_for(lambda: submitted.look().state is DriverState.ENDED, WAIT_S, "its end as told", 0.2)
    assert "there is no pod" in submitted.look().detail

    def lost() -> bool:
        return query.hook.status(query.location).state is QueryState.LOST

    wait_for(lost, WAIT_S, "its loss as told", 0.2)
    wait_for(lambda: not query.pods("executor"), WAIT_S, "the executors' end", 0.2)

    query.start()
    assert len(query.pods("driver")) == 1
    query.await_epochs(2)
    query.drain()
    query.assert_each_once()


def test_a_worker_that_died_left_one_pod_and_a_kill_leaves_none(on_kubernetes: Make) -> None:
    query = on_kubernetes("cluster")
    query.submit_and_die()

    submitted, _ = query.start()  # found by its note, and by its pod's name
    (driver,) = query.pods("driver")
    assert submitted.handle.driver_id == driver["metadata"]["name"]
    assert driver["metadata"]["labels"][LABEL] == submitted.handle.label
    query.await_epochs(2)
    assert submitted.kill()
    wait_for(lambda: submitted.look().state is DriverState.ENDED, WAIT_S, "its end as told", 0.2)
    assert query.hook.on_its_way(query.location) is None
    wait_for(lambda: not query.kubelet.pods(), WAIT_S, "the end of all pods", 0.2)

    query.start()
    query.await_epochs(2)
    query.drain()
    query.assert_each_once()


def test_a_pod_that_waits_for_room_is_waited_for_and_ended(on_kubernetes: Make) -> None:
    query = on_kubernetes("cluster")
    query.kubelet.room = 0
    first = query.hook.submit(query.hook.specification(query.document))
    wait_for(lambda: first.process.poll() is not None, WAIT_S, "the end of spark-submit", 0.2)
    (driver,) = query.pods("driver")
    assert driver["status"]["phase"] == "Pending"
    assert first.look().state is DriverState.STARTING

    second = query.hook.submit(query.hook.specification(query.document))
    assert second.handle.number == first.handle.number
    with pytest.raises(QueryStartError, match=r"hung for .*Pending"):
        query.hook.wait_until_started(second, 2)
    assert query.kubelet.pods() == []
    assert first.look().state is DriverState.ENDED
    assert query.hook.on_its_way(query.location) is None
    assert not query.out.exists()
