"""All that a checkpoint tells, its faults included."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.copies import copy_checkpoint
from engine.checkpoint.fingerprint_file import write_fingerprint
from engine.checkpoint.inspection import inspect_checkpoint
from engine.checkpoint.lease import Lease
from engine.checkpoint.logs.commit_log import CommitEntry
from engine.checkpoint.logs.offset_log import OffsetEntry
from engine.checkpoint.query_state import QueryState
from engine.commands.inspect_checkpoint import describe
from engine.history.folding import History, Mark
from engine.history.measures import Measures
from engine.history.stored import Packer, StoredHistory

GOLDEN = Path(__file__).parents[1] / "golden" / "checkpoints"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    """At epoch 4, with 5 and 6 open."""
    checkpoint = Checkpoint(str(tmp_path / "checkpoint"))
    checkpoint.create_or_read_query_id("query")
    for epoch in range(7):
        checkpoint.offsets.add(epoch, OffsetEntry(({"0": epoch},)))
        if epoch < 5:
            checkpoint.commits.add(epoch, CommitEntry())
    return checkpoint


def test_a_query_of_the_engine(checkpoint: Checkpoint) -> None:
    Lease.acquire(checkpoint, run_id="run").heartbeat(state=QueryState.RUNNING)
    write_fingerprint(checkpoint.storage, {})
    checkpoint.progress.write([{"batchId": 4, "numInputRows": 17, "timestamp": "now"}])
    checkpoint.pin("gold", 2)
    found = inspect_checkpoint(checkpoint, last=2)
    assert found.status is not None
    assert (found.status["state"], found.status["epoch"], found.written_by) == (
        "RUNNING", 4, "engine",
    )  # fmt: skip
    assert found.open_epochs == (5, 6)
    assert [(each["epoch"], each["rows"]) for each in found.epochs] == [(3, None), (4, 17)]
    assert found.epochs[1]["offsets"] == [{"0": 4}]
    commits = found.logs["commits"]
    assert (commits.entries, commits.first, commits.last, commits.gaps) == (5, 0, 4, ())
    assert commits.bytes > 0
    assert [pin["name"] for pin in found.pins] == ["gold"]
    assert found.problems == ()
    assert json.loads(json.dumps(found.to_dict())) == found.to_dict()
    text = describe(found)
    for shown in ("RUNNING", "open epochs", "gold", '[{"0": 4}]'):
        assert shown in text


def test_what_was_measured_and_what_happened(checkpoint: Checkpoint) -> None:
    found = inspect_checkpoint(checkpoint)
    assert found.history is not None
    assert (found.history.points, found.history.first_ms) == (0, None)
    assert "history" not in describe(found)

    kept = StoredHistory(History())
    kept.history.add(Measures(1_795_174_660_561, epochs=1))
    kept.history.add(Measures(1_795_174_664_000, epochs=1))
    for number in range(30):
        kept.history.marks.append(
            Mark(1_795_174_660_000 + number, "restarted", f"for the {number}")
        )
    checkpoint.history.write(Packer().within_budget(kept.blocks, lambda: False))
    found = inspect_checkpoint(checkpoint, last=2)
    text = describe(found)
    assert "2026-11-20T11:37:40.000Z to 2026-11-20T11:37:45.000Z, 2 points" in text
    assert "restarted      for the 29" in text
    assert "for the 27" not in text
    assert json.loads(json.dumps(found.to_dict())) == found.to_dict()

    checkpoint.storage.replace("progress/history", b"torn")
    found = inspect_checkpoint(checkpoint)
    assert found.history is None
    assert "progress/history" in "\n".join(found.problems)


def test_what_is_wrong_with_it(checkpoint: Checkpoint) -> None:
    for name in ("commits/2", "offsets/2"):
        checkpoint.storage.delete(name)
    checkpoint.storage.replace("offsets/4", b"torn")
    checkpoint.storage.replace("metadata", b"torn")
    checkpoint.storage.create("pins/gold", b"torn")
    checkpoint.storage.create("control/copy", b"torn")
    found = inspect_checkpoint(checkpoint)
    assert found.logs["commits"].gaps == found.logs["offsets"].gaps == ("2",)
    assert found.status is None
    assert [each["epoch"] for each in found.epochs] == [0, 1, 3, 4]
    assert found.epochs[-1]["offsets"] is None
    told = "\n".join(found.problems)
    for part in ("offsets/4", "pins/gold", "control/copy", "offsets has gaps: 2"):
        assert part in told
    assert describe(found).count("Problem: ") == len(found.problems)
    json.dumps(found.to_dict())


def test_a_copy_tells_what_of(checkpoint: Checkpoint, tmp_path: Path) -> None:
    target = Checkpoint(str(tmp_path / "target"))
    copy_checkpoint(checkpoint, target)
    found = inspect_checkpoint(target)
    assert found.copied_from is not None
    assert found.copied_from["to_epoch"] == 4
    assert f"{checkpoint.url}, epoch 4" in describe(found)


@pytest.mark.parametrize("name", sorted(path.name for path in GOLDEN.iterdir()))
def test_real_checkpoints(name: str) -> None:
    found = inspect_checkpoint(Checkpoint(str(GOLDEN / name)))
    assert found.written_by == ("engine" if name.startswith("engine") else "spark")
    assert found.problems == ()
    assert found.status is not None
    assert found.epochs[-1]["epoch"] == found.status["epoch"] == found.logs["commits"].last
    assert found.location in describe(found)
