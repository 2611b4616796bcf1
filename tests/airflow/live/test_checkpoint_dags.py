"""The operators on checkpoints in DAGs that a real Airflow runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.fingerprint_file import write_fingerprint
from engine.checkpoint.query_state import QueryState
from scripts.local_airflow.rest import AirflowClient
from tests.airflow.live.dag_run import DagRun
from tests.airflow.live_checkpoint import LiveCheckpoint

pytestmark = pytest.mark.airflow

DAGS = Path(__file__).parents[1] / "dags" / "checkpoints.py"
PAGE = Path(__file__).parents[3] / "docs" / "airflow" / "checkpoints.md"


def noop_query(location: Path) -> LiveCheckpoint:
    """At epoch 9; its sink keeps nothing."""
    live = LiveCheckpoint(location)
    live.hold()
    live.commit(*range(10))
    parts = {"sink": {"format": "noop", "options": {}}}
    write_fingerprint(live.checkpoint.storage, parts)
    return live


def test_a_night_in_the_life_of_a_checkpoint(airflow: AirflowClient, tmp_path: Path) -> None:
    live = noop_query(tmp_path / "orders")
    shadow = tmp_path / "shadow"

    run = DagRun(
        airflow,
        "look_after_checkpoints",
        checkpoint=live.location,
        night="2026-01-01",
        shadow=str(shadow),
    ).succeeds()

    assert run.result("inspect")["status"]["state"] == "RUNNING"
    assert run.result("pin")["epoch"] == 9
    pruned = run.result("prune")
    assert (pruned["removed_epochs"], pruned["kept_from"], pruned["sink"]) == (8, 8, None)
    assert run.result("shadow")["to_epoch"] == 9
    copy = Checkpoint(str(shadow))
    assert (copy.epochs(), copy.query_id()) == ([8, 9], run.result("shadow")["query_id"])
    live.commit(10, 11)

    # While it runs it cannot go back, and a retry cannot help.
    refused = DagRun(airflow, "go_back", checkpoint=live.location, pin="nightly-2026-01-01")
    assert "is held by run run-1" in refused.fails()
    live.end(QueryState.STOPPED)
    back = DagRun(airflow, "go_back", checkpoint=live.location, pin="nightly-2026-01-01")
    assert back.succeeds().result("rewind")["taken_back"] is True
    assert live.checkpoint.committed_epoch() == 9
    assert back.result("unpin") == {"name": "nightly-2026-01-01", "removed": True}


def test_a_mapped_prune(airflow: AirflowClient, tmp_path: Path) -> None:
    queries = [noop_query(tmp_path / name) for name in ("a", "b")]
    locations = [query.location for query in queries]

    run = DagRun(airflow, "prune_each", checkpoints=locations).succeeds()

    tasks = airflow.tasks(run.dag_id, run.run_id)
    assert sorted(each["map_index"] for each in tasks if each["task_id"] == "prune") == [0, 1]
    assert [query.checkpoint.epochs() for query in queries] == [[8, 9], [8, 9]]


def test_one_that_cannot_be_pruned_fails_the_night_by_its_name(
    airflow: AirflowClient, tmp_path: Path
) -> None:
    good = noop_query(tmp_path / "good")
    broken = noop_query(tmp_path / "broken")
    (Path(broken.location) / "commits").rename(tmp_path / "moved")
    (Path(broken.location) / "commits").symlink_to("commits")  # a loop: the disk says no

    run = DagRun(airflow, "scheduled_pruning", root=str(tmp_path))

    assert f"{broken.location}: " in run.fails()
    assert good.checkpoint.epochs() == list(range(10)), "they are younger than an hour"


def test_the_page_shows_what_was_run_here() -> None:
    shown = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    code = _without_layout(DAGS.read_text(encoding="utf-8"))

    assert len(shown) >= 2
    for block in shown:
        assert _without_layout(block) in code


def _without_layout(code: str) -> str:
    return re.sub(r"\s+|,(?=\s*\))", "", code)
