"""Several epochs in one commit of a table: all of them or none, once, and taken back one by one."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("deltalake", reason="needs the extra delta")
pytest.importorskip("pyiceberg", reason="needs the extra iceberg")

from deltalake import DeltaTable

from engine.checkpoint.sink_context import SinkContext
from engine.errors import ConfigError, PreparedEpochLostError
from engine.query.binding import bind_writer
from engine.sinks.iceberg.table_log import note_in
from engine.sinks.lakes.notes import epochs_in, note_of_epochs
from engine.sinks.reopen import reopen_sink
from tests.unit import delta_tables
from tests.unit.iceberg_tables import Lake
from tests.unit.lake_queries import QUERY, Query, rows

NOTE = {"query": QUERY, "epoch": 5, "files": 4, "parts": [[2, 1, 2, 0, 1]]}


class Table(ABC):
    """Of either kind."""

    format: str
    options: dict[str, str]

    @abstractmethod
    def query(self, **run: Any) -> Query: ...

    @abstractmethod
    def ids(self) -> list[int]: ...

    @abstractmethod
    def commits(self) -> int:
        """How many there are."""

    @abstractmethod
    def note(self) -> Any:
        """Of the newest commit."""

    def rewind(self, epoch: int, generation: int) -> None:
        """As a rewind does it: the sink is reopened without its query."""
        sink = reopen_sink(self.format, self.options)
        sink.checkRewind(epoch)
        sink.bind(SinkContext(QUERY, "rewind", generation, 0))
        sink.rewind(epoch)


class OfDelta(Table):
    format = "delta"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.options = {"path": str(folder)}

    def query(self, **run: Any) -> Query:
        return Query(delta_tables.writer(self.folder), **run)

    def ids(self) -> list[int]:
        return delta_tables.ids(self.folder)

    def commits(self) -> int:
        return DeltaTable(str(self.folder)).version()

    def note(self) -> Any:
        return DeltaTable(str(self.folder)).history(1)[0]["continuous"]


class OfIceberg(Table):
    format = "iceberg"

    def __init__(self, folder: Path) -> None:
        self.lake = Lake.at(folder)
        self.options = self.lake.options

    def query(self, **run: Any) -> Query:
        return self.lake.query(**run)

    def ids(self) -> list[int]:
        return self.lake.ids()

    def commits(self) -> int:
        return len(self.lake.table.snapshots())

    def note(self) -> Any:
        snapshot = self.lake.table.current_snapshot()
        assert snapshot is not None
        return note_in(snapshot)


@pytest.fixture(params=[OfDelta, OfIceberg])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    made: Table = request.param(tmp_path)
    return made


def together(query: Query) -> list[tuple[int, list[Any]]]:
    """Epochs 2 to 6, of which some are empty."""
    return [
        (2, [query.prepare(2, rows(2))]),
        (3, [query.prepare(3, rows(3)), query.prepare(3, rows(33))]),
        (4, [query.prepare(4)]),
        (5, [None, query.prepare(5, rows(5))]),
        (6, [query.prepare(6)]),
    ]


def test_one_commit_has_them_all_and_tells_which(table: Table) -> None:
    query = table.query()
    query.commit(0, rows(0))
    before = table.commits()
    query.sink.commitTogether(together(query))
    assert table.ids() == [0, 2, 3, 5, 33]
    assert table.commits() == before + 1
    assert table.note() == NOTE
    assert table.query(generation=1, logged=6).latest == 5


def test_those_that_are_there_do_not_come_again(table: Table) -> None:
    query = table.query()
    epochs = together(query)
    query.sink.commit(epochs[0][1], 2)
    query.sink.commitTogether(epochs)
    assert table.ids() == [2, 3, 5, 33]
    again, commits = table.query(generation=1, logged=6), table.commits()
    again.sink.commitTogether(epochs)
    assert (table.ids(), table.commits()) == ([2, 3, 5, 33], commits)


def test_epochs_without_rows_make_no_commit(table: Table) -> None:
    query = table.query()
    query.commit(0, rows(0))
    commits = table.commits()
    query.sink.commitTogether([(1, [query.prepare(1)]), (2, [None])])
    assert table.commits() == commits


@pytest.mark.parametrize(("epoch", "left"), [(4, [0, 2, 3, 33]), (2, [0, 2]), (1, [0])])
def test_a_rewind_takes_back_a_part_of_them(table: Table, epoch: int, left: list[int]) -> None:
    query = table.query()
    query.commit(0, rows(0))
    query.sink.commitTogether(together(query))
    query.commit(7, rows(7))
    table.rewind(epoch, generation=1)
    assert table.ids() == left
    again = table.query(generation=2, timeline=1, logged=epoch)
    again.sink.commitTogether(
        [(each, [again.prepare(each, rows(100 + each))]) for each in range(epoch + 1, 7)]
    )
    table.rewind(epoch, generation=3)
    assert table.ids() == left


def test_the_note_of_many_epochs_is_short() -> None:
    context = SinkContext(QUERY, "run", 0, 0)
    files = {7 + epoch: ["f"] * 3 for epoch in range(1_000)}
    note = note_of_epochs(context, files)
    assert note["parts"] == [[7, [3, 1_000]]]
    counts = {epoch: len(each) for epoch, each in files.items()}
    for epoch in (8, 9, *range(300, 400), 999):
        del files[epoch], counts[epoch]
    files[10], counts[10] = ["f"], 1
    note = note_of_epochs(context, files)
    assert note["parts"] == [[7, 3, 0, 0, 1, [3, 289], [0, 100], [3, 599], 0, [3, 7]]]
    assert (note["epoch"], note["files"]) == (1006, sum(counts.values()))
    assert dict(epochs_in(json.loads(json.dumps(note)))) == counts


def test_notes_that_tables_have_already_are_read() -> None:
    told = {"query": QUERY, "epoch": 5, "files": 4}
    assert epochs_in(told) == [(5, 4)]
    assert epochs_in({**told, "parts": [[2, 1], [3, 2], [5, 1]]}) == [(2, 1), (3, 2), (5, 1)]
    assert epochs_in({"query": QUERY, "rewoundTo": 3}) == []


def test_what_was_prepared_for_another_table_is_lost_together(tmp_path: Path) -> None:
    lake = Lake.at(tmp_path)
    query = lake.query()
    epochs = together(query)
    with lake.table.update_spec() as update:
        update.add_identity("name")
    with pytest.raises(PreparedEpochLostError):
        query.sink.commitTogether(epochs)
    assert lake.ids() == []


@pytest.mark.parametrize("make", [delta_tables.writer, lambda at, **o: Lake.at(at).writer(**o)])
def test_the_option(tmp_path: Path, make: Callable[..., Any]) -> None:
    sink = bind_writer(make(tmp_path, commitInterval="1 minute 500 ms"), "lake").driver
    assert sink.commit_interval_ms == 60_500
    assert sink.commit_together is not None
    assert "commitInterval" in sink.tuning_options
    assert bind_writer(make(tmp_path), "lake").driver.commit_interval_ms == 0
    with pytest.raises(ConfigError, match=r"commitInterval of sink .*'1 month' cannot be used"):
        make(tmp_path, commitInterval="1 month")
