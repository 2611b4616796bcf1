"""What a table of Iceberg is as a source, beside :mod:`tests.connectors.lakes.test_sources`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyiceberg", reason="needs the extra iceberg")

from pyiceberg.table.update import RemoveSnapshotRefUpdate
from pyspark.sql.types import IntegerType, StructField, StructType

from engine.checkpoint.checkpoint import Checkpoint
from engine.errors import ConfigError, SourceChangedError, SourceUnavailableError
from engine.sinks.lakes.maintenance import maintain
from engine.sinks.lakes.upkeep import Orders
from engine.sinks.maintain import table_of
from engine.sources.iceberg.data_source import IcebergSource
from engine.sources.iceberg.snapshots import lineage, sequence
from engine.sources.lakes.position import TablePosition
from tests.connectors.lakes.cases import ARROW, ROWS, IcebergCase
from tests.connectors.lakes.queries import all_read, final_failure
from tests.unit.iceberg_tables import NAME


@pytest.fixture
def case(tmp_path: Path) -> IcebergCase:
    return IcebergCase(tmp_path)


def test_an_empty_table_is_waited_for(case: IcebergCase) -> None:
    query = case.start()
    case.add(0)
    all_read(query)
    assert case.sink.values() == [0]


def test_how_the_catalog_is_reached_may_change_with_any_start(case: IcebergCase) -> None:
    case.add(0)
    given = {**case.lake.options, "catalog.scope": "a", "catalog.header.X-Api": "s3cret"}
    source = IcebergSource(given)
    reader = source.continuousReader(source.schema())
    names = ("catalog.scope", "catalog.header.X-Api")
    assert set(names) <= set(reader.tuningOptions)
    assert "catalog.uri" not in reader.tuningOptions
    pruned = reader.prune(source.schema().names[:1])
    assert set(names) <= set((pruned or reader).tuningOptions)
    reader.stop()


def test_an_epoch_may_end_within_a_snapshot(case: IcebergCase) -> None:
    """And a rewound query goes on there, whatever tasks had read ahead."""
    case.add(*range(12), parts=[f"part {number}" for number in range(12)])
    case.read(startingSnapshotId=case.states()[0][0], maxFilesPerTrigger="4")
    case.add(*range(12, 24), parts=[f"part {number}" for number in range(12)])
    case.read(maxFilesPerTrigger="4")
    assert case.sink.values() == list(range(24))
    checkpoint, kept = Checkpoint(str(case.checkpoint)), case.sink.epochs
    middles = [
        epoch for epoch in checkpoint.epochs()
        if "ahead" in str(checkpoint.committed_offsets(epoch))
        or TablePosition.of((checkpoint.committed_offsets(epoch) or (None,))[0], "it").at[1]
    ]  # fmt: skip
    assert middles
    for target in (middles[-1], middles[0]):
        checkpoint.rewind(target, accept_repeats=True)
        case.sink.epochs = {epoch: rows for epoch, rows in kept.items() if epoch <= target}
        assert 0 < len(case.sink.rows) < 24
        case.read(maxFilesPerTrigger="3")
        assert case.sink.values() == list(range(24))


def with_gap(case: IcebergCase) -> None:
    """Snapshots 1 and 3 are the table's, and 2 is of another branch."""
    case.add(0)
    table = case.lake.table
    table.manage_snapshots().create_branch(int(case.states()[0][0]), "audit").commit()
    rows = pa.Table.from_pylist([{"value": 99, "p": "x"}], ARROW)
    table.append(rows, branch="audit")
    case.add(*range(1, 13), parts=[f"part {number}" for number in range(12)])
    assert [sequence(each) for each in lineage(case.lake.table)] == [1, 3]


def test_an_epoch_may_end_within_a_snapshot_that_follows_a_gap(case: IcebergCase) -> None:
    with_gap(case)
    case.read(startingSnapshotId=case.states()[0][0], maxFilesPerTrigger="2")
    checkpoint, kept = Checkpoint(str(case.checkpoint)), case.sink.epochs
    offsets = {epoch: checkpoint.committed_offsets(epoch) for epoch in checkpoint.epochs()}
    within = [epoch for epoch, found in offsets.items() if found and found[0]["version"] == 3]
    assert within
    for target in reversed(within):
        checkpoint.rewind(target, accept_repeats=True)
        case.sink.epochs = {epoch: rows for epoch, rows in kept.items() if epoch <= target}
        case.read(maxFilesPerTrigger="3")
        assert case.sink.values() == list(range(13))


