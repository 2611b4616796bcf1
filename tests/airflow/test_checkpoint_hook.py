"""CheckpointHook and PruneCheckpointOperator, on checkpoints of the engine and of Spark."""

from __future__ import annotations

import json
import shutil
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from airflow_provider_continuous.compat import AirflowFailException
from airflow_provider_continuous.hooks.checkpoint import CheckpointHook
from airflow_provider_continuous.operators.checkpoint import PruneCheckpointOperator
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.logs.commit_log import CommitEntry
from engine.checkpoint.query_state import QueryState
from tests.airflow.live_checkpoint import LiveCheckpoint

GOLDEN = Path(__file__).parents[1] / "golden" / "checkpoints"


def test_nothing_there_yet(tmp_path: Path) -> None:
    hook = CheckpointHook(tmp_path / "none")

    assert not hook.exists()
    assert hook.committed_epoch() == -1
    assert hook.epochs() == []
    assert hook.offsets() is None
    assert hook.status().state is QueryState.UNKNOWN


def test_a_running_query(live: LiveCheckpoint) -> None:
    live.hold("run-1")
    live.commit(0, 1, 2)
    hook = CheckpointHook(live.location)

    assert hook.exists()
    assert hook.committed_epoch() == 2
    assert hook.epochs() == [0, 1, 2]
    assert hook.offsets() == [{"0": 30}]
    assert hook.offsets(1) == [{"0": 20}]
    status = hook.status()
    assert (status.id, status.run_id, status.state) == ("a-query", "run-1", QueryState.RUNNING)


def test_an_epoch_described(live: LiveCheckpoint) -> None:
    live.commit(0)

    described = CheckpointHook(live.location).describe_epoch(0)

    assert (described["epoch"], described["offsets"]) == (0, [{"0": 10}])
    age = datetime.now(timezone.utc) - datetime.fromisoformat(described["committed_at"])
    assert timedelta(seconds=-1) < age < timedelta(minutes=1)


def test_an_epoch_that_retention_has_removed(live: LiveCheckpoint) -> None:
    live.commit(0, 1, 2, 3)
    hook = CheckpointHook(live.location)

    report = hook.prune(keep_epochs=2)

    assert report.removed_epochs == 2
    assert hook.epochs() == [2, 3]
    assert hook.describe_epoch(0) == {"epoch": 0, "offsets": None, "committed_at": None}


@pytest.mark.parametrize("name", sorted(path.name for path in GOLDEN.glob("spark-*")))
def test_a_checkpoint_of_spark(name: str) -> None:
    hook = CheckpointHook(GOLDEN / name)
    expected = max(int(path.name) for path in (GOLDEN / name / "commits").glob("[0-9]*"))

    assert hook.committed_epoch() == expected
    offsets = hook.offsets()
    assert offsets is not None
    json.dumps(offsets)
    assert hook.status().state is QueryState.UNKNOWN
    assert hook.status().id == json.loads((GOLDEN / name / "metadata").read_text())["id"]


class Vault(MemoryFileSystem):  # type: ignore[misc]
    """Storage in memory that opens only with the right key."""

    protocol = "vault"

    def __init__(self, key: str | None = None, **options: Any) -> None:
        super().__init__(**options)
        if key != "the key":
            raise PermissionError("wrong key")

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path.replace("vault://", "memory://")))


def test_storage_that_an_airflow_connection_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider of a scheme turns a connection into a file system; ours uses just that."""
    fsspec.register_implementation("vault", Vault, clobber=True)
    keys = {"warehouse": "the key"}
    providers = {"vault": lambda conn_id, _: Vault(key=keys.get(conn_id))}
    monkeypatch.setattr("airflow.sdk.io.fs._register_filesystems", lambda: providers)
    written = Checkpoint("vault://orders", {"key": "the key"})
    written.commits.add(4, CommitEntry())

    hook = CheckpointHook("vault://warehouse@orders")

    assert hook.committed_epoch() == 4
    assert hook.location.url == "vault://orders"
    assert "the key" not in repr(hook.location)
    with pytest.raises(PermissionError):
        CheckpointHook("vault://orders", "another").committed_epoch()


@pytest.mark.parametrize("dry_run", [False, True])
def test_the_prune_operator(live: LiveCheckpoint, context: Any, dry_run: bool) -> None:
    live.commit(*range(10))
    task = PruneCheckpointOperator(
        task_id="prune", checkpoint_location=live.location, keep_epochs="3", dry_run=dry_run
    )

    report = task.execute(context)

    assert json.loads(json.dumps(report)) == report
    assert (report["removed_epochs"], report["dry_run"]) == (7, dry_run)
    assert report["removed_bytes"] > 0
    kept = range(10) if dry_run else range(7, 10)
    assert CheckpointHook(live.location).epochs() == list(kept)


def test_pruning_by_age_keeps_what_is_young(live: LiveCheckpoint, context: Any) -> None:
    live.commit(*range(5))
    task = PruneCheckpointOperator(
        task_id="prune", checkpoint_location=live.location, keep_for=timedelta(hours=1)
    )

    assert task.execute(context)["removed_epochs"] == 0


def test_pruning_a_checkpoint_of_spark(tmp_path: Path, context: Any) -> None:
    copy = tmp_path / "spark"
    shutil.copytree(GOLDEN / "spark-4.3-rate-microbatch", copy)
    before = CheckpointHook(copy).epochs()
    assert len(before) > 2
    task = PruneCheckpointOperator(task_id="p", checkpoint_location=str(copy), keep_epochs=2)

    task.execute(context)

    assert CheckpointHook(copy).epochs() == before[-2:]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"keep_epochs": 1}, "restart needs the last 2"),
        ({"keep_epochs": "many"}, "keep_epochs is 'many'"),
        ({"keep_epochs": 5, "checkpoint_location": "/nowhere/at/all"}, "no checkpoint at"),
        ({"keep_epochs": 5, "checkpoint_location": "nosuch://x/y"}, "nosuch"),
    ],
)
def test_bad_arguments_of_the_prune_operator(
    live: LiveCheckpoint, context: Any, arguments: dict[str, Any], problem: str
) -> None:
    task = PruneCheckpointOperator(
        **{"task_id": "p", "checkpoint_location": live.location, **arguments}
    )

    with pytest.raises(AirflowFailException, match=problem):
        task.execute(context)


def test_pruning_needs_a_rule() -> None:
    with pytest.raises(ValueError, match="keep_epochs, keep_for or both"):
        PruneCheckpointOperator(task_id="p", checkpoint_location="/c")
