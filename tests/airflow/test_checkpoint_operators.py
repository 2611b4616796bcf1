"""The operators on checkpoints: many by one pattern, pins, rewinds, copies, inspection."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_continuous.compat import AirflowException, AirflowFailException
from airflow_provider_continuous.operators.checkpoint import (
    CopyCheckpointOperator,
    InspectCheckpointOperator,
    PinEpochOperator,
    PruneCheckpointOperator,
    RewindCheckpointOperator,
    UnpinEpochOperator,
)
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.fingerprint_file import write_fingerprint
from engine.checkpoint.query_state import QueryState
from engine.checkpoint.storage.local_storage import LocalStorage
from engine.errors import ConcurrentRunError
from engine.sinks.files.file_sink_log import FOLDER, FileSinkLog, SinkFile
from tests.airflow.live_checkpoint import LiveCheckpoint

GOLDEN = Path(__file__).parents[1] / "golden" / "checkpoints"
SPARK = "spark-4.3-rate-microbatch"


@pytest.fixture
def task_context(context: Any) -> Any:
    context["ti"].map_index = -1
    return context


@pytest.fixture
def stopped(live: LiveCheckpoint, tmp_path: Path) -> LiveCheckpoint:
    """Epochs 0 to 9 of a query with a files sink, which has ended."""
    live.hold()
    live.commit(*range(10))
    live.end(QueryState.STOPPED)
    for epoch in range(10):
        out(tmp_path).add(epoch, [SinkFile(f"file:///out/{epoch}", 1, 1)])
    record_sink(live, "parquet", path=str(tmp_path / "out"))
    return live


def out(folder: Path) -> FileSinkLog:
    return FileSinkLog(LocalStorage(folder / "out" / FOLDER))


def record_sink(live: LiveCheckpoint, name: str, **options: str) -> None:
    parts = {"sink": {"format": name, "options": options}}
    write_fingerprint(live.checkpoint.storage, parts)


def run(operator: type, context: Any, **arguments: Any) -> dict[str, Any]:
    """The operator's result, which is JSON."""
    result = operator(task_id="task", **arguments).execute(context)
    assert json.loads(json.dumps(result)) == result
    assert isinstance(result, dict)
    return result


@pytest.mark.parametrize(
    "operator",
    [
        CopyCheckpointOperator,
        InspectCheckpointOperator,
        PinEpochOperator,
        PruneCheckpointOperator,
        RewindCheckpointOperator,
        UnpinEpochOperator,
    ],
)
def test_what_is_templated_exists(operator: type, task_context: Any) -> None:
    needed = {
        CopyCheckpointOperator: {"target_location": "/t"},
        PinEpochOperator: {"name": "gold"},
        PruneCheckpointOperator: {"keep_epochs": 2},
        RewindCheckpointOperator: {"to_epoch": 1},
        UnpinEpochOperator: {"name": "gold"},
    }
    arguments = {"checkpoint_location": "/nowhere/at/all", **needed.get(operator, {})}
    task = operator(task_id="task", **arguments)
    assert {"checkpoint_location", "storage_conn_id"} <= set(task.template_fields)
    assert all(hasattr(task, field) for field in task.template_fields)
    with pytest.raises(AirflowFailException, match="There is no checkpoint at /nowhere/at/all"):
        task.execute(task_context)


# -- prune ----------------------------------------------------------------------------------------


