"""``prune`` of many and of sinks, ``copy`` and ``inspect`` on real checkpoints."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.fingerprint_file import write_fingerprint
from engine.checkpoint.storage.local_storage import LocalStorage
from engine.sinks.files.file_sink_log import FOLDER, FileSinkLog, SinkFile
from tests.unit.test_cli import GOLDEN, RATE, Captured, called, called_json


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Epochs 0 to 7."""
    return Path(shutil.copytree(GOLDEN / RATE, tmp_path / "root" / "one"))


def test_prune_many(checkpoint: Path, capsys: Captured) -> None:
    two = shutil.copytree(GOLDEN / RATE, checkpoint.parent / "two")
    (checkpoint.parent / "empty").mkdir()
    pattern = f"{checkpoint.parent}/*"
    code, found = called_json(capsys, "prune", pattern, "--keep-epochs", "3")
    assert code == 0
    assert {name: each["removed_epochs"] for name, each in found["checkpoints"].items()} == {
        str(checkpoint): 5,
        str(two): 5,
    }
    (Path(two) / "control").mkdir()
    (Path(two) / "control" / "fingerprint").write_text("torn")
    arguments = ("prune", pattern, "--keep-bytes", "0", "--compact-sink")
    code, text, _ = called(capsys, *arguments)
    assert code == 1
    assert f"{checkpoint}: " in text
    assert "does not tell which sink" in text
    assert f"{two}: " in text
    assert "fingerprint cannot be read" in text
    assert Checkpoint(str(checkpoint)).epochs() == [6, 7]
    code, _, err = called(capsys, *arguments, "--sink-path", "/out")
    assert code == 2
    assert "there is one --sink-path" in err
    code, _, err = called(capsys, *arguments, "--spec", "query.yaml")
    assert code == 2
    assert "there is one --spec" in err
    code, _, err = called(capsys, "prune", f"{checkpoint}/nothing*")
    assert code == 2
    assert "No checkpoint matches" in err


def test_prune_a_sink(checkpoint: Path, tmp_path: Path, capsys: Captured) -> None:
    log = FileSinkLog(LocalStorage(tmp_path / "out" / FOLDER), interval=2, cleanup_delay_s=0)
    for epoch in range(8):
        log.add(epoch, [SinkFile(f"file:///out/{epoch}", 1, 1)])
    options = {"path": str(tmp_path / "out")}
    parts = {"sink": {"format": "parquet", "options": options}}
    write_fingerprint(Checkpoint(str(checkpoint)).storage, parts)
    arguments = ("prune", checkpoint, "--keep-epochs", "2", "--compact-sink")
    code, text, _ = called(capsys, *arguments, "--dry-run")
    assert code == 0
    assert "Would remove 0 entries of the sink's log and 0 data files" in text, "they are young"
    spec = tmp_path / "query.json"
    for sink, problem in (
        ({"format": "parquet", "options": options}, None),
        ({"format": "parquet", "options": {"path": "/o"}}, r"\[path=.*out\], not .*\[path=/o\]"),
        ({"format": "delta", "options": options}, r"writes to parquet\[\], not to delta\[\]"),
        (None, "names no sink.*--sink-path"),
    ):
        named = {"source": {"format": "rate"}, "sink": sink, "checkpoint_location": "/c"}
        if sink is None:
            named = {"query": "json:dumps"}
        spec.write_text(json.dumps(named))
        code, _, err = called(capsys, *arguments, "--dry-run", "--spec", spec)
        assert code == (0 if problem is None else 2)
        assert re.search(problem or "^$", err, re.DOTALL)
    code, _, err = called(capsys, *arguments[:-1], "--spec", spec)
    assert code == 2
    assert "--spec is for --compact-sink or --remove-orphans" in err
    code, _, err = called(capsys, *arguments, "--remove-orphans", "1 minute")
    assert code == 2
    assert "3600 s old or more" in err
    code, _, err = called(capsys, *arguments, "--remove-orphans")
    assert code == 2
    assert "No run of this engine" in err


