"""The sink of an Iceberg table: what is committed, once, whoever dies or comes too late."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyiceberg", reason="needs the extra iceberg")

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.transforms import BucketTransform

from engine.base import durable
from engine.errors import (
    ConfigError,
    PreparedEpochLostError,
    SinkCommitRejectedError,
    SinkCommitUnknownError,
    SinkUnavailableError,
    StaleRunError,
)
from engine.sinks.files import row_files
from engine.sinks.lakes import table_log
from tests.unit.iceberg_tables import NAME, Lake
from tests.unit.lake_queries import QUERY, SCHEMA, rows


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.at(tmp_path)


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Let something happen between the look at the table and the next commit."""

    def arrange(act: Callable[[], object]) -> None:
        commit = SqlCatalog.commit_table

        def sleeping(*given: Any, **named: Any) -> Any:
            monkeypatch.setattr(SqlCatalog, "commit_table", commit)
            act()
            return commit(*given, **named)

        monkeypatch.setattr(SqlCatalog, "commit_table", sleeping)

    return arrange


def test_the_table_is_made_and_gets_a_snapshot_for_each_epoch_with_rows(lake: Lake) -> None:
    query = lake.query()
    assert query.latest is None
    query.commit(0, rows(1, 2), rows(3))
    query.commit(1)
    query.commit(2, rows(4))
    assert lake.ids() == [1, 2, 3, 4]
    table = lake.table
    assert len(table.snapshots()) == 2
    assert query.sink.latestEpoch() == 2
    assert table.properties[f"continuous.{QUERY}"] == '{"epoch":2,"generation":0,"timeline":0}'
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert snapshot.summary["continuous"] == f'{{"query":"{QUERY}","epoch":2,"files":1}}'


def test_an_epoch_is_committed_once(lake: Lake) -> None:
    query = lake.query()
    message = query.prepare(0, rows(1))
    query.sink.commit([message], 0)
    query.sink.commit([message], 0)
    again = lake.query(generation=1, logged=0)
    assert again.latest == 0
    again.sink.commit([message], 0)
    assert lake.ids() == [1]


def test_what_is_committed_is_known_when_all_snapshots_have_expired(lake: Lake) -> None:
    query = lake.query()
    message = query.prepare(0, rows(1))
    query.sink.commit([message], 0)
    lake.query(query_id="other").commit(0, rows(2))
    table = lake.table
    old = [each.snapshot_id for each in table.snapshots()][:-1]
    table.maintenance.expire_snapshots().by_ids(old).commit()
    again = lake.query(generation=1, logged=0, prepared=[(0, message)])
    assert again.latest == 0
    assert lake.ids() == [1, 2]


def test_of_two_drivers_from_one_look_the_second_commits_nothing(
    lake: Lake, meanwhile: Callable[..., None]
) -> None:
    old = lake.query()
    message = old.prepare(0, rows(1))
    meanwhile(lambda: lake.query(generation=1, logged=0, prepared=[(0, message)]))
    with pytest.raises(StaleRunError, match="generation 1 has written"):
        old.sink.commit([message], 0)
    assert lake.ids() == [1]


def test_a_run_that_slept_through_a_rewind_commits_nothing(
    lake: Lake, meanwhile: Callable[..., None]
) -> None:
    """The table has just the rows again that it had at the look."""
    old = lake.query()
    old.commit(0, rows(1))
    message = old.prepare(1, rows(2))

    def take_back() -> None:
        lake.query(generation=1, logged=1, prepared=[(1, message)])
        lake.query(generation=2, timeline=2, logged=0).sink.rewind(0)

    meanwhile(take_back)
    with pytest.raises(StaleRunError):
        old.sink.commit([message], 1)
    with pytest.raises(StaleRunError):
        lake.query(generation=0)
    assert lake.ids() == [1]


def test_a_fence_shuts_out_who_sleeps_in_the_middle_of_a_commit(
    lake: Lake, meanwhile: Callable[..., None]
) -> None:
    """Though the table has no other rows than at the look."""
    old = lake.query()
    message = old.prepare(0, rows(1))
    meanwhile(lambda: lake.query(generation=1))  # finds a file that was left, and removes it
    with pytest.raises(StaleRunError):
        old.sink.commit([message], 0)
    assert lake.ids() == []
    assert lake.data_files() == []


def test_what_others_do_to_the_table_does_not_stand_in_the_way(
    lake: Lake, meanwhile: Callable[..., None]
) -> None:
    query, other = lake.query(), lake.query(query_id="other")
    query.commit(0, rows(0))
    acts: list[Callable[[], object]] = [
        lambda: other.commit(0, rows(100)),
        lambda: lake.table.delete("id = 0"),
        lambda: lake.table.overwrite(lake.table.scan().to_arrow()),
        lambda: lake.table.transaction().set_properties({"owner": "me"}).commit_transaction(),
    ]
    for epoch, act in enumerate(acts, 1):
        meanwhile(act)
        query.commit(epoch, rows(epoch))
    assert lake.ids() == [1, 2, 3, 4, 100]
    assert query.sink.latestEpoch() == 4
    assert lake.table.properties["owner"] == "me"
    assert "commit.retry.num-retries" not in lake.table.properties


