"""Queries on a cluster of several hosts, each with an address of its own, whose cables are cut,
slowed and healed.

After each fault nothing is lost and nothing repeated, and how long it took until records flowed
again is printed; with ``PUBLISH=1 make test-cluster`` it goes to docs/reliability.md.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from tests.airflow.spark_cluster import SparkCluster
from tests.cluster.hosts import Hosts, NoHostsError
from tests.cluster.query_on_hosts import (
    COUNTS,
    EPOCH_MS,
    LEASE_S,
    PLAIN,
    TASK_TIMEOUT_S,
    WAIT_S,
    QueryOnHosts,
)
from tests.faults.publish import publish
from tests.faults.result import LevelResult
from tests.waiting import wait_until

_WORKER_LOST_S = 10


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    try:
        with Hosts("master", "one", "two", "driver", "other") as hosts:
            yield hosts
    except NoHostsError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def cluster(hosts: Hosts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with SparkCluster(
        tmp_path_factory.mktemp("spark") / "cluster",
        cores=8,
        master_at=hosts["master"],
        workers_at=[hosts["one"], hosts["two"]],
        settings={"spark.worker.timeout": _WORKER_LOST_S},
    ) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def found(request: pytest.FixtureRequest) -> Iterator[LevelResult]:
    """What all tests have found, for the page; if one has failed, nothing goes there."""
    result = LevelResult("L4 hosts, Spark standalone")
    failed = request.session.testsfailed
    yield result
    if os.environ.get("PUBLISH") == "1" and request.session.testsfailed == failed:
        publish([result])


@pytest.fixture(scope="module", params=[PLAIN, COUNTS])
def query(
    request: pytest.FixtureRequest,
    cluster: SparkCluster,
    tmp_path_factory: pytest.TempPathFactory,
    found: LevelResult,
) -> Iterator[QueryOnHosts]:
    """One for all faults: each begins where the one before has left it."""
    folder = tmp_path_factory.mktemp("query") / request.param
    query = QueryOnHosts(request.param, folder, cluster.master)
    yield query
    try:
        query.drain()
        found.records += query.assert_each_once()
    finally:
        query.end()


@pytest.fixture
def running(query: QueryOnHosts, hosts: Hosts) -> Iterator[QueryOnHosts]:
    query.ensure_running(hosts["driver"], (hosts["one"], hosts["two"]))
    yield query
    for name in ("one", "two", "driver", "other"):
        hosts[name].heal()
        hosts[name].shun(False)


def _tell(found: LevelResult, query: QueryOnHosts, fault: str, seconds: float) -> None:
    query.assert_each_once()
    kind = f"{fault}, {query.kind}"
    print(f"{kind}: records flow after {seconds:.1f} s")
    found.faults[kind] += 1
    found.outcomes[f"ms until all is back: {kind}"] = round(seconds * 1000)


def _pass(seconds: float) -> None:
    """A fault lasts for so long: there is nothing to wait for meanwhile."""
    until_s = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() >= until_s, "the fault's time", seconds + WAIT_S)


def test_rows_go_from_host_to_host(running: QueryOnHosts, hosts: Hosts) -> None:
    """What the other tests rest on: tasks are on both hosts, and reducers take rows from both."""
    one, two, driver = hosts["one"], hosts["two"], hosts["driver"]
    for host in (one, two):
        assert (host.address, driver.address) in host.python_connections()
    between = {(one.address, two.address)} & one.python_connections()
    assert bool(between) == (running.kind == COUNTS)


def test_the_cable_of_a_worker_is_out_for_5_s(
    running: QueryOnHosts, hosts: Hosts, found: LevelResult
) -> None:
    hosts["one"].cut()
    _pass(5)
    before = running.epoch
    hosts["one"].heal()
    _tell(
        found, running, "a worker's link cut for 5 s, from its healing", running.await_flow(before)
    )


def test_the_cable_of_a_worker_is_out_for_longer_than_a_task_may_be_silent(
    running: QueryOnHosts, hosts: Hosts, found: LevelResult
) -> None:
    """No host says that it is gone: silence must tell, and what was left there comes back."""
    before = running.epoch
    hosts["two"].cut()
    seconds = running.await_flow(before)
    hosts["two"].heal()
    _tell(found, running, "a worker's link cut, from the cut", seconds)


def test_a_worker_has_a_slow_cable(running: QueryOnHosts, hosts: Hosts, found: LevelResult) -> None:
    hosts["one"].slow("64kbit")
    before = running.epoch
    _pass(10)
    before = max(before, running.epoch)
    hosts["one"].heal()
    _tell(
        found, running, "a worker's link at 64 kbit/s, from its healing", running.await_flow(before)
    )


def test_the_driver_is_cut_off(running: QueryOnHosts, hosts: Hosts, found: LevelResult) -> None:
    """From its executors and the master, for longer than a task may be silent; it reaches its
    checkpoint, so it keeps its lease."""
    run = running.checkpoint.status().run_id
    hosts["driver"].cut()
    _pass(2 * TASK_TIMEOUT_S)
    before = running.epoch
    hosts["driver"].heal()
    seconds = running.await_flow(before)
    assert running.checkpoint.status().run_id == run
    _tell(found, running, "the driver's link cut for 16 s, from its healing", seconds)


def test_two_workers_do_not_reach_each_other(
    running: QueryOnHosts, hosts: Hosts, found: LevelResult
) -> None:
    """And both reach the driver: their connections are half open, and no heartbeat is missing."""
    if running.kind == PLAIN:
        pytest.skip("its tasks send nothing to each other")
    hosts["one"].shun()
    hosts["two"].shun()
    restarts = running.checkpoint.status().restarts
    wait_until(lambda: running.checkpoint.status().restarts > restarts, "it is noticed", WAIT_S)
    before = running.epoch
    for name in ("one", "two"):
        hosts[name].shun(False)
    _tell(found, running, "link between workers cut, from its healing", running.await_flow(before))


def test_a_worker_is_gone(
    running: QueryOnHosts, hosts: Hosts, cluster: SparkCluster, found: LevelResult
) -> None:
    before = running.epoch
    hosts["two"].die()
    try:
        seconds = running.await_flow(before)
    finally:
        wait_until(lambda: not hosts["two"].processes(), "the end of all that ran there", WAIT_S)
        hosts["two"].heal()
        cluster.start_worker(hosts["two"])
    _tell(found, running, "a worker's host gone", seconds)


def test_a_standby_takes_over_from_a_host_that_is_gone(
    running: QueryOnHosts, hosts: Hosts, found: LevelResult
) -> None:
    running.stand_by(hosts["other"])
    newest = running.newest()
    hosts["driver"].die()
    seconds = running.await_records_above(newest)
    running.bury(hosts["driver"])
    wait_until(lambda: not hosts["driver"].processes(), "the end of all that ran there", WAIT_S)
    _tell(
        found,
        running,
        f"the driver's host gone, standby, lease {LEASE_S:g} s, epochs of {EPOCH_MS} ms",
        seconds,
    )
