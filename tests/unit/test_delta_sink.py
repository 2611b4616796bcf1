"""The sink of a Delta table on a disk: what is committed, once, whoever dies or comes too late."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("deltalake", reason="needs the extra delta")

from deltalake import DeltaTable

from engine.base import durable
from engine.checkpoint.sink_context import Inherited, SinkContext
from engine.errors import (
    ConfigError,
    SinkCommitRejectedError,
    SinkUnavailableError,
    StaleRunError,
)
from engine.sinks.files import row_files
from engine.sinks.lakes import table_log
from engine.sinks.reopen import reopen_sink
from engine.sources.delta.data_source import DeltaSource
from tests.unit.delta_tables import data_files, ids, read, writer
from tests.unit.lake_queries import QUERY, SCHEMA, Query, rows


def test_the_table_is_made_and_gets_a_commit_for_each_epoch_with_rows(tmp_path: Path) -> None:
    query = Query(writer(tmp_path / "t"))
    assert query.latest is None
    query.commit(0, rows(1, 2), rows(3))
    query.commit(1)
    query.commit(2, rows(4))
    assert ids(tmp_path / "t") == [1, 2, 3, 4]
    table = DeltaTable(str(tmp_path / "t"))
    assert table.version() == 2  # the table itself, and two epochs
    assert query.sink.latestEpoch() == 2
    assert table.transaction_version(f"continuous/{QUERY}") == 0
    assert table.history(1)[0]["continuous"] == {"query": QUERY, "epoch": 2, "files": 1}


def test_an_epoch_is_committed_once(tmp_path: Path) -> None:
    query = Query(writer(tmp_path))
    message = query.prepare(0, rows(1))
    query.sink.commit([message], 0)
    query.sink.commit([message], 0)
    again = Query(writer(tmp_path), generation=1, logged=0)
    assert again.latest == 0
    again.sink.commit([message], 0)
    assert ids(tmp_path) == [1]


def test_of_two_drivers_from_one_look_the_second_commits_nothing(tmp_path: Path) -> None:
    old = Query(writer(tmp_path))
    message = old.prepare(0, rows(1))
    create = DeltaTable.create_write_transaction

    def sleeping(*args: Any, **options: Any) -> None:
        monkeypatch.undo()
        Query(writer(tmp_path), generation=1, logged=0, prepared=[(0, message)])
        create(*args, **options)

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(DeltaTable, "create_write_transaction", sleeping)
        with pytest.raises(StaleRunError, match="generation 1 has written"):
            old.sink.commit([message], 0)
    assert ids(tmp_path) == [1]


def test_a_run_that_slept_through_a_rewind_commits_nothing(tmp_path: Path) -> None:
    old = Query(writer(tmp_path))
    old.commit(0, rows(1))
    message = old.prepare(1, rows(2))
    new = Query(writer(tmp_path), generation=1, timeline=1, logged=0)
    new.sink.rewind(0)
    with pytest.raises(StaleRunError):
        old.sink.commit([message], 1)
    with pytest.raises(StaleRunError):
        Query(writer(tmp_path), generation=0)
    assert ids(tmp_path) == [1]


def test_what_others_do_to_the_table_does_not_stand_in_the_way(tmp_path: Path) -> None:
    query, other = Query(writer(tmp_path)), Query(writer(tmp_path), query_id="other")
    create = DeltaTable.create_write_transaction

    def meanwhile(*args: Any, **options: Any) -> None:
        monkeypatch.undo()
        other.commit(epoch, rows(100 + epoch))
        table = DeltaTable(str(tmp_path))
        table.delete("id = 0") if epoch == 1 else table.optimize.compact()
        create(*args, **options)

    for epoch in range(4):
        with pytest.MonkeyPatch.context() as monkeypatch:
            monkeypatch.setattr(DeltaTable, "create_write_transaction", meanwhile)
            query.commit(epoch, rows(epoch))
    assert ids(tmp_path) == [1, 2, 3, 100, 101, 102, 103]
    assert query.sink.latestEpoch() == 3


def test_a_commit_whose_answer_was_lost_is_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Query(writer(tmp_path))
    create = DeltaTable.create_write_transaction

    def answerless(*args: Any, **options: Any) -> None:
        create(*args, **options)
        raise OSError("connection reset")

    monkeypatch.setattr(DeltaTable, "create_write_transaction", answerless)
    query.commit(0, rows(1))
    assert ids(tmp_path) == [1]


def test_a_commit_that_did_not_arrive_is_told_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Query(writer(tmp_path))
    message = query.prepare(0, rows(1))

    def away(*args: Any, **options: Any) -> None:
        raise OSError("connection refused: password=hunter2")

    monkeypatch.setattr(DeltaTable, "create_write_transaction", away)
    with pytest.raises(SinkUnavailableError, match="cannot be written to") as caught:
        query.sink.commit([message], 0)
    assert "hunter2" not in str(caught.value)
    monkeypatch.undo()
    query.sink.commit([message], 0)
    assert ids(tmp_path) == [1]


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of files and folders as they are synchronised."""
    names: list[str] = []

    class System:
        def __getattr__(self, name: str) -> Any:
            return getattr(os, name)

        def fsync(self, descriptor: int) -> None:
            names.append(Path(f"/proc/self/fd/{descriptor}").resolve().name)
            os.fsync(descriptor)

    monkeypatch.setattr(durable, "system", System())
    return names


