"""``continuous state``: what people see of a query's state."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.logs.commit_log import CommitEntry
from engine.checkpoint.logs.offset_log import OffsetEntry
from engine.checkpoint.retention import prune
from engine.checkpoint.storage.local_storage import LocalStorage
from engine.errors import CheckpointCorruptError, ConfigError
from engine.state.committed_state import committed_state, schemas_of, tables_of
from engine.state.contract import StateTable
from tests.unit.test_cli import GOLDEN, RATE, Captured, called, called_json
from tests.unit.test_state_retention import Query

TIME = pa.timestamp("us", "UTC")


@pytest.fixture
def query(tmp_path: Path) -> Query:
    """Has committed 10 epochs."""
    checkpoint = Checkpoint(str(tmp_path / "one"))
    checkpoint.create_or_read_query_id("query")
    query = Query(checkpoint)
    query.count(10)
    return query


def test_the_tables(query: Query, capsys: Captured) -> None:
    code, text, _ = called(capsys, "state", query.checkpoint.url)
    assert code == 0
    assert "epoch  9" in text
    assert "stage 1, shelf, counts: 9 rows" in text
    assert "word  until  count" in text
    code, found = called_json(capsys, "state", query.checkpoint.url, "--rows", "2")
    (table,) = found["tables"]
    assert (table["rows"], len(table["shown"]), table["keys"]) == (9, 2, 2)
    assert table["columns"] == ["word", "until", "count"]


@pytest.mark.parametrize("dtype", [TIME, pa.list_(TIME)])
def test_times_that_python_has_not(dtype: pa.DataType, tmp_path: Path, capsys: Captured) -> None:
    table = StateTable("t", pa.schema([("at", dtype), ("count", pa.int64())]), keys=1)
    query = Query(Checkpoint(str(tmp_path / "one")), table=table)
    query.checkpoint.create_or_read_query_id("query")
    year_10000 = 253_402_300_800_000_000
    query.run({(at if dtype == TIME else (at,),): (7,) for at in (0, year_10000)})
    code, found = called_json(capsys, "state", query.checkpoint.url)
    assert code == 0
    (shown,) = found["tables"]
    late = "10000-01-01 00:00:00.000000Z"
    early = "1970-01-01T00:00:00+00:00"
    expected = [late, early] if dtype == TIME else [[late], [early]]
    assert sorted(row[0] for row in shown["shown"]) == expected
    code, found = called_json(capsys, "state", query.checkpoint.url, "--key", f"at={expected[0]}")
    assert [row[1] for row in found["tables"][0]["shown"]] == [7]


def test_a_key_and_an_epoch(query: Query, capsys: Captured) -> None:
    url = query.checkpoint.url
    query.checkpoint.pin("gold", 2)
    prune(query.checkpoint, keep_epochs=3)
    for epoch, count in (("2", 7), ("7", 12), ("9", 14)):
        arguments = ("state", url, "--key", "word=5", "--key", "until=null", "--epoch", epoch)
        code, found = called_json(capsys, *arguments)
        assert code == 0
        (table,) = found["tables"]
        assert table["shown"] == [["5", None, count]]
    code, _, err = called(capsys, "state", url, "--epoch", "3")
    assert code == 2
    assert "Available: 7 to 9; pinned: gold (2)" in err


def test_an_epoch_that_retention_removes_while_it_is_read(query: Query) -> None:
    checkpoint = query.checkpoint
    early = committed_state(checkpoint, 0)
    query.count(40)  # another chain of files has begun
    prune(checkpoint, keep_epochs=2)
    for look in (tables_of, schemas_of):
        with pytest.raises(ConfigError, match="Epoch 0 is not among") as told:
            look(checkpoint, early, 1)
        assert told.value.hint == "Available: 48 to 49."


def test_a_file_that_is_missing_is_no_epoch_that_was_removed(query: Query) -> None:
    checkpoint = query.checkpoint
    state = committed_state(checkpoint)
    checkpoint.storage.delete(str(state.handles[0].file))
    for look in (tables_of, schemas_of):
        with pytest.raises(CheckpointCorruptError, match="is missing"):
            look(checkpoint, state, 1)


def test_whoever_wants_the_columns_reads_no_rows(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = query.checkpoint
    state = committed_state(checkpoint)
    columns = {head: rows.schema for head, rows in tables_of(checkpoint, state, 1).items()}
    assert columns
    with monkeypatch.context() as patch:
        patch.setattr(LocalStorage, "read", None)
        patch.setattr(LocalStorage, "mapped", None)
        assert schemas_of(checkpoint, state, 1) == columns
    (checkpoint.storage.root / str(state.handles[0].file)).write_bytes(b"torn")
    with pytest.raises(CheckpointCorruptError, match="cannot be read"):
        schemas_of(checkpoint, state, 1)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--stage", "2"), "Stage 2 of .* keeps no state. Those that do: 1."),
        (("--key", "word"), "--key word is no condition"),
        (("--key", "name=5"), "No table of the state has all of name"),
        (("--key", "word.start=5"), "No table of the state has all of word.start"),
    ],
)
def test_what_is_not_there(
    query: Query, capsys: Captured, arguments: tuple[str, ...], reason: str
) -> None:
    code, _, err = called(capsys, "state", query.checkpoint.url, *arguments)
    assert code == 2
    assert re.search(reason, err)


def test_a_query_without_state(capsys: Captured) -> None:
    code, _, err = called(capsys, "state", GOLDEN / RATE)
    assert code == 2
    assert "keeps no state that this engine has written" in err


def test_a_watermark_is_told_where_there_is_one(query: Query, capsys: Captured) -> None:
    _, text, _ = called(capsys, "state", query.checkpoint.url, "--epoch", "9")
    assert "watermark" not in text
    _, found = called_json(capsys, "state", query.checkpoint.url, "--epoch", "9")
    assert found["watermark_ms"] is None


def test_status_tells_watermark_and_state(query: Query, capsys: Captured) -> None:
    reading = {"name": "source 0", "tasks": 2, "readingMs": 90, "transformingMs": 7, "writingMs": 3}
    nothing = {"name": "counts-0", "tasks": 4, "readingMs": 0, "transformingMs": 0, "writingMs": 0}
    report = {"stateOperators": [OPERATOR], "stages": [reading, nothing]}
    query.checkpoint.progress.write([report])
    assert query.checkpoint.offsets.add(10, OffsetEntry((10,)))
    assert query.checkpoint.commits.add(10, CommitEntry(1_000))
    code, text, _ = called(capsys, "status", query.checkpoint.url)
    assert code == 0
    assert re.search(r"watermark +1970-\S+, [\d,.]+ s behind the clock", text)
    assert "counts-0: 12,345 rows, 6 late in the epoch" in text
    assert re.search(r"busy +source 0: 2 tasks, 10%\n", text)
    _, found = called_json(capsys, "status", query.checkpoint.url)
    assert found["watermark_ms"] == 1_000
    assert found["watermark_lag_ms"] > 1_000_000_000_000


OPERATOR = {"operatorName": "counts-0", "numRowsTotal": 12345, "numRowsDroppedByWatermark": 6}


def test_nothing_is_committed_yet(tmp_path: Path, capsys: Captured) -> None:
    checkpoint = Checkpoint(str(tmp_path / "new"))
    checkpoint.create_or_read_query_id("query")
    code, _, err = called(capsys, "state", checkpoint.url)
    assert code == 2
    assert "No epoch of" in err
    assert "is committed yet" in err
