"""Tables that are compacted, expired and vacuumed while queries write to them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("deltalake", reason="needs the extra delta")
pytest.importorskip("pyiceberg", reason="needs the extra iceberg")

from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog

from engine.base import failpoints
from engine.checkpoint.checkpoint import Checkpoint
from engine.errors import ConfigError
from engine.execution.definition import QueryDefinition, StreamBinding
from engine.execution.execution import ContinuousExecution
from engine.execution.launcher import ThreadLauncher
from engine.pipeline.pipeline import Pipeline, SourceRelation
from engine.query.binding import bind_writer
from engine.query.handle import ContinuousQuery
from engine.sinks.delta.places import DiskPlace
from engine.sinks.iceberg import maintenance
from engine.sinks.iceberg.contents import data_files
from engine.sinks.lakes.maintenance import maintain
from engine.sinks.lakes.upkeep import Orders
from engine.sinks.maintain import pinned_epochs, recorded_table
from engine.sinks.reopen import reopen_sink
from tests.connectors.lakes.queries import WAIT_S
from tests.connectors.lakes.tables import PARTS, Case, no_minimum, parted
from tests.model import ONE_ATTEMPT, Feed, ModelReader
from tests.model import SCHEMA as MODEL
from tests.unit.lake_queries import SCHEMA, Query, rows

BOTH = pytest.mark.parametrize("kind", ["delta", "iceberg"])


@pytest.fixture
def case(kind: str, tmp_path: Path) -> Case:
    return Case(kind, tmp_path)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    no_minimum(monkeypatch)


@BOTH
def test_small_files_become_one_for_each_partition(case: Case) -> None:
    query = case.query(PARTS, partition="p, d")
    for epoch in range(4):
        query.commit(epoch, parted(*range(epoch * 6, epoch * 6 + 6)))
    before = sorted(case.rows(), key=str)
    dry = case.maintain(expire=False, vacuum=False, dry_run=True)
    assert (dry.compacted_files, dry.compacted_into, dry.files_after) == (12, 3, 12)
    done = case.maintain(expire=False, vacuum=False)
    assert (done.files_before, done.files_after) == (12, 3)
    assert (done.compacted_files, done.compacted_into, done.left_files) == (12, 3, 0)
    assert done.bytes_after < done.bytes_before
    assert sorted(case.rows(), key=str) == before
    assert {(row["p"], row["d"]) for row in case.rows()} == {
        ("a b/%41", date(1970, 1, 1)), ("ä:é", date(1970, 1, 2)), (None, date(1970, 1, 3))
    }  # fmt: skip
    assert case.has_no_news()
    again = case.maintain(expire=False, vacuum=False)
    assert (again.compacted_files, again.files_after) == (0, 3)
    query.commit(4, parted(100, 101, 102))
    assert len(case.rows()) == len(before) + 3
    assert case.query(PARTS, generation=1, logged=4).latest == 4


@BOTH
def test_columns_that_came_later_are_null(case: Case) -> None:
    case.query().commit(0, rows(0))
    wider = SCHEMA.append(pa.field("more", pa.int32()))
    query = case.query(wider, generation=1, logged=0, evolution="add-columns")
    query.commit(1, pa.RecordBatch.from_pylist([{"id": 1, "name": "n", "more": 7}], wider))
    assert case.maintain(expire=False, vacuum=False).files_after == 1
    assert {row["id"]: row["more"] for row in case.rows()} == {0: None, 1: 7}


@BOTH
def test_files_are_as_large_as_asked_for(case: Case) -> None:
    query = case.query()
    for epoch in range(6):
        query.commit(epoch, rows(epoch))
    size = max(path.stat().st_size for path in case.data_files())
    done = case.maintain(expire=False, vacuum=False, file_bytes=2 * size)
    assert (done.files_before, done.files_after) == (6, 3)
    assert case.ids() == list(range(6))


@BOTH
def test_what_a_rewind_takes_out_is_left_as_it_is(case: Case) -> None:
    query, other = case.query(), case.query(query_id="other")
    for epoch in range(6):
        query.commit(epoch, rows(epoch))
        other.commit(epoch, rows(100 + epoch))
    assert case.maintain(expire=False, vacuum=False, rewindable_s=3600.0).compacted_files == 0
    pinned = {query.context.query_id: 2}
    done = case.maintain(retain_s=0.0, vacuum=False, pinned=pinned)
    assert (done.compacted_files, done.files_after) == (9, 4)
    with pytest.raises(ConfigError, match=r"were rewritten|does not reach back"):
        case.rewind(1, generation=1)
    assert len(case.ids()) == 12
    case.rewind(2, generation=1)
    assert case.ids() == [0, 1, 2, *range(100, 106)]


@BOTH
@pytest.mark.parametrize("act", ["append", "delete", "rewind", "compact", "vacuum"])
def test_what_others_do_in_the_middle_counts(
    case: Case, act: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = case.query()
    for epoch in range(4):
        query.commit(epoch, rows(epoch, 10 + epoch))
    table = case.table()
    upkeep, swap = type(table), type(table).swap

    def meanwhile(self: Any, swaps: Any) -> Any:
        monkeypatch.setattr(upkeep, "swap", swap)
        acts: dict[str, Callable[[], Any]] = {
            "append": lambda: query.commit(4, rows(4)),
            "delete": lambda: case.delete("id = 11"),
            "rewind": lambda: case.rewind(1, generation=1),
            "compact": lambda: case.maintain(expire=False, vacuum=False),
            "vacuum": lambda: [path.unlink() for path in case.compacted()],
        }
        acts[act]()
        return swap(self, swaps)

    monkeypatch.setattr(upkeep, "swap", meanwhile)
    done = case.maintain(expire=False, vacuum=False)
    all_ids = [0, 1, 2, 3, 10, 11, 12, 13]
    assert (
        case.ids()
        == {
            "append": [0, 1, 2, 3, 4, 10, 11, 12, 13],
            "delete": [each for each in all_ids if each != 11],
            "rewind": [0, 1, 10, 11],
            "compact": all_ids,
            "vacuum": all_ids,
        }[act]
    )
    assert done.compacted_files == (4 if act == "append" else 0)
    assert done.left_files == (0 if act == "append" else 4)
    assert len(case.compacted()) == (1 if act in ("append", "compact") else 0), (
        "the others are removed"
    )


@pytest.mark.parametrize("kind", ["iceberg"])
def test_files_of_which_rows_are_deleted_beside_them_stay(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Iceberg's client for Python writes no such deletions."""
    query = case.query()
    for epoch in range(3):
        query.commit(epoch, rows(epoch))
    first, *_ = sorted(path.name for path in case.data_files())
    looks: list[set[str]] = []

    def with_deletes(table: Any) -> set[str]:
        paths = {file.file_path for file in data_files(table) if file.file_path.endswith(first)}
        looks.append(paths)
        return set() if len(looks) < appears else paths

    monkeypatch.setattr(maintenance, "_with_deletes", with_deletes)
    appears = 2
    done = case.maintain(expire=False, vacuum=False)
    assert (done.compacted_files, done.left_files) == (0, 3)
    appears = 0
    done = case.maintain(expire=False, vacuum=False)
    assert (done.compacted_files, done.left_files) == (2, 0)
    assert case.ids() == [0, 1, 2]


