"""What a table of Iceberg is as a source, beside :mod:`tests.connectors.lakes.test_sources`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyiceberg", reason="needs the extra iceberg")

from pyspark.sql.types import IntegerType, StructField, StructType

from engine.checkpoint.checkpoint import Checkpoint
from engine.errors import ConfigError, SourceUnavailableError
from engine.sinks.lakes.maintenance import maintain
from engine.sinks.lakes.upkeep import Orders
from engine.sinks.maintain import table_of
from engine.sources.iceberg.data_source import IcebergSource
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
