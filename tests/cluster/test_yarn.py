"""Queries on a real YARN, their checkpoints on a real HDFS, submitted by the provider."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_provider_continuous.deploy.contract import DriverState
from airflow_provider_continuous.rest import wait_for
from tests.cluster.on_yarn import WAIT_S, OnYarn
from tests.servers.hadoop import Hadoop

both_modes = pytest.mark.parametrize("mode", ["client", "cluster"])
Make = Callable[[str], OnYarn]


@pytest.fixture
def on_yarn(
    hadoop: Hadoop, node_python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Make]:
    """Makes a query of a mode."""
    made: list[OnYarn] = []

    def make(mode: str) -> OnYarn:
        made.append(OnYarn(hadoop, node_python, tmp_path, mode, monkeypatch))
        return made[-1]

    yield make
    for each in made:
        found = each.hook.on_its_way(each.location)
        if found is not None:
            found.end()


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