def test_many_at_once_and_a_broken_one_among_them(tmp_path: Path, context: Any) -> None:
    root = tmp_path / "root"
    for name in ("a", "c"):
        LiveCheckpoint(root / name).commit(*range(10))
    shutil.copytree(GOLDEN / SPARK, root / "spark")
    (root / "no-checkpoint").mkdir()
    broken = LiveCheckpoint(root / "b")
    broken.commit(*range(10))
    record_sink(broken, "parquet", path="ftp://not/local")
    for name in ("a", "c", "spark"):
        record_sink(LiveCheckpoint(root / name), "noop")
    arguments = {
        "checkpoint_location": f"{root}/*",
        "keep_epochs": "2",
        "compact_sink": True,
    }

    with pytest.raises(AirflowFailException) as failed:
        run(PruneCheckpointOperator, context, **arguments)

    text = str(failed.value)
    assert text.startswith("1 of 4 checkpoints were not pruned:")
    assert f"{root}/b: " in text
    assert "ftp://not/local" in text
    for name in ("a", "c", "spark"):
        assert len(Checkpoint(str(root / name)).epochs()) == 2

    record_sink(broken, "noop")
    result = run(PruneCheckpointOperator, context, **arguments)
    assert [each["checkpoint_location"] for each in result["checkpoints"]] == [
        f"{root}/{name}" for name in ("a", "b", "c", "spark")
    ]
    assert result["removed_epochs"] == 0, "b was pruned before its sink was looked at"


def test_a_checkpoint_that_cannot_be_read_may_be_tried_again(tmp_path: Path, context: Any) -> None:
    for name in ("a", "b"):
        LiveCheckpoint(tmp_path / name).commit(*range(5))
    (tmp_path / "a" / "offsets").rename(tmp_path / "a" / "moved")
    (tmp_path / "a" / "offsets").symlink_to("offsets")  # a loop: the disk says no

    with pytest.raises(AirflowException, match="1 of 2 checkpoints") as failed:
        run(PruneCheckpointOperator, context, checkpoint_location=f"{tmp_path}/*", keep_epochs=2)

    assert not isinstance(failed.value, AirflowFailException)
    assert Checkpoint(str(tmp_path / "b")).epochs() == [3, 4]


def test_a_log_folder_that_cannot_be_read_fails_no_prune(tmp_path: Path, context: Any) -> None:
    live = LiveCheckpoint(tmp_path / ("long" * 63))  # no file can be called so, and .logs
    live.commit(0, 1, 2)
    prune = PruneCheckpointOperator(
        task_id="prune", checkpoint_location=live.location, keep_epochs=2
    )

    assert prune.execute(context)["removed_epochs"] == 1


def test_a_pattern_that_matches_nothing(tmp_path: Path, context: Any) -> None:
    with pytest.raises(AirflowFailException, match="No checkpoint matches"):
        run(PruneCheckpointOperator, context, checkpoint_location=f"{tmp_path}/*", keep_epochs=2)


def test_by_size(live: LiveCheckpoint, context: Any) -> None:
    live.commit(*range(10))
    arguments = {"checkpoint_location": live.location, "keep_epochs": 5}
    assert run(PruneCheckpointOperator, context, **arguments, keep_bytes="0")["kept_from"] == 8


