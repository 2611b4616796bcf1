"""Queries on a real YARN, their checkpoints on a real HDFS, submitted by the provider."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_provider_continuous.deploy.contract import DriverState
from airflow_provider_continuous.deploy.submitted import QueryStartError
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.retention import prune
from engine.commands.command_line import main
from scripts.local_airflow.rest import wait_for
from tests.cluster.on_yarn import OnYarn
from tests.cluster.one_query import WAIT_S, all_ended
from tests.servers.hadoop import Hadoop
from tests.sink_files import committed_rows

EXECUTOR = "org.apache.spark.executor.YarnCoarseGrainedExecutorBackend"
DRIVER = "org.apache.spark.deploy.yarn.ApplicationMaster"
_KEYS = 5
both_modes = pytest.mark.parametrize("mode", ["client", "cluster"])
Make = Callable[[str], OnYarn]


@pytest.fixture
def on_yarn(
    hadoop: Hadoop, node_python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Make]:
    """Makes a query of a mode."""

    def make(mode: str) -> OnYarn:
        return OnYarn(hadoop, node_python, tmp_path, mode, monkeypatch)

    with all_ended(make) as queries:
        yield queries


@both_modes
def test_a_query_drains_and_goes_on(on_yarn: Make, mode: str) -> None:
    query = on_yarn(mode)
    submitted, status = query.start()
    assert submitted.runs(status)
    assert submitted.look().state is DriverState.RUNNING
    assert status.application in query.applications()
    query.await_epochs(2)
    query.drain()
    wait_for(lambda: submitted.look().state is DriverState.ENDED, WAIT_S, "its end as told", 0.2)
    first = query.assert_each_once()

    submitted, status = query.start()
    query.await_epochs(2)
    query.drain()
    wait_for(lambda: submitted.look().state is DriverState.ENDED, WAIT_S, "its end as told", 0.2)
    assert len(query.assert_each_once()) > len(first)
    assert set(query.applications().values()) <= {"FINISHED"}


def test_a_worker_that_died_left_one_application_and_a_kill_leaves_none(on_yarn: Make) -> None:
    query = on_yarn("cluster")
    before = set(query.applications())
    query.submit_and_die()

    submitted, status = query.start()  # found by its note, and on YARN by its tag
    (application,) = set(query.applications()) - before
    assert (submitted.handle.driver_id, status.application) == (application, application)
    query.await_epochs(2)
    assert submitted.kill()
    wait_for(lambda: submitted.look().state is DriverState.ENDED, WAIT_S, "its end as told", 0.2)
    assert query.applications()[application] == "KILLED"
    assert query.hook.on_its_way(query.location) is None

    query.start()
    query.await_epochs(2)
    query.drain()
    query.assert_each_once()


@both_modes
def test_an_executor_is_killed(on_yarn: Make, mode: str) -> None:
    query = on_yarn(mode)
    _, status = query.start()
    query.await_epochs(2)
    (executor,) = query.processes(EXECUTOR, status.application)
    executor.kill()
    query.await_epochs(3)
    assert query.hook.status(query.location).run_id == status.run_id
    query.drain()
    query.assert_each_once()


def test_counts_go_on_from_their_state_on_hdfs(
    on_yarn: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    """The executor is killed, which had them in memory; later the query is started anew."""
    query = on_yarn("cluster")
    query.document["source"]["watermark"] = {"column": "timestamp", "delay": "0 seconds"}
    query.document["sql"] = (
        f"SELECT window.start AS at, value % {_KEYS} AS key, count(*) AS n, max(value) AS top "
        f"FROM source GROUP BY window(timestamp, '1 second'), value % {_KEYS}"
    )
    query.document["sink"]["options"] |= {"reducers": 1}
    _, status = query.start()
    query.await_epochs(2)
    (executor,) = query.processes(EXECUTOR, status.application)
    executor.kill()
    query.await_epochs(6)
    query.drain()
    told = _counted(query)
    assert _remembered(query, capsys)

    query.start()
    query.await_epochs(6)
    query.drain()
    assert _counted(query) > told

    checkpoint = Checkpoint(query.location)
    prune(checkpoint, keep_epochs=2)
    assert _remembered(query, capsys)


def _counted(query: OnYarn) -> int:
    """The highest number of the windows in the sink: up to it each was counted, once."""
    rows = committed_rows(query.out, "at", "key", "n", "top")
    assert len({(row["at"], row["key"]) for row in rows}) == len(rows)
    last = max(row["top"] for row in rows)
    assert sum(row["n"] for row in rows) == last + 1
    return last


def _remembered(query: OnYarn, capsys: pytest.CaptureFixture[str]) -> int:
    """How many windows and keys ``continuous state`` tells of."""
    capsys.readouterr()
    main(["state", query.location, "--json"])
    (table,) = json.loads(capsys.readouterr().out)["tables"]
    return int(table["rows"])


def test_the_driver_is_killed_and_yarn_starts_it_again(on_yarn: Make) -> None:
    query = on_yarn("cluster")
    _, status = query.start()
    query.await_epochs(2)
    (driver,) = query.processes(DRIVER, status.application)
    driver.kill()

    def goes_on() -> bool:
        return query.hook.status(query.location).run_id != status.run_id

    wait_for(goes_on, WAIT_S, "the second attempt of the application", 0.2)
    query.await_epochs(2)
    assert query.hook.status(query.location).application == status.application
    query.drain()
    query.assert_each_once()


def test_what_a_driver_has_written_on_its_node_is_told(on_yarn: Make) -> None:
    query = on_yarn("cluster")
    query.document["sql"] = "SELECT no_such_column FROM source"

    with pytest.raises(QueryStartError) as told:
        query.start()

    _, _, words = str(told.value).partition("has written on the cluster:\n")
    assert "no_such_column" in words, str(told.value)