def test_commits_are_synchronised(tmp_path: Path, synced: list[str]) -> None:
    query = Query(writer(tmp_path / "t"))
    synced.clear()
    query.commit(0, rows(1))
    (data,) = data_files(tmp_path)
    assert synced.index(data.name) < synced.index("t") < synced.index(f"{1:020}.json")
    assert synced[-2:] == ["_delta_log", "t"]


def test_what_a_dead_run_has_committed_is_durable_before_it_is_told(
    tmp_path: Path, synced: list[str]
) -> None:
    query = Query(writer(tmp_path / "t"))
    query.commit(0, rows(1))
    synced.clear()  # as if it had died in between
    sink = writer(tmp_path / "t")
    sink.bind(SinkContext(QUERY, "run", 1, 0))
    assert synced == []
    assert sink.latestEpoch() == 0
    assert {f"{1:020}.json", "_delta_log"} <= set(synced)


@pytest.mark.parametrize("entry", ["empty", "cut and deleted"])
def test_a_commit_that_a_power_failure_has_undone_is_made_again(tmp_path: Path, entry: str) -> None:
    query = Query(writer(tmp_path))
    query.commit(0, rows(1))
    message = query.prepare(1, rows(2))
    query.sink.commit([message], 1)
    newest = tmp_path / "_delta_log" / f"{2:020}.json"
    newest.write_bytes(b"" if entry == "empty" else newest.read_bytes()[:99])
    if entry != "empty":
        with pytest.raises(ConfigError, match=r"cannot be read"):
            writer(tmp_path).validate()
        newest.unlink()
    again = Query(writer(tmp_path), generation=1, logged=1, prepared=[(1, message)])
    assert again.latest == 0
    assert ids(tmp_path) == [1, 2]


def test_others_may_be_quicker_only_so_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_log, "TRIES_MAX", 3)
    query = Query(writer(tmp_path))
    message = query.prepare(0, rows(1))
    create = DeltaTable.create_write_transaction
    tries = []

    def hindered(*args: Any, **options: Any) -> None:
        tries.append(1)
        table = DeltaTable(str(tmp_path))
        table.alter.set_table_properties({"delta.appendOnly": "false"})
        create(*args, **options)

    monkeypatch.setattr(DeltaTable, "create_write_transaction", hindered)
    with pytest.raises(SinkUnavailableError, match="has changed 3 times meanwhile"):
        query.sink.commit([message], 0)
    assert len(tries) == 3
    assert pq.read_table(data_files(tmp_path)[0]).num_rows == 1


# -- tables and files that are gone, or left ------------------------------------------------------


def test_a_table_that_is_gone_is_not_made_anew(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    sink = writer(folder)
    query = Query(sink)
    query.commit(0, rows(1))
    folder.rename(tmp_path / "away")  # as a mount that is lost
    folder.mkdir()
    with pytest.raises(ConfigError, match=r"there is no table at .*epochs up to 0"):
        Query(writer(folder), generation=1, logged=0)
    sink.bind(query.context)
    with pytest.raises(SinkUnavailableError, match="there is no table"):
        sink.checkLogged(0)
    assert not (folder / "_delta_log").exists()


@pytest.mark.parametrize("inherited", [None, Inherited("source", 0)])
def test_a_table_that_was_there_is_not_made_anew(
    inherited: Inherited | None, tmp_path: Path
) -> None:
    """Before anything is prepared: the query starts in place, in the same process."""
    logged = -1 if inherited is None else 0
    sink = writer(tmp_path / "t")
    query = Query(sink, logged=logged, inherited=inherited)
    (tmp_path / "t").rename(tmp_path / "away")
    sink.bind(query.context)
    with pytest.raises(SinkUnavailableError, match=r"there is no table at .* any more"):
        sink.checkLogged(logged)


def test_rows_for_a_table_that_was_replaced_are_refused(tmp_path: Path) -> None:
    query = Query(writer(tmp_path / "t"))
    message = query.prepare(0, rows(1))
    (tmp_path / "t").rename(tmp_path / "away")
    DeltaTable.create(str(tmp_path / "t"), SCHEMA)
    again = Query(writer(tmp_path / "t"), generation=1, logged=0)
    with pytest.raises(SinkCommitRejectedError, match="is another table"):
        again.sink.commit([message], 0)
    assert read(tmp_path / "t") == []


def test_files_that_the_driver_does_not_see_are_not_committed(tmp_path: Path) -> None:
    query = Query(writer(tmp_path))
    message = query.prepare(0, rows(1))
    data_files(tmp_path)[0].unlink()
    with pytest.raises(SinkCommitRejectedError, match="there is none"):
        query.sink.commit([message], 0)
    assert read(tmp_path) == []


def test_a_task_that_fails_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_files, "BUFFER_BYTES", 1)
    query = Query(writer(tmp_path, targetFileSize=1))

    def failing() -> Iterator[pa.RecordBatch]:
        yield rows(1)
        yield rows(2)
        assert len(data_files(tmp_path)) == 2
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        query.task().write(0, failing())
    assert data_files(tmp_path) == []