def test_each_position_at_a_gap_is_gone_on_from(case: IcebergCase) -> None:
    with_gap(case)
    reader = case.source(**{case.begins: case.states()[0][0]}).continuousReader(ROWS)
    offset = reader.initialOffset()
    run, rest = reader.handingOut(offset), 13
    units = handed(run)
    assert len(units) == rest
    for done in ([], units[:1], [], units[5:6], units[1:2], units[2:5]):
        offset = run.merged([{"read": [unit.number for unit in done], "file": ""}])
        rest -= len(done)
        assert len(handed(reader.handingOut(offset))) == rest, offset
    # What was read may expire: the next one is known by more than that.
    offset = reader.initialOffset()
    run = reader.handingOut(offset)
    offset = run.merged([{"read": [unit.number for unit in handed(run)[:1]], "file": ""}])
    again = reader.handingOut(offset)
    handed(again)
    assert again.merged([]) == offset
    case.lake.table.manage_snapshots().remove_branch("audit").commit()
    case.expire(1)
    assert len(handed(reader.handingOut(offset))) == 12


def test_what_was_found_and_not_read_may_be_rolled_back(case: IcebergCase) -> None:
    with_gap(case)
    first, _, third = (int(each) for each, _ in case.states())
    reader = case.source(**{case.begins: str(first)}).continuousReader(ROWS)
    run = reader.handingOut(reader.initialOffset())
    numbers = [unit.number for unit in handed(run)]
    offset = run.merged([{"read": numbers[:1], "file": ""}])
    assert (offset["version"], offset["index"], offset["after"]) == (3, 0, 1)
    begun = run.merged([{"read": numbers[1:2], "file": ""}])
    case.lake.table.manage_snapshots().rollback_to_snapshot(first).commit()
    case.add(13)
    assert third not in [each.snapshot_id for each in lineage(case.lake.table)]
    assert len(handed(reader.handingOut(offset))) == 1
    with pytest.raises(SourceChangedError, match="rolled back"):
        handed(reader.handingOut(begun))


@pytest.mark.parametrize("index", [0, 4])
def test_an_offset_that_does_not_tell_of_a_gap_is_read(case: IcebergCase, index: int) -> None:
    """As earlier versions wrote it."""
    with_gap(case)
    reader = case.source().continuousReader(ROWS)
    table = str(case.lake.table.metadata.table_uuid)
    offset = {"table": table, "version": 3, "index": index}
    assert len(handed(reader.handingOut(offset))) == 12 - index


def test_a_gap_of_what_was_read_and_rolled_back_is_told(case: IcebergCase) -> None:
    case.add(0)
    first = int(case.states()[0][0])
    case.add(1)
    table = str(case.lake.table.metadata.table_uuid)
    case.lake.table.manage_snapshots().rollback_to_snapshot(first).commit()
    case.add(2)
    reader = case.source().continuousReader(ROWS)
    with pytest.raises(SourceChangedError, match="rolled back"):
        handed(reader.handingOut({"table": table, "version": 3, "index": 0}))
    gone = {"table": table, "version": 2, "index": 1}
    with pytest.raises(SourceChangedError, match="rolled back"):
        handed(reader.handingOut(gone))
    # Before it was read: the next one is the one behind 1.
    assert len(handed(reader.handingOut({"table": table, "version": 2, "index": 0}))) == 1


def handed(run: Any) -> list[Any]:
    """All that it hands out now, in order."""
    works = [run.next(0.0) or {} for _ in range(3)]
    found = [unit for each in works for work in each.values() for unit in work.units]
    return sorted(found, key=lambda unit: int(unit.number))


def test_compactions_are_no_news(case: IcebergCase) -> None:
    for value in range(4):
        case.add(value, parts="x")
    case.read()
    orders = Orders(rewindable_s=0.0, vacuum=False)
    assert maintain(table_of("iceberg", case.lake.options), orders).compacted_files == 4
    case.add(4)
    case.read()
    assert case.sink.values() == list(range(5))


def test_what_is_deleted_or_changed_is_refused_or_left_out(case: IcebergCase) -> None:
    case.add(0, 3)
    case.add(1)
    case.read()
    case.delete("p = 'y'")
    assert "deletes rows of the table" in final_failure(case.start())
    case.read(skipDeleteSnapshots="true")
    case.delete("value = 3")
    assert "changes rows of the table" in final_failure(case.start(skipDeleteSnapshots="true"))
    case.read(skipOverwriteSnapshots="true")
    case.add(2)
    case.read()
    assert case.sink.values() == [0, 1, 2, 3]


def test_snapshots_that_have_expired_are_told(case: IcebergCase) -> None:
    case.add(0)
    case.read()
    for value in range(1, 4):
        case.add(value)
    case.expire(1)  # what was read
    case.expire(1)  # what was not
    assert "have expired: what they have added is not known" in final_failure(case.start())
    case.read(failOnDataLoss="false")
    assert case.sink.values() == [0, 2, 3]


def test_what_was_read_may_expire(case: IcebergCase) -> None:
    case.add(0)
    case.read()
    case.add(1)
    case.expire(1)
    case.read()
    assert case.sink.values() == [0, 1]


