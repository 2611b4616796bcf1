"""A table of Iceberg as a source, without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyiceberg", reason="needs the extra iceberg")

from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from engine.checkpoint.checkpoint import Checkpoint
from engine.errors import ConfigError, SourceUnavailableError
from engine.query.handle import ContinuousQuery
from engine.sinks.lakes.maintenance import maintain
from engine.sinks.lakes.upkeep import Orders
from engine.sinks.maintain import table_of
from engine.sources.iceberg.data_source import IcebergSource
from engine.sources.lakes.position import TablePosition
from tests.connectors.lakes.queries import Kept, all_read, committed, failure, start
from tests.unit.iceberg_tables import NAME, Lake

ROWS = StructType([StructField("value", LongType()), StructField("p", StringType())])
ARROW = pa.schema([("value", pa.int64()), ("p", pa.string())])


class Case:
    def __init__(self, folder: Path) -> None:
        self.folder, self.sink = folder, Kept()
        self.lake = Lake.at(folder / "lake")
        catalog = self.lake.catalog
        catalog.create_namespace("db")
        table = catalog.create_table(NAME, ARROW)
        with table.update_spec() as update:
            update.add_identity("p")

    def add(self, *values: int, parts: Sequence[str] = "xyz") -> None:
        found = [{"value": each, "p": parts[each % len(parts)]} for each in values]
        self.lake.table.append(pa.Table.from_pylist(found, ARROW))

    def start(self, schema: StructType = ROWS, **options: str) -> ContinuousQuery:
        given = {**self.lake.options, "numPartitions": "2", "pollIntervalMs": "20", **options}
        return start(IcebergSource(given), schema, self.checkpoint, self.sink)

    def read(self, schema: StructType = ROWS, **options: str) -> None:
        all_read(self.start(schema, **options))

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    @property
    def at(self) -> tuple[int, int]:
        return TablePosition.of(committed(self.checkpoint), "source iceberg").at

    def snapshots(self) -> list[int]:
        return [each.snapshot_id for each in self.lake.table.snapshots()]

    def expire(self, count: int) -> None:
        self.lake.table.maintenance.expire_snapshots().by_ids(self.snapshots()[:count]).commit()


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


def test_a_table_is_read_as_it_is_and_then_what_comes(case: Case) -> None:
    case.add(0, 1, 2, parts=("x", "y", "a b/%"))
    case.add(3, 4)
    case.lake.table.delete("value = 3")
    query = case.start()
    query.processAllAvailable()
    assert case.sink.values() == [0, 1, 2, 4]
    case.add(5, 6)
    query.processAllAvailable()
    case.add(7)
    all_read(query)
    assert case.sink.values() == [0, 1, 2, 4, 5, 6, 7]
    assert case.at == (6, 0)
    case.add(8)
    case.read()
    assert case.sink.values() == [0, 1, 2, 4, 5, 6, 7, 8]
    assert {(row["value"], row["p"]) for row in case.sink.rows} >= {(2, "a b/%"), (8, "z")}


def test_an_empty_table_is_waited_for(case: Case) -> None:
    query = case.start()
    case.add(0)
    all_read(query)
    assert case.sink.values() == [0]


def test_an_epoch_may_end_within_a_snapshot(case: Case) -> None:
    """And a rewound query goes on there, whatever tasks had read ahead."""
    case.add(*range(12), parts=[f"part {number}" for number in range(12)])
    case.read(startingSnapshotId=str(case.snapshots()[0]), maxFilesPerTrigger="4")
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


@pytest.mark.parametrize(("start_at", "values"), [("1", [1, 2]), ("2", [2]), ("latest", [])])
def test_a_query_may_begin_at_a_snapshot(case: Case, start_at: str, values: list[int]) -> None:
    for value in range(3):
        case.add(value)
    at = start_at if start_at == "latest" else str(case.snapshots()[int(start_at)])
    query = case.start(startingSnapshotId=at)
    query.processAllAvailable()
    assert case.sink.values() == values
    case.add(3)
    all_read(query)
    assert case.sink.values() == [*values, 3]


def test_a_query_may_begin_at_a_time(case: Case) -> None:
    case.add(0)
    case.add(1)
    when = max(each.timestamp_ms for each in case.lake.table.snapshots())
    case.read(startingTimestamp=f"{pa.scalar(when, pa.timestamp('ms')).as_py().isoformat()}Z")
    assert case.sink.values()[-1] == 1


def test_compactions_are_no_news(case: Case) -> None:
    for value in range(4):
        case.add(value, parts="x")
    case.read()
    orders = Orders(rewindable_s=0.0, vacuum=False)
    assert maintain(table_of("iceberg", case.lake.options), orders).compacted_files == 4
    case.add(4)
    case.read()
    assert case.sink.values() == list(range(5))


def test_what_is_deleted_or_changed_is_refused_or_left_out(case: Case) -> None:
    case.add(0, 3)
    case.add(1)
    case.read()
    case.lake.table.delete("p = 'y'")
    assert "deletes rows of the table" in failure(case.start())
    case.read(skipDeleteSnapshots="true")
    case.lake.table.delete("value = 3")
    assert "changes rows of the table" in failure(case.start(skipDeleteSnapshots="true"))
    case.read(skipOverwriteSnapshots="true")
    case.add(2)
    case.read()
    assert case.sink.values() == [0, 1, 2, 3]


def test_snapshots_that_have_expired_are_told(case: Case) -> None:
    case.add(0)
    case.read()
    for value in range(1, 4):
        case.add(value)
    case.expire(1)  # what was read
    case.expire(1)  # what was not
    assert "have expired: what they have added is not known" in failure(case.start())
    case.read(failOnDataLoss="false")
    assert case.sink.values() == [0, 2, 3]


def test_what_was_read_may_expire(case: Case) -> None:
    case.add(0)
    case.read()
    case.add(1)
    case.expire(1)
    case.read()
    assert case.sink.values() == [0, 1]


def test_a_table_that_was_rolled_back_is_told(case: Case) -> None:
    case.add(0)
    case.add(1)
    case.read()
    case.lake.table.manage_snapshots().rollback_to_snapshot(case.snapshots()[0]).commit()
    assert "was rolled back" in failure(case.start())
    case.add(2)
    assert "was rolled back" in failure(case.start())


def test_another_table_of_the_same_name_is_refused(case: Case) -> None:
    case.add(0)
    case.read()
    case.lake.catalog.drop_table(NAME)
    case.lake.catalog.create_table(NAME, ARROW)
    assert "is another table" in failure(case.start())


def test_a_file_that_is_gone_is_told(case: Case) -> None:
    case.add(0)
    case.read()
    case.add(1)
    Path(next(iter(case.lake.table.inspect.files()["file_path"])).as_py()).unlink()
    assert "is gone: it was removed before" in failure(case.start())


def test_a_change_of_columns_ends_the_query_and_a_start_takes_them_up(case: Case) -> None:
    case.add(0)
    query = case.start()
    query.processAllAvailable()
    with case.lake.table.update_schema() as update:
        from pyiceberg.types import IntegerType as Integer

        update.add_column("more", Integer())
    assert "the columns of the table" in failure(query)
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
def test_options_are_refused_aloud(case: Case, options: dict[str, str], text: str) -> None:
    case.add(0)
    with pytest.raises(ConfigError, match=text):
        raise_from(case, options)


def raise_from(case: Case, options: dict[str, str]) -> None:
    query = case.start(**options)
    error: Any = failure(query)
    raise ConfigError(error)


def test_a_table_that_is_not_there_is_told(case: Case) -> None:
    with pytest.raises(SourceUnavailableError, match=r"there is no table db\.other"):
        case.start(table="db.other")