@BOTH
def test_only_what_nobody_can_need_is_vacuumed(case: Case) -> None:
    query = case.query(PARTS, partition="p, d")
    for epoch in range(3):
        query.commit(epoch, parted(*range(6)))
    prepared = query.prepare(3, parted(*range(6)))
    other = case.query(PARTS, query_id="other").prepare(0, parted(50))
    left = query.prepare(2, parted(7))  # of an epoch that is committed without it
    case.age()
    query.prepare(2, parted(8))  # likewise, but it has just been written
    before, only_vacuum = case.files(), {"compact": False, "expire": False, "rewindable_s": None}
    assert case.maintain(**only_vacuum, dry_run=True).removed_files == 1
    done = case.maintain(**only_vacuum)
    (gone,) = before - case.files()
    assert gone.name == left.files[0].path.rpartition("/")[2]
    assert done.removed_bytes > 0
    query.sink.commit([prepared], 3)
    case.query(PARTS, query_id="other", prepared=[(0, other)])
    assert len(case.rows()) == 25


@BOTH
def test_what_a_rewind_has_left_for_good_is_vacuumed(case: Case) -> None:
    """Nobody can commit it any more once its query has gone on from an earlier epoch; what was
    prepared since then stays, whatever its number."""
    query, other = case.query(), case.query(query_id="other")
    for epoch in range(3):
        query.commit(epoch, rows(epoch))
    abandoned = query.prepare(6, rows(6))
    case.rewind(0, generation=1)
    again = case.query(generation=2, timeline=1, logged=0)
    waiting, others = again.prepare(1, rows(11)), other.prepare(6, rows(60))
    case.age()
    case.maintain(compact=False)
    assert {_name(each) for each in (abandoned, waiting, others)} <= case.names(), "not gone on yet"
    again.sink.commit([waiting], 1)
    waiting = again.prepare(2, rows(12))
    case.age()
    case.maintain(compact=False, dry_run=True)
    assert _name(abandoned) in case.names()
    case.maintain(compact=False)
    assert _name(abandoned) not in case.names()
    assert {_name(waiting), _name(others)} <= case.names()
    again.sink.commit([waiting], 2)
    other.sink.commit([others], 6)
    assert case.ids() == [0, 11, 12, 60]