def test_the_sink_s_folder(stopped: LiveCheckpoint, tmp_path: Path, context: Any) -> None:
    report = run(
        PruneCheckpointOperator,
        context,
        checkpoint_location=stopped.location,
        keep_epochs=2,
        compact_sink=True,
        remove_orphans=True,
        dry_run=True,
    )
    assert report["sink"] == {
        "path": str(tmp_path / "out"),
        "removed_entries": 0,
        "removed_files": 0,
        "removed_bytes": 0,
        "dry_run": True,
    }


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"keep_bytes": 1, "sink_path": "/out"}, "sink_path is for compact_sink"),
        ({"keep_bytes": 1, "sink": {"format": "json"}}, "sink is for compact_sink"),
        (
            {"keep_bytes": 1, "compact_sink": True, "sink_path": "/o", "sink": {"format": "json"}},
            "give sink or sink_path",
        ),
        ({}, "give keep_epochs"),
        ({"keep_bytes": 1, "orphans_older_than": 7200}, "orphans_older_than needs remove_orphans"),
    ],
)
def test_arguments_that_do_not_fit(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        PruneCheckpointOperator(task_id="task", checkpoint_location="/c", **arguments)


def test_orphans_have_a_day() -> None:
    arguments: Any = {"task_id": "task", "checkpoint_location": "/c", "keep_epochs": 2}

    assert PruneCheckpointOperator(**arguments, remove_orphans=True).orphans_older_than == 86400
    assert PruneCheckpointOperator(**arguments).orphans_older_than is None


# -- pins and rewinds -----------------------------------------------------------------------------


def test_pin_prune_rewind(stopped: LiveCheckpoint, tmp_path: Path, context: Any) -> None:
    location = stopped.location
    pin = run(PinEpochOperator, context, checkpoint_location=location, name="gold", epoch="4")
    assert (pin["name"], pin["epoch"]) == ("gold", 4)
    run(PruneCheckpointOperator, context, checkpoint_location=location, keep_epochs=2)

    report = run(RewindCheckpointOperator, context, checkpoint_location=location, to_pin="gold")

    assert (report["from_epoch"], report["to_epoch"], report["taken_back"]) == (9, 4, True)
    assert stopped.checkpoint.epochs() == [4]
    assert out(tmp_path).latest() == 4
    unpinned = run(UnpinEpochOperator, context, checkpoint_location=location, name="gold")
    assert unpinned == {"name": "gold", "removed": True}


def test_a_retry_finds_its_pin(live: LiveCheckpoint, context: Any) -> None:
    live.hold()
    live.commit(0, 1)
    arguments = {"checkpoint_location": live.location, "name": "nightly"}
    first = run(PinEpochOperator, context, **arguments)
    live.commit(2)
    assert run(PinEpochOperator, context, **arguments) == first
    with pytest.raises(AirflowFailException, match="is at epoch 1 already"):
        run(PinEpochOperator, context, **arguments, epoch=2)


@pytest.mark.parametrize(
    ("operator", "name", "others"),
    [
        (PinEpochOperator, "epoch", {"name": "gold"}),
        (CopyCheckpointOperator, "to_epoch", {"target_location": "copy"}),
        (RewindCheckpointOperator, "to_epoch", {}),
        (PruneCheckpointOperator, "keep_epochs", {"keep_for": 0.0}),
        (PruneCheckpointOperator, "keep_bytes", {"keep_epochs": 1}),
    ],
)
def test_a_number_that_no_template_has_found_was_not_left_out(
    stopped: LiveCheckpoint,
    tmp_path: Path,
    context: Any,
    operator: Any,
    name: str,
    others: dict[str, Any],
) -> None:
    """Of a DAG that renders native objects: another epoch is pinned, more is pruned than meant."""
    if "target_location" in others:
        others = {"target_location": str(tmp_path / "copy")}
    others = {
        key: str(tmp_path / "copy") if each == "COPY" else each for key, each in others.items()
    }
    task = operator(
        task_id="t",
        checkpoint_location=stopped.location,
        **{name: "{{ params.number }}"},
        **others,
    )
    setattr(task, name, None)

    with pytest.raises(AirflowFailException, match=f"{name} is None"):
        task.execute(context)

    assert stopped.checkpoint.epochs() == list(range(10))
    assert stopped.checkpoint.pins() == []
    assert not (tmp_path / "copy").exists()


def test_a_pin_that_is_not_there(live: LiveCheckpoint, context: Any) -> None:
    arguments = {"checkpoint_location": live.location, "name": "gold"}
    live.commit(0)
    with pytest.raises(AirflowFailException, match="has no pin 'gold'"):
        run(UnpinEpochOperator, context, **arguments)
    result = run(UnpinEpochOperator, context, **arguments, missing_ok=True)
    assert result == {"name": "gold", "removed": False}


def test_no_rewind_while_a_run_is_live(live: LiveCheckpoint, context: Any) -> None:
    live.hold("run-1")
    live.commit(*range(5))
    record_sink(live, "noop")
    with pytest.raises(AirflowFailException, match="is held by run run-1") as failed:
        run(RewindCheckpointOperator, context, checkpoint_location=live.location, to_epoch="2")
    assert isinstance(failed.value.__cause__, ConcurrentRunError)
    assert live.checkpoint.committed_epoch() == 4


@pytest.mark.parametrize("given", [None, {"format": "kafka", "options": {"topic": "t"}}])
def test_a_sink_that_cannot_take_back_is_named_before_anything_changes(
    stopped: LiveCheckpoint, context: Any, given: dict[str, Any] | None
) -> None:
    record_sink(stopped, "kafka")
    arguments = {"checkpoint_location": stopped.location, "to_epoch": 3, "sink": given}
    with pytest.raises(AirflowFailException, match="cannot take back the rows of later epochs"):
        run(RewindCheckpointOperator, context, **arguments)
    assert stopped.checkpoint.committed_epoch() == 9
    report = run(RewindCheckpointOperator, context, **arguments, accept_repeats=True)
    assert (report["to_epoch"], report["taken_back"]) == (3, False)


@pytest.mark.parametrize("given", [{}, {"to_epoch": 1, "to_pin": "gold"}])
def test_a_rewind_has_one_target(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="to_epoch or to_pin"):
        RewindCheckpointOperator(task_id="task", checkpoint_location="/c", **given)


@pytest.mark.parametrize(
    ("operator", "arguments"),
    [(PinEpochOperator, {"name": "gold"}), (RewindCheckpointOperator, {"to_epoch": 1})],
)
def test_checkpoints_of_spark_are_not_rewound(
    tmp_path: Path, context: Any, operator: type, arguments: dict[str, Any]
) -> None:
    copy = Path(shutil.copytree(GOLDEN / SPARK, tmp_path / "spark"))
    before = sorted(path for path in copy.rglob("*"))
    with pytest.raises(AirflowFailException, match="only Spark itself has run its query"):
        run(operator, context, checkpoint_location=str(copy), **arguments)
    assert sorted(path for path in copy.rglob("*")) == before


# -- inspect and copy -----------------------------------------------------------------------------


def test_inspect(stopped: LiveCheckpoint, context: Any) -> None:
    found = run(InspectCheckpointOperator, context, checkpoint_location=stopped.location, last="3")
    assert (found["status"]["state"], found["status"]["epoch"]) == ("STOPPED", 9)
    assert [each["epoch"] for each in found["epochs"]] == [7, 8, 9]


def test_inspect_fails_on_problems_if_asked_to(stopped: LiveCheckpoint, context: Any) -> None:
    stopped.checkpoint.storage.delete("commits/5")
    arguments = {"checkpoint_location": stopped.location}
    assert run(InspectCheckpointOperator, context, **arguments)["logs"]["commits"]["gaps"] == ["5"]
    with pytest.raises(AirflowFailException, match="commits has gaps: 5"):
        run(InspectCheckpointOperator, context, **arguments, fail_on_problems=True)


@pytest.mark.parametrize("name", sorted(path.name for path in GOLDEN.iterdir()))
def test_copies_and_inspections_of_real_checkpoints(
    name: str, tmp_path: Path, task_context: Any
) -> None:
    target = str(tmp_path / "target")
    arguments = {"checkpoint_location": str(GOLDEN / name), "target_location": target}
    report = run(CopyCheckpointOperator, task_context, **arguments)
    assert run(CopyCheckpointOperator, task_context, **arguments)["query_id"] == report["query_id"]
    found = run(InspectCheckpointOperator, task_context, checkpoint_location=target)
    assert found["status"]["id"] == report["query_id"] != report["source_id"]
    assert found["status"]["epoch"] == report["to_epoch"]
    assert found["copied_from"]["source"] == str(GOLDEN / name)
    task_context["run_id"] = "another"
    with pytest.raises(AirflowFailException, match="There is something at"):
        run(CopyCheckpointOperator, task_context, **arguments)