def test_a_table_that_was_rolled_back_is_told(case: IcebergCase) -> None:
    case.add(0)
    case.add(1)
    case.read()
    case.lake.table.manage_snapshots().rollback_to_snapshot(int(case.states()[0][0])).commit()
    assert "was rolled back" in final_failure(case.start())
    case.add(2)
    assert "was rolled back" in final_failure(case.start())


def remove_main(case: IcebergCase) -> None:
    """As ``CREATE OR REPLACE TABLE`` does, for what comes next to come behind none."""
    with case.lake.table.transaction() as transaction:
        transaction._apply((RemoveSnapshotRefUpdate(ref_name="main"),))


def test_a_table_that_was_replaced_is_told(case: IcebergCase) -> None:
    case.add(0)
    case.add(1)
    case.read()
    remove_main(case)
    case.add(0, 1, 2)
    assert "was replaced" in final_failure(case.start())
    assert case.sink.values() == [0, 1]


@pytest.mark.parametrize("expired", [0, 3])
def test_rows_of_a_replaced_table_are_no_news(case: IcebergCase, expired: int) -> None:
    """Whether all that was there is read, or the last ones are not."""
    for value in range(3):
        case.add(value)
    remove_main(case)
    case.add(0, 1, 2, 3)
    if expired:
        case.expire(expired)
    reader = case.source(failOnDataLoss="false").continuousReader(ROWS)
    table = str(case.lake.table.metadata.table_uuid)
    for version, index in ((1, 1), (2, 0), (3, 0), (3, 1), (4, 0)):
        with pytest.raises(SourceChangedError, match="was replaced"):
            handed(reader.handingOut({"table": table, "version": version, "index": index}))
    case.add(4)
    with pytest.raises(SourceChangedError, match="was replaced"):
        handed(reader.handingOut({"table": table, "version": 4, "index": 0}))


def test_a_query_may_begin_with_a_replaced_table(case: IcebergCase) -> None:
    case.add(0)
    remove_main(case)
    reader = case.source().continuousReader(ROWS)
    offset = reader.initialOffset()
    assert handed(reader.handingOut(offset)) == []
    case.add(1)
    assert len(handed(reader.handingOut(offset))) == 1
    first = str(case.lake.table.metadata.current_snapshot_id)
    case.add(2)
    reader = case.source(**{case.begins: first}).continuousReader(ROWS)
    assert len(handed(reader.handingOut(reader.initialOffset()))) == 2


def test_another_table_of_the_same_name_is_refused(case: IcebergCase) -> None:
    case.add(0)
    case.read()
    case.lake.catalog.drop_table(NAME)
    case.lake.catalog.create_table(NAME, ARROW)
    assert "is another table" in final_failure(case.start())


def test_a_file_that_is_gone_is_told(case: IcebergCase) -> None:
    case.add(0)
    case.read()
    case.add(1)
    Path(next(iter(case.lake.table.inspect.files()["file_path"])).as_py()).unlink()
    assert "is gone: it was removed before" in final_failure(case.start())


def test_a_change_of_columns_ends_the_query_and_a_start_takes_them_up(case: IcebergCase) -> None:
    case.add(0)
    query = case.start()
    query.processAllAvailable()
    with case.lake.table.update_schema() as update:
        from pyiceberg.types import IntegerType as Integer

        update.add_column("more", Integer())
    assert "the columns of the table" in final_failure(query)
    more = {"value": [1], "p": ["x"], "more": pa.array([7], pa.int32())}
    case.lake.table.append(pa.table(more))
    wider = StructType([*ROWS, StructField("more", IntegerType())])
    assert IcebergSource(case.lake.options).schema().simpleString() == wider.simpleString()
    case.read(wider)
    assert [row.get("more") for row in case.sink.rows] == [None, 7]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"startingSnapshotId": "x"}, "startingSnapshotId"),
        ({"startingSnapshotId": "1"}, "has no snapshot 1 in its history"),
        ({"startingSnapshotId": "1", "startingTimestamp": "2026-01-01"}, "both"),
        ({"startingTimestamp": "soon"}, "startingTimestamp"),
        ({"endingSnapshotId": "1"}, "no option 'endingsnapshotid'"),
        ({"table": "orders"}, "must be namespace.table"),
    ],
)
def test_options_are_refused_aloud(case: IcebergCase, options: dict[str, str], text: str) -> None:
    case.add(0)
    with pytest.raises(ConfigError, match=text):
        raise_from(case, options)


def raise_from(case: IcebergCase, options: dict[str, str]) -> None:
    query = case.start(**options)
    error: Any = final_failure(query)
    raise ConfigError(error)


def test_a_table_that_is_not_there_is_told(case: IcebergCase) -> None:
    with pytest.raises(SourceUnavailableError, match=r"there is no table db\.other"):
        case.start(table="db.other")