@BOTH
def test_what_was_prepared_behind_a_rewind_of_which_the_table_does_not_know_stays(
    case: Case,
) -> None:
    """As where repeated rows were accepted: the table has later epochs of before."""
    query = case.query()
    for epoch in range(4):
        query.commit(epoch, rows(epoch))
    again = case.query(generation=2, timeline=1, logged=1)
    waiting = again.prepare(2, rows(12))
    case.age()
    case.maintain(compact=False)
    again.sink.commit([waiting], 2)
    assert case.ids() == [0, 1, 2, 3, 12]


@BOTH
def test_old_states_go_and_what_is_known_of_queries_stays(case: Case) -> None:
    query = case.query()
    for epoch in range(5):
        query.commit(epoch, rows(epoch))
    case.age()
    assert case.maintain(compact=False, vacuum=False, retain_s=0.0, dry_run=True).expired in (
        4,
        None,
    )
    young = case.maintain(compact=False, vacuum=False, retain_s=3600.0, rewindable_s=3600.0)
    assert (case.kind == "delta") or young.expired == 0
    done = case.maintain(retain_s=0.0)
    assert case.kind == "delta" or done.expired == 5
    case.age()
    case.maintain(retain_s=0.0)
    assert case.ids() == list(range(5))
    assert len(case.data_files()) == 1
    message = query.prepare(5, rows(5))
    again = case.query(generation=1, logged=5, prepared=[(4, message), (5, message)])
    assert again.latest == 4
    assert case.ids() == list(range(6))
    case.rewind(5, generation=2)
    assert case.ids() == list(range(6))


@pytest.mark.parametrize("kind", ["delta"])
def test_the_old_log_of_delta_goes(case: Case) -> None:
    query = case.query()
    for epoch in range(5):
        query.commit(epoch, rows(epoch))
    case.age()
    assert case.maintain(compact=False, vacuum=False).expired == 5
    assert not (case.root / "_delta_log" / f"{2:020}.json").exists()
    query.commit(5, rows(5))
    assert case.query(generation=1, logged=5).latest == 5
    assert case.ids() == list(range(6))
    DeltaTable(str(case.root)).alter.set_table_properties(
        {"delta.logRetentionDuration": "interval 1 hours"}
    )
    with pytest.raises(ConfigError, match="keeps its log for interval 1 hours"):
        case.maintain(rewindable_s=7200.0)
    with pytest.raises(ConfigError, match="forgets after interval 1 week which files"):
        case.maintain(retain_s=8 * 86_400.0, expire=False)


