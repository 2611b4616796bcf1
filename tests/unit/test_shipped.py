"""Rows that travel to the driver: not too many at once, and not kept for long."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.lease import Lease
from engine.coordinator.epoch_runner import EpochRunner, QueryEnds
from engine.errors import ConfigError
from engine.sinks.console import ConsoleDataSource
from engine.sinks.contract import WriterContext
from engine.sinks.memory import MemoryDataSource
from engine.sinks.shipped import RowShipper, ShippedRows, one_table, unpack
from tests.model import silent_binding
from tests.unit.null_structs import COLUMNS

SCHEMA = StructType().add("id", "long")


def numbers(count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"id": list(range(count))})


@pytest.mark.parametrize("kind", ["memory", "console"])
def test_a_task_is_full_at_its_share(kind: str) -> None:
    source = {"memory": MemoryDataSource, "console": ConsoleDataSource}[kind]
    options = {"queryName": "q", "maxShippedBytesPerEpoch": "480"}
    writer = source(options).streamWriter(SCHEMA, overwrite=False)
    shipper = pickle.loads(pickle.dumps(writer.taskWriter()))
    shipper.open(WriterContext("query", "run", 0, 0, task=1, tasks=4))  # 120 bytes each

    def until_full() -> Iterator[pa.RecordBatch]:
        while not shipper.full():
            yield numbers(4)

    for epoch in range(3):
        (table,) = unpack([shipper.write(epoch, until_full())], numbers(1).schema)
        assert table.num_rows == 16
        assert shipper.full()


def test_what_was_read_at_once_may_not_be_more_than_an_epoch_ships() -> None:
    writer = MemoryDataSource({"queryName": "q", "maxShippedBytesPerEpoch": "100"})
    shipper = writer.streamWriter(SCHEMA, overwrite=False).taskWriter()
    shipper.open(WriterContext("query", "run", 0, 0, task=0, tasks=2))
    assert shipper.write(0, iter([numbers(6), numbers(12)])).stream  # not full before the second
    with pytest.raises(ConfigError, match=r"sink memory works on the driver.* is 100") as error:
        shipper.write(1, iter([numbers(12), numbers(7)]))
    assert "maxShippedBytesPerEpoch" in (error.value.hint or "")


def test_a_limit_that_is_none() -> None:
    with pytest.raises(ConfigError, match="maxShippedBytesPerEpoch"):
        ConsoleDataSource({"maxShippedBytesPerEpoch": "1g"})


@pytest.mark.parametrize("ships_rows", [False, True])
def test_rows_leave_the_checkpoint_soon(tmp_path: Path, ships_rows: bool) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    checkpoint.create_or_read_query_id("a-query")
    source = SimpleNamespace(mergeOffsets=lambda parts: parts[0], commit=lambda end: None)
    sink = silent_binding(ships_rows=ships_rows)
    ends = QueryEnds("a-query", [source], sink)  # type: ignore[list-item]
    lease = Lease.acquire(checkpoint, run_id="run")
    epochs = EpochRunner(checkpoint, lease, ends, min_epochs_to_retain=100)
    for epoch in range(6):
        epochs.commit(epoch, [[epoch]], [None])
    assert checkpoint.offsets.ids() == list(range(6))
    assert checkpoint.prepared.ids() == ([4, 5] if ships_rows else list(range(6)))


def shipped(**columns: pa.Array) -> ShippedRows:
    return RowShipper("any", 1 << 20).write(0, iter([pa.RecordBatch.from_pydict(columns)]))


def test_rows_of_an_earlier_start_get_the_columns_of_this_one() -> None:
    was = shipped(id=pa.array([1, 2]), gone=pa.array(["x", "y"]), n=pa.array([3, None], pa.int32()))
    now = pa.schema([("n", pa.int64()), ("new", pa.string()), ("id", pa.string())])
    (table,) = unpack([was], now)
    assert table.schema == now
    assert table.to_pydict() == {"n": [3, None], "new": [None, None], "id": ["1", "2"]}
    with pytest.raises(ConfigError, match="no column new, which the sink cannot do without"):
        unpack([was], now, ["id", "new"])


def test_columns_of_one_name_are_told_by_their_place() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], ["id", "id"])
    was = RowShipper("any", 1 << 20).write(0, iter([batch]))
    (table,) = unpack([was], batch.schema)
    assert table == pa.table(batch)
    with pytest.raises(ConfigError, match="have the columns id, id, and the query has id"):
        unpack([was], pa.schema([("id", pa.int64())]))


@pytest.mark.parametrize("dtype", [pa.int32(), pa.list_(pa.int64())])
def test_rows_of_an_earlier_start_that_cannot_be_had_now_are_refused(dtype: pa.DataType) -> None:
    now = pa.schema([("id", dtype)])
    with pytest.raises(ConfigError, match="whose rows have id as BIGINT, and the query") as refused:
        unpack([shipped(id=pa.array([1 << 40]))], now)
    assert "once more as it was" in str(refused.value.hint)


@pytest.mark.parametrize("notes", [None, {"a": "b"}])
def test_rows_without_columns_are_counted(notes: dict[str, str] | None) -> None:
    """As of ``df.select()``."""
    batch = numbers(3).select([])
    was = RowShipper("any", 1 << 20, notes=notes).write(0, iter([batch, batch.slice(1)]))
    tables = unpack([was, was], batch.schema)
    assert [each.num_rows for each in tables] == [5, 5]
    assert one_table(tables, batch.schema).num_rows == 10
    assert was.note("a") == (notes or {}).get("a")
    (wider,) = unpack([was], numbers(0).schema)
    assert wider["id"].to_pylist() == [None] * 5
    (narrower,) = unpack([shipped(id=pa.array([1, 2]))], batch.schema)
    assert narrower.num_rows == 2


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_a_struct_that_is_null_has_fields_that_are_not_null(column: pa.Array) -> None:
    batch = pa.RecordBatch.from_pydict({"s": column})
    was = RowShipper("any", 1 << 20).write(0, iter([batch, batch.slice(1)]))
    (table,) = unpack([was], batch.schema)
    assert table.schema == batch.schema
    assert table["s"].to_pylist() == [*column.to_pylist(), *column.to_pylist()[1:]]
    assert table.cast(table.schema) == table, "whoever gets the rows has no trouble with them"


def test_rows_of_an_earlier_start_with_null_structs_get_the_types_of_this_one() -> None:
    was = shipped(s=COLUMNS["struct"])
    fields = [pa.field("a", pa.string(), False), pa.field("b", pa.string())]
    now = pa.schema([("s", pa.struct(fields))])
    (table,) = unpack([was], now)
    assert table.schema == now
    assert table["s"].to_pylist() == [{"a": "1", "b": "x"}, None, {"a": "3", "b": None}]
    with pytest.raises(ConfigError, match="whose rows have s as STRUCT<a: BIGINT NOT NULL, b"):
        unpack([was], pa.schema([("s", pa.struct([fields[0], fields[1].with_nullable(False)]))]))
