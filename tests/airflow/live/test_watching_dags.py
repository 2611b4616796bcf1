"""Sensors of offsets and health, and one that begins in the triggerer, in a real Airflow."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.checkpoint.logs.commit_log import CommitEntry
from engine.checkpoint.logs.offset_log import OffsetEntry
from scripts.local_airflow.rest import AirflowClient
from tests.airflow.live.dag_run import DagRun
from tests.airflow.live_checkpoint import LiveCheckpoint

pytestmark = pytest.mark.airflow


def test_a_sensor_that_no_worker_begins(airflow: AirflowClient, live: LiveCheckpoint) -> None:
    live.hold()
    run = DagRun(airflow, "wait_without_a_worker", checkpoint=live.location)
    for task in ("wait", "offsets"):
        run.wait_for_task(task, "deferred")

    live.commit(0, 1, 2)

    assert run.succeeds().result("offsets")["epoch"] == 2
    result = run.result("wait")
    assert (result["epoch"], result["offsets"]) == (2, [{"0": 30}])
    assert run.task("wait")["try_number"] == 1


def test_what_was_there_is_in(airflow: AirflowClient, live: LiveCheckpoint, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("one\ntwo\n")
    live.hold()
    run = DagRun(
        airflow,
        "wait_for_what_is_there",
        checkpoint=live.location,
        folder=str(tmp_path / "in"),
    )
    run.wait_for_task("all_in", "deferred")

    for epoch, end in enumerate([4, 8]):
        live.checkpoint.offsets.add(epoch, OffsetEntry(({"a.txt": end},)))
        live.checkpoint.commits.add(epoch, CommitEntry())

    assert run.succeeds().result("all_in")["epoch"] == 1


def test_a_query_that_gets_healthy(airflow: AirflowClient, live: LiveCheckpoint) -> None:
    live.hold()
    run = DagRun(airflow, "wait_until_healthy", checkpoint=live.location)
    run.wait_for_task("healthy", "deferred")

    live.commit(0)

    assert run.succeeds().result("healthy")["epoch"] == 0