def test_abort_removes_files_unless_they_are_a_part_of_the_table(tmp_path: Path) -> None:
    query = Query(writer(tmp_path))
    first, second = query.prepare(0, rows(1)), query.prepare(1, rows(2))
    query.sink.commit([first], 0)
    query.sink.abort([first, None], 0)
    query.sink.abort([second], 1)
    query.sink.abort([second], 1)
    assert len(data_files(tmp_path)) == 1
    assert ids(tmp_path) == [1]


def test_what_earlier_runs_have_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    schema = SCHEMA.append(pa.field("p", pa.string()))

    def batch(number: int) -> pa.RecordBatch:
        row = {"id": number, "name": "n", "p": ("a b/%41", "ä:é")[number % 2]}
        return pa.RecordBatch.from_pylist([row], schema)

    first = Query(writer(tmp_path, schema, __partition_by='["p"]'))
    other = Query(writer(tmp_path, schema), query_id="other")
    first.commit(0, batch(0))
    first.commit(1, batch(2))
    left = [first.prepare(epoch, batch(epoch)) for epoch in (2, 3)]
    kept = other.prepare(5, batch(6))
    DeltaTable(str(tmp_path)).optimize.compact()  # readers of before need what it has replaced
    before = set(data_files(tmp_path))
    second = Query(writer(tmp_path, schema), generation=1, logged=1)
    gone = before - set(data_files(tmp_path))
    assert {path.name for path in gone} == {each.files[0].path.rpartition("/")[2] for each in left}
    # Who was asleep with them in its hands commits them no more.
    with pytest.raises(StaleRunError):
        first.sink.commit([left[0]], 2)
    second.commit(2, batch(3))
    other.sink.commit([kept], 5)
    assert ids(tmp_path) == [0, 2, 3, 6]


def test_a_start_with_nothing_left_makes_no_commit(tmp_path: Path) -> None:
    Query(writer(tmp_path)).commit(0, rows(1))
    Query(writer(tmp_path), generation=1, logged=0)
    assert DeltaTable(str(tmp_path)).version() == 1


ODD = ["a b", "100%", "a%b", "a%zz", "ä:é", "a=b&c", "[a]*{b}", "~", "'\"`$;|<>^", " a ", "\u2028"]
MISREAD = [
    "feature%2Fa",
    "a%20b",
    "a%25",
    "%c3%a4",
    "a%FF",
    "a\\b",
    "a\nb",
    "a\x7f",
    "a\0",
    "\udcff",
    "\ud800",
]


@pytest.mark.parametrize("name", ODD)
def test_a_folder_may_have_an_odd_name(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name / "table"
    Query(writer(folder)).commit(0, rows(1, 2))
    again = Query(writer(folder.as_uri()), generation=1, logged=0)
    again.commit(1, rows(3))
    assert again.sink._log.strays() == []
    assert ids(folder) == [1, 2, 3]
    again.sink.rewind(0)
    assert ids(folder) == [1, 2]


@pytest.mark.parametrize("name", MISREAD)
@pytest.mark.parametrize("table", ["{}", "{}/table"])
def test_a_folder_in_which_delta_s_client_finds_no_table_is_refused(
    tmp_path: Path, name: str, table: str
) -> None:
    folder = tmp_path / table.format(name)
    for refuses in (
        lambda: writer(folder),
        lambda: reopen_sink("delta", {"path": str(folder)}),
        lambda: DeltaSource({"path": str(folder)}),
    ):
        with pytest.raises(ConfigError, match=r"Delta's client misreads .* in a path") as refused:
            refuses()
        assert "Choose another folder" in str(refused.value.hint)
    assert list(tmp_path.iterdir()) == []


def test_what_a_link_leads_to_is_what_delta_s_client_reads(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "a%2Fb").mkdir()
    (tmp_path / "to%20plain").symlink_to(tmp_path / "plain")
    (tmp_path / "to odd").symlink_to(tmp_path / "a%2Fb")
    Query(writer(tmp_path / "to%20plain")).commit(0, rows(1))
    assert ids(tmp_path / "plain") == [1]
    with pytest.raises(ConfigError, match="a%2Fb/table"):
        writer(tmp_path / "to odd" / "table")
