"""``rewind``, ``pin``, ``unpin`` and ``pins`` on real checkpoints."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.fingerprint_file import write_fingerprint
from engine.checkpoint.lease import Lease
from engine.checkpoint.query_state import QueryState
from engine.checkpoint.storage.local_storage import LocalStorage
from engine.sinks.files.file_sink_log import FOLDER, FileSinkLog, SinkFile
from tests.unit.test_cli import GOLDEN, RATE, Captured, called, called_json


@pytest.fixture
def spark_checkpoint(tmp_path: Path) -> Path:
    """Epochs 0 to 7; Spark has written it, so it does not tell its sink."""
    return Path(shutil.copytree(GOLDEN / RATE, tmp_path / "checkpoint"))


def files_log(folder: Path) -> FileSinkLog:
    return FileSinkLog(LocalStorage(folder / FOLDER))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """The folder of a files sink with epochs 0 to 7."""
    folder = tmp_path / "out"
    for epoch in range(8):
        files_log(folder).add(epoch, [SinkFile(f"file://{folder}/{epoch}", 1, 1)])
    return folder


def record_sink(checkpoint: Path, name: str, **options: str) -> None:
    """As a start of this engine does."""
    parts = {"source": {}, "sink": {"format": name, "options": options}}
    write_fingerprint(Checkpoint(str(checkpoint)).storage, parts)


def test_rewind_with_the_sink_that_the_checkpoint_tells(
    spark_checkpoint: Path, out: Path, capsys: Captured
) -> None:
    record_sink(spark_checkpoint, "parquet", path=str(out))
    code, found = called_json(capsys, "rewind", spark_checkpoint, "--to-epoch", "5")
    assert code == 0
    assert found == {
        "to_epoch": 5, "from_epoch": 7, "generation": 0, "taken_back": True,
        "aside": f"{spark_checkpoint}/rewound/0",
    }  # fmt: skip
    assert Checkpoint(str(spark_checkpoint)).epochs() == list(range(6))
    assert files_log(out).latest() == 5
    _, status = called_json(capsys, "status", spark_checkpoint)
    assert (status["state"], status["epoch"], status["pins"]) == ("STOPPED", 5, [])
    assert status["fingerprint"]["sink"]["format"] == "parquet"


def test_status_tells_a_rewind_as_one_and_not_as_a_run(
    spark_checkpoint: Path, out: Path, capsys: Captured
) -> None:
    record_sink(spark_checkpoint, "parquet", path=str(out))
    assert called(capsys, "rewind", spark_checkpoint, "--to-epoch", "5")[0] == 0
    _, text, _ = called(capsys, "status", spark_checkpoint)
    told = dict(line.split(maxsplit=1) for line in text.splitlines())
    assert re.fullmatch(rf"\S+Z, by process {os.getpid()} on \S+", told["rewound"])
    assert not told.keys() & {"run", "process", "started", "heartbeat"}
    Lease.acquire(Checkpoint(str(spark_checkpoint)), run_id="run-1").release(QueryState.STOPPED)
    _, text, _ = called(capsys, "status", spark_checkpoint)
    assert "rewound" not in text
    assert re.search(rf"^process +{os.getpid()} on ", text, re.M)


def test_rewind_with_a_specification(
    spark_checkpoint: Path, out: Path, tmp_path: Path, capsys: Captured
) -> None:
    spec = tmp_path / "query.json"
    spec.write_text(
        json.dumps(
            {
                "source": {"format": "rate"},
                "sink": {"format": "parquet", "options": {"path": str(out)}},
                "checkpoint_location": str(spark_checkpoint),
            }
        )
    )
    code, text, _ = called(capsys, "rewind", spark_checkpoint, "--to-epoch", "3", "--spec", spec)
    assert code == 0
    assert text.startswith("Rewound from epoch 7 to 3; the next start goes on at 4. The sink has")
    assert files_log(out).latest() == 3


def test_a_specification_without_a_sink(
    spark_checkpoint: Path, tmp_path: Path, capsys: Captured
) -> None:
    spec = tmp_path / "query.json"
    spec.write_text('{"query": "json:dumps"}')
    code, _, err = called(capsys, "rewind", spark_checkpoint, "--to-epoch", "3", "--spec", spec)
    assert code == 2
    assert "names no sink" in err


@pytest.mark.parametrize("sink", [None, "console", "foreach", "their_sink"])
def test_rewind_says_first_that_rows_would_repeat(
    sink: str | None, spark_checkpoint: Path, capsys: Captured
) -> None:
    if sink is not None:
        record_sink(spark_checkpoint, sink)
    code, out, err = called(capsys, "rewind", spark_checkpoint, "--to-epoch", "5")
    assert (code, out) == (2, "")
    assert "--accept-repeats" in err
    assert Checkpoint(str(spark_checkpoint)).committed_epoch() == 7
    arguments = ("rewind", spark_checkpoint, "--to-epoch", "5", "--accept-repeats")
    code, found = called_json(capsys, *arguments)
    assert (code, found["taken_back"]) == (0, False)


@pytest.mark.parametrize("sink", ["memory", "noop"])
def test_sinks_that_keep_nothing(sink: str, spark_checkpoint: Path, capsys: Captured) -> None:
    record_sink(spark_checkpoint, sink)
    assert called(capsys, "rewind", spark_checkpoint, "--to-epoch", "5")[0] == 0


def test_a_folder_that_is_not_the_sink_s(
    spark_checkpoint: Path, tmp_path: Path, capsys: Captured
) -> None:
    record_sink(spark_checkpoint, "parquet", path=str(tmp_path / "moved"))
    for arguments in (
        ("rewind", spark_checkpoint, "--to-epoch", "5"),
        ("rewind", spark_checkpoint, "--to-epoch", "5", "--accept-repeats"),
        ("pin", spark_checkpoint, "gold"),
    ):
        code, _, err = called(capsys, *arguments)
        assert code == 2
        assert "Is this the folder of the query's sink?" in err
    assert Checkpoint(str(spark_checkpoint)).committed_epoch() == 7


def test_an_epoch_that_was_not_committed_yet_is_not_pinned(
    spark_checkpoint: Path, out: Path, capsys: Captured
) -> None:
    record_sink(spark_checkpoint, "parquet", path=str(out))

    code, _, err = called(capsys, "pin", spark_checkpoint, "early", "--epoch", "99")

    assert code == 2
    assert "Epoch 99 is not among the committed epochs" in err
    assert "Available: 0 to 7" in err


def test_an_epoch_that_is_not_there(spark_checkpoint: Path, capsys: Captured) -> None:
    arguments = ("rewind", spark_checkpoint, "--to-epoch", "8", "--accept-repeats")
    code, _, err = called(capsys, *arguments)
    assert code == 2
    assert "Available: 0 to 7." in err


def test_a_running_query(spark_checkpoint: Path, capsys: Captured) -> None:
    Lease.acquire(Checkpoint(str(spark_checkpoint)), run_id="run-1")
    arguments = ("rewind", spark_checkpoint, "--to-epoch", "5", "--accept-repeats")
    code, _, err = called(capsys, *arguments)
    assert code == 1
    assert "is held by run run-1" in err


@pytest.mark.parametrize(
    "arguments",
    [[], ["--to-epoch", "-1"], ["--to-epoch", "x"], ["--to-epoch", "1", "--to-pin", "a"]],
)
def test_wrong_arguments(arguments: list[str], spark_checkpoint: Path) -> None:
    with pytest.raises(SystemExit) as exit:
        called_json(None, "rewind", spark_checkpoint, *arguments)  # type: ignore[arg-type]
    assert exit.value.code == 2


def test_pins(spark_checkpoint: Path, out: Path, capsys: Captured) -> None:
    record_sink(spark_checkpoint, "parquet", path=str(out))
    assert called(capsys, "pins", spark_checkpoint)[:2] == (0, "No epoch is pinned.\n")
    code, found = called_json(capsys, "pin", spark_checkpoint, "gold", "--epoch", "2")
    assert (code, found["name"], found["epoch"]) == (0, "gold", 2)
    assert called(capsys, "pin", spark_checkpoint, "new")[1] == "Epoch 7 is pinned as new.\n"
    _, found = called_json(capsys, "pins", spark_checkpoint)
    assert [(pin["name"], pin["epoch"]) for pin in found["pins"]] == [("gold", 2), ("new", 7)]
    assert called(capsys, "unpin", spark_checkpoint, "new")[0] == 0
    code, _, err = called(capsys, "unpin", spark_checkpoint, "new")
    assert code == 2
    assert "Its pins: gold." in err
    assert called(capsys, "prune", spark_checkpoint, "--keep-epochs", "2")[0] == 0
    lines = called(capsys, "pins", spark_checkpoint)[1].splitlines()
    assert lines[2].split()[:2] == ["gold", "2"]
    code, found = called_json(capsys, "rewind", spark_checkpoint, "--to-pin", "gold")
    assert (code, found["to_epoch"]) == (0, 2)
    assert Checkpoint(str(spark_checkpoint)).epochs() == [2]
    assert files_log(out).latest() == 2


@pytest.mark.parametrize("command", [["rewind", "--to-epoch", "1"], ["pins"]])
def test_no_checkpoint(command: list[str], tmp_path: Path, capsys: Captured) -> None:
    name, *rest = command
    code, _, err = called(capsys, name, tmp_path / "nowhere", *rest)
    assert code == 2
    assert "There is no checkpoint at " in err
    assert not (tmp_path / "nowhere").exists()


def test_a_sink_that_upserts_is_not_said_to_have_taken_rows_back(
    spark_checkpoint: Path, tmp_path: Path, capsys: Captured
) -> None:
    database = f"sqlite:///{tmp_path}/shop.db"
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.execute("CREATE TABLE numbers (id BIGINT PRIMARY KEY)")
    kept = {"path": database, "table": "numbers", "mode": "upsert", "keycolumns": "id"}
    record_sink(spark_checkpoint, "sqlalchemy", **kept)

    code, text, _ = called(capsys, "rewind", spark_checkpoint, "--to-epoch", "5")

    assert code == 0
    assert "The sink keeps what came later, and gets it again." in text