def test_copy_and_inspect(checkpoint: Path, tmp_path: Path, capsys: Captured) -> None:
    target = tmp_path / "target"
    code, text, _ = called(capsys, "copy", checkpoint, target, "--to-epoch", "5")
    assert code == 0
    assert text.startswith(f"Copied epochs 0 to 5 to {target}, ")
    assert "goes on at epoch 6. Not copied: the sink's rows" in text
    code, _, err = called(capsys, "copy", checkpoint, target)
    assert code == 2
    assert "There is something at" in err
    code, found = called_json(capsys, "inspect", target, "--last", "2")
    assert code == 0
    assert [each["epoch"] for each in found["epochs"]] == [4, 5]
    assert found["copied_from"]["to_epoch"] == 5
    lines = called(capsys, "inspect", target)[1].splitlines()
    assert lines[0].split() == ["checkpoint", str(target)]
    assert any(line.split()[:2] == ["commits", "6"] for line in lines)


def test_queries_of_spark_have_no_dead_letters(checkpoint: Path, capsys: Captured) -> None:
    report = {"batchId": 7, "runId": "run", "sink": {"description": "noop"}}
    Checkpoint(str(checkpoint)).progress.write([report])
    code, text, _ = called(capsys, "dead-letters", checkpoint)
    assert code == 0
    assert text.startswith("Spark runs this query, and has no dead letters: ")
    batches = GOLDEN / "spark-4.3-rate-microbatch"
    assert called(capsys, "dead-letters", batches)[:2] == (0, text), "of which there is no report"


def test_spark_s_state_has_no_stages(capsys: Captured) -> None:
    arguments = ("rescale", GOLDEN / "spark-4.3-window-watermark", "--reducers", "3")
    code, _, err = called(capsys, *arguments)
    assert code == 2
    assert "spark.sql.shuffle.partitions" in err
    assert "keeps no state" not in err


def test_dead_letters(checkpoint: Path, tmp_path: Path, capsys: Captured) -> None:
    arguments = ("dead-letters", checkpoint)
    code, text, _ = called(capsys, *arguments)
    assert (code, text) == (0, "No epoch has a report yet, which would tell where they are.\n")

    def told(sink: str) -> None:
        report = {"batchId": 7, "runId": "run", "sink": {"description": sink}, "latencyMs": {}}
        Checkpoint(str(checkpoint)).progress.write([report])

    told("noop")
    code, text, _ = called(capsys, *arguments)
    assert code == 0
    assert "onBadRecord" in text

    letters = tmp_path / "letters"
    told(f"noop, dead letters: json[{letters}]")
    code, text, _ = called(capsys, *arguments)
    assert (code, text) == (0, f"No record was put aside in {letters}.\n")
    letters.mkdir()
    log = FileSinkLog(LocalStorage(letters / FOLDER))
    for epoch in range(30):
        letter = {"epoch": epoch, "partition": 1, "offset": "5", "record": "x" * 200}
        line = json.dumps({**letter, "error": "no number,\npassword=hunter2"})
        (letters / f"{epoch}.json").write_text(f"{line}\n")
        log.add(epoch, [SinkFile(f"file://{letters}/{epoch}.json", 1, 1)])
    code, text, _ = called(capsys, *arguments, "--last", "12")
    assert code == 0
    lines = text.splitlines()
    assert lines[2].split() == ["29", "1", "5", "x" * 80 + "...", "no", "number,", "password=***"]
    code, found = called_json(capsys, *arguments, "--last", "100")
    assert code == 0
    assert [each["epoch"] for each in found["letters"]] == [*range(29, -1, -1)]
    assert found["letters"][0]["record"] == "x" * 200
    (letters / FOLDER / "30").write_text("torn")
    code, text, _ = called(capsys, *arguments)
    assert code == 1
    assert f"{letters} cannot be read" in text