@pytest.mark.parametrize("kind", ["delta"])
def test_a_checkpoint_is_durable_before_the_log_behind_it_goes(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = case.query()
    for epoch in range(2):
        query.commit(epoch, rows(epoch))
    case.age()
    steps: list[str] = []
    settle, clean = DiskPlace.settle_log, DeltaTable.cleanup_metadata
    monkeypatch.setattr(
        DiskPlace,
        "settle_log",
        lambda place, versions: (steps.append(f"settle {versions}"), settle(place, versions)),
    )
    monkeypatch.setattr(
        DeltaTable, "cleanup_metadata", lambda table: (steps.append("clean"), clean(table))
    )
    case.maintain(compact=False, vacuum=False)
    assert steps == ["settle range(2, 3)", "clean"]


@pytest.mark.parametrize("kind", ["iceberg"])
def test_a_snapshot_that_becomes_the_newest_again_does_not_expire(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = case.query()
    for epoch in range(3):
        query.commit(epoch, rows(epoch))
    first = case.lake.table.snapshots()[0].snapshot_id
    commit = SqlCatalog.commit_table

    def meanwhile(*given: Any, **named: Any) -> Any:
        monkeypatch.setattr(SqlCatalog, "commit_table", commit)
        case.lake.table.manage_snapshots().rollback_to_snapshot(first).commit()
        return commit(*given, **named)

    monkeypatch.setattr(SqlCatalog, "commit_table", meanwhile)
    assert case.maintain(compact=False, vacuum=False, retain_s=0.0).expired == 2
    assert case.ids() == [0]


@pytest.mark.parametrize("kind", ["iceberg"])
def test_tables_whose_files_others_may_have_are_not_vacuumed(case: Case, tmp_path: Path) -> None:
    case.query().commit(0, rows(0))
    for name, value, text in (
        ("gc.enabled", "false", "may be those of other tables"),
        ("write.data.path", str(tmp_path / "shared"), "beside its own location"),
    ):
        with case.lake.table.transaction() as transaction:
            transaction.set_properties({name: value})
        with pytest.raises(ConfigError, match=text):
            case.maintain()
        case.maintain(expire=False, vacuum=False)
        with case.lake.table.transaction() as transaction:
            transaction.remove_properties(name)


@BOTH
def test_a_query_that_runs_meanwhile_has_each_row_once(case: Case) -> None:
    feed, checkpoint = Feed(2), Checkpoint(str(case.folder / "checkpoint"))
    definition = QueryDefinition(
        name=None,
        streams=(
            StreamBinding(
                Pipeline(SourceRelation("model", {}, MODEL), (), MODEL), ModelReader(feed), "model"
            ),
        ),
        sink=bind_writer(case.writer(MODEL), case.kind, case.kind, case.options),
        checkpoint=checkpoint,
        epoch_interval_ms=0,
        options=ONE_ATTEMPT,
    )
    compacted, turns = 0, 3
    for turn in range(turns):
        execution = ContinuousExecution(definition, ThreadLauncher())
        execution.start()
        query = ContinuousQuery(execution, str)
        if turn:
            feed.add(1)
            done = case.maintain(retain_s=3600.0, rewindable_s=0.0)  # while it commits
            compacted += done.compacted_files
        for _ in range(3):
            feed.add(1)
            assert query.awaitEpoch(query.status["epoch"] + 1, WAIT_S)
        query.processAllAvailable()
        assert query.drain(WAIT_S)
        assert query.exception() is None
    assert compacted > 2
    rows = sorted((row["partition"], row["seq"]) for row in case.rows())
    assert rows == [(p, seq) for p in range(2) for seq in range(feed.available[0])]
    pinned, last = checkpoint.pin("here"), checkpoint.committed_epoch()
    assert pinned.epoch == last
    assert pinned_epochs([checkpoint]) == {checkpoint.query_id(): last}
    maintained = maintain(
        recorded_table(checkpoint), Orders(pinned=pinned_epochs([checkpoint]), rewindable_s=0.0)
    )
    assert maintained.compacted_files > 0
    checkpoint.rewind(to_pin="here", sink=reopen_sink(case.kind, case.options))
    assert len(case.rows()) == len(rows)


def _name(message: Any) -> str:
    """Of the only file that a task has prepared."""
    (file,) = message.files
    return str(file.path.rpartition("/")[2])


class Dead(BaseException):
    """The process is gone: nothing tidies up."""


@BOTH
@pytest.mark.parametrize("place", ["compaction.written", "tableLog.after", "maintenance.removing"])
def test_who_dies_in_the_middle_harms_nothing(
    case: Case, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, prepared = _with_garbage(case)

    def die(*_: object) -> None:
        raise Dead

    with monkeypatch.context() as patch:
        patch.setattr(failpoints, "_armed", {place: (1, signal.SIGKILL)})
        patch.setattr(failpoints.os, "kill", die)
        with pytest.raises(Dead):
            case.maintain(retain_s=3600.0)
    _goes_on(case, prepared)


@pytest.mark.parametrize("kind", ["delta"])
def test_a_process_that_is_killed_harms_nothing(case: Case) -> None:
    _, prepared = _with_garbage(case)
    given = json.dumps([case.kind, case.options])
    killed = subprocess.run(
        [sys.executable, "-c", PROGRAM, given],
        env={**os.environ, "CONTINUOUS_FAILPOINT": "tableLog.after:1:kill"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert len(case.compacted()) == 1
    _goes_on(case, prepared)


PROGRAM = """
import json, sys
from engine.sinks.delta.places import DiskPlace
from engine.sinks.iceberg import maintenance
from engine.sinks.iceberg.contents import data_files
from engine.sinks.lakes.maintenance import maintain
from engine.sinks.lakes.upkeep import Orders
from engine.sinks.maintain import table_of
maintain(table_of(*json.loads(sys.argv[1])), Orders(rewindable_s=0, retain_s=3600))
"""


def _with_garbage(case: Case) -> tuple[Query, Any]:
    """A table with three epochs; what was prepared for the fourth, and what nobody needs."""
    query = case.query()
    for epoch in range(3):
        query.commit(epoch, rows(epoch))
    prepared = query.prepare(3, rows(3))
    query.prepare(1, rows(1))
    case.age(list(case.data_files()))
    return query, prepared


def _goes_on(case: Case, prepared: Any) -> None:
    assert case.ids() == [0, 1, 2]
    case.query(generation=1, logged=3, prepared=[(3, prepared)]).commit(4, rows(4))
    case.age(list(case.data_files()))
    case.maintain(retain_s=0.0)
    case.age(list(case.data_files()))
    case.maintain(retain_s=0.0)
    assert case.ids() == [0, 1, 2, 3, 4]
    assert len(case.data_files()) == 1


@pytest.mark.parametrize(
    ("orders", "text"),
    [
        ({"compact": False, "expire": False, "vacuum": False}, "Neither"),
        ({"retain_s": -1.0}, "or more"),
        ({"rewindable_s": -1.0}, "less than 0"),
        ({"file_bytes": 0}, "1 or more"),
        ({"compact": False, "file_bytes": 9}, "file_bytes says .* it is for compact"),
        ({"expire": False, "vacuum": False, "retain_s": 4e3}, "retain says .* for expire and vac"),
        ({"compact": False, "expire": False, "rewindable_s": 0.0}, "rewindable says how far back"),
    ],
)
def test_orders_are_checked(orders: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        Orders(**orders)


@BOTH
def test_no_table_no_maintenance(case: Case) -> None:
    with pytest.raises(ConfigError, match="there is no"):
        case.maintain()