def test_a_commit_whose_answer_was_lost_is_not_made_again(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = lake.query()
    commit = SqlCatalog.commit_table

    def answerless(*given: Any, **named: Any) -> None:
        commit(*given, **named)
        raise OSError("connection reset")

    monkeypatch.setattr(SqlCatalog, "commit_table", answerless)
    query.commit(0, rows(1))
    assert lake.ids() == [1]


def test_a_commit_that_did_not_arrive_is_told_as_such(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = lake.query()
    message = query.prepare(0, rows(1))

    def away(*given: Any, **named: Any) -> None:
        raise OSError("connection refused: password=hunter2")

    monkeypatch.setattr(SqlCatalog, "commit_table", away)
    with pytest.raises(SinkUnavailableError, match="cannot be written to") as caught:
        query.sink.commit([message], 0)
    assert "hunter2" not in str(caught.value)
    monkeypatch.setattr(SqlCatalog, "load_table", away)
    with pytest.raises(SinkUnavailableError, match="cannot be read"):
        query.sink.commit([message], 0)
    monkeypatch.undo()
    query.sink.commit([message], 0)
    assert lake.ids() == [1]


def test_a_commit_that_nobody_can_ask_about_is_unknown(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = lake.query()
    message = query.prepare(0, rows(1))
    commit = SqlCatalog.commit_table

    def away(*given: Any, **named: Any) -> None:
        raise OSError("connection refused")

    def last_words(*given: Any, **named: Any) -> None:
        commit(*given, **named)
        monkeypatch.setattr(SqlCatalog, "load_table", away)
        away()

    monkeypatch.setattr(SqlCatalog, "commit_table", last_words)
    with pytest.raises(SinkCommitUnknownError, match="may have taken the commit"):
        query.sink.commit([message], 0)
    monkeypatch.undo()
    query.sink.commit([message], 0)
    assert lake.ids() == [1]


def test_others_may_be_quicker_only_so_often(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_log, "TRIES_MAX", 3)
    query, other = lake.query(), lake.query(query_id="other")
    message = query.prepare(0, rows(1))
    commit, tries = SqlCatalog.commit_table, []

    def hindered(*given: Any, **named: Any) -> Any:
        tries.append(1)
        monkeypatch.setattr(SqlCatalog, "commit_table", commit)
        other.commit(len(tries), rows(100))
        monkeypatch.setattr(SqlCatalog, "commit_table", hindered)
        return commit(*given, **named)

    monkeypatch.setattr(SqlCatalog, "commit_table", hindered)
    with pytest.raises(SinkUnavailableError, match="has changed 3 times meanwhile"):
        query.sink.commit([message], 0)
    assert len(tries) == 3


# -- what stays over a power failure --------------------------------------------------------------


def test_what_a_commit_names_is_synchronised_before_it(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[str] = set()

    class System:
        def __getattr__(self, name: str) -> Any:
            return getattr(os, name)

        def fsync(self, descriptor: int) -> None:
            synced.add(str(Path(f"/proc/self/fd/{descriptor}").resolve()))
            os.fsync(descriptor)

    monkeypatch.setattr(durable, "system", System())
    query = lake.query()
    query.commit(0, rows(1))
    there = {str(path) for path in (tmp_path / "warehouse").rglob("*")}
    assert len(there) >= 7  # folders, data, a manifest, its list, two of the table's metadata
    assert there <= synced


# -- tables and files that are gone, or left ------------------------------------------------------


def test_a_table_that_is_gone_is_not_made_anew(lake: Lake) -> None:
    query = lake.query()
    query.commit(0, rows(1))
    lake.catalog.rename_table(NAME, "db.away")
    with pytest.raises(ConfigError, match=r"there is no table at db\.t, .* epochs up to 0"):
        lake.query(generation=1, logged=0)
    query.sink.bind(query.context)
    with pytest.raises(SinkUnavailableError, match="there is no table"):
        query.sink.checkLogged(0)
    assert not lake.catalog.table_exists(NAME)


def test_rows_for_a_table_that_was_replaced_are_refused(lake: Lake) -> None:
    query = lake.query()
    message = query.prepare(0, rows(1))
    lake.catalog.rename_table(NAME, "db.away")
    lake.catalog.create_table(NAME, SCHEMA)
    again = lake.query(generation=1, logged=0)
    with pytest.raises(SinkCommitRejectedError, match="is another table"):
        again.sink.commit([message], 0)
    assert lake.read() == []


def test_files_that_the_driver_does_not_see_are_not_committed(lake: Lake) -> None:
    query = lake.query()
    message = query.prepare(0, rows(1))
    lake.data_files()[0].unlink()
    with pytest.raises(SinkCommitRejectedError, match="there is none"):
        query.sink.commit([message], 0)
    assert lake.read() == []


def test_a_task_that_fails_leaves_no_file(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_files, "BUFFER_BYTES", 1)
    query = lake.query(targetFileSize=1)

    def failing() -> Iterator[pa.RecordBatch]:
        yield rows(1)
        yield rows(2)
        assert len(lake.data_files()) == 2
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        query.task().write(0, failing())
    assert lake.data_files() == []


def test_abort_removes_files_unless_they_are_a_part_of_the_table(lake: Lake) -> None:
    query = lake.query()
    first, second = query.prepare(0, rows(1)), query.prepare(1, rows(2))
    query.sink.commit([first], 0)
    query.sink.abort([first, None], 0)
    query.sink.abort([second], 1)
    query.sink.abort([second], 1)
    assert len(lake.data_files()) == 1
    assert lake.ids() == [1]


@pytest.mark.parametrize("marked", [True, False])
def test_what_earlier_runs_have_left_is_removed_and_nothing_else(lake: Lake, marked: bool) -> None:
    schema = SCHEMA.append(pa.field("p", pa.string()))

    def batch(number: int) -> pa.RecordBatch:
        row = {"id": number, "name": "n", "p": ("a b/%41", "ä:é")[number % 2]}
        return pa.RecordBatch.from_pylist([row], schema)

    first = lake.query(schema, partitionSpec="p, bucket(2, id)")
    other = lake.query(schema, query_id="other")
    first.commit(0, batch(0))
    first.commit(1, batch(2))
    left = [first.prepare(epoch, batch(epoch)) for epoch in (2, 3)]
    kept = other.prepare(5, batch(6))
    if not marked:  # somebody has tidied the table's properties
        table = lake.table
        table.transaction().remove_properties(f"continuous.{QUERY}").commit_transaction()
    before = set(lake.data_files())
    second = lake.query(schema, generation=1, logged=1)
    gone = before - set(lake.data_files())
    assert {path.name for path in gone} == {each.files[0].path.rpartition("/")[2] for each in left}
    # Who was asleep with them in its hands commits them no more.
    with pytest.raises(StaleRunError):
        first.sink.commit([left[0]], 2)
    second.commit(2, batch(3))
    other.sink.commit([kept], 5)
    assert lake.ids() == [0, 2, 3, 6]


def test_a_start_with_nothing_left_makes_no_commit(lake: Lake) -> None:
    lake.query().commit(0, rows(1))
    lake.query(generation=1, logged=0)
    assert len(lake.table.snapshots()) == 1


# -- a table that changes while the query runs ----------------------------------------------------


def test_an_epoch_is_written_again_for_other_partitions(lake: Lake) -> None:
    query = lake.query()
    query.commit(0, rows(1))
    message = query.prepare(1, rows(2))
    with lake.table.update_spec() as spec:
        spec.add_field("id", BucketTransform(4), "id_bucket")
    with pytest.raises(PreparedEpochLostError, match="other partitions"):
        query.sink.commit([message], 1)
    again = lake.query(generation=1, logged=1)
    assert message.files[0].path not in map(str, lake.data_files())  # it will not be committed
    again.commit(1, rows(2))
    assert lake.ids() == [1, 2]
    assert "id_bucket=" in str(lake.data_files()[0])


def test_an_epoch_is_written_again_for_a_column_that_was_made_anew(lake: Lake) -> None:
    """Under the identifier of before nobody would see its values."""
    query = lake.query()
    message = query.prepare(0, rows(1))
    with lake.table.update_schema() as update:
        update.delete_column("name")
    with lake.table.update_schema() as update:
        update.add_column("name", lake.table.schemas()[0].find_field("name").field_type)
    with pytest.raises(PreparedEpochLostError):
        query.sink.commit([message], 0)
    lake.query(generation=1, logged=0).commit(0, rows(1))
    assert lake.read() == [{"id": 1, "name": "n1"}]


def test_columns_that_others_add_do_not_matter(lake: Lake) -> None:
    query = lake.query()
    message = query.prepare(0, rows(1))
    with lake.table.update_schema() as update:
        update.add_column("more", lake.table.schema().find_field("id").field_type)
    query.sink.commit([message], 0)
    assert lake.read() == [{"id": 1, "name": "n1", "more": None}]


def test_a_column_that_others_have_renamed_is_told(lake: Lake) -> None:
    query = lake.query()
    message = query.prepare(0, rows(1))
    with lake.table.update_schema() as update:
        update.rename_column("name", "title")
    with pytest.raises(PreparedEpochLostError):
        query.sink.commit([message], 0)
    with pytest.raises(ConfigError, match="has no column name"):
        lake.query(generation=1, logged=0)
