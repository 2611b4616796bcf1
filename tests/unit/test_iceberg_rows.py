"""What becomes of rows in an Iceberg table: values, partitions, bounds, and what does not fit."""

from __future__ import annotations

import sys
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyiceberg", reason="needs the extra iceberg")

from pyiceberg.expressions import GreaterThan
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, ListType, LongType, NestedField, StringType

from engine.errors import ConfigError, SinkCommitRejectedError
from engine.sinks.files import row_files
from tests.unit.iceberg_tables import NAME, Lake
from tests.unit.lake_queries import SCHEMA, rows
from tests.unit.null_structs import COLUMNS


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.at(tmp_path)


def column(number: int, name: str, dtype: Any, required: bool = False) -> NestedField:
    return NestedField(number, name, dtype, required=required)


MOMENT = datetime(2024, 2, 29, 23, 59, 59, 123456)
VALUES: list[tuple[pa.DataType, Any]] = [
    (pa.bool_(), True),
    (pa.int8(), -128),
    (pa.int16(), 32767),
    (pa.int32(), -5),
    (pa.int64(), 2**62),
    (pa.float32(), 1.5),
    (pa.float64(), float("inf")),
    (pa.decimal128(38, 3), Decimal("12345678901234567890123456789012345.678")),
    (pa.decimal128(9, 2), Decimal("-1.25")),
    (pa.string(), "ä\x00"),
    (pa.binary(), b"\xff"),
    (pa.date32(), date(1, 1, 1)),
    (pa.timestamp("us", tz="UTC"), MOMENT.replace(tzinfo=timezone.utc)),
    (pa.timestamp("us"), MOMENT),
    (pa.list_(pa.int8()), [1, None]),
    (pa.map_(pa.string(), pa.int16()), [("a", 1)]),
    (pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))]), {"x": None, "y": ["z"]}),
]


def test_all_types_come_back(lake: Lake) -> None:
    schema = pa.schema([(f"c{i}", dtype) for i, (dtype, _) in enumerate(VALUES)])
    given = {f"c{i}": value for i, (_, value) in enumerate(VALUES)}
    batch = pa.RecordBatch.from_pylist([given, dict.fromkeys(schema.names)], schema)
    lake.query(schema).commit(0, batch)
    assert lake.read() == [given, dict.fromkeys(schema.names)]


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_structs_that_are_null_with_fields_that_are_not(lake: Lake, column: pa.Array) -> None:
    batch = pa.RecordBatch.from_pydict({"s": column})
    lake.query(batch.schema).commit(0, batch)
    assert lake.read() == batch.to_pylist()


def test_partitions_of_every_kind(lake: Lake) -> None:
    schema = pa.schema([("d", pa.date32()), ("t", pa.timestamp("us", tz="UTC")), *SCHEMA])
    spec = "d, months(t), bucket(3, id), truncate(2, name), name"
    with pytest.raises(ConfigError, match="uses a column twice"):
        lake.writer(schema, partitionSpec="days(t), day(t)")
    query = lake.query(schema, partitionSpec=spec)
    at = MOMENT.replace(tzinfo=timezone.utc)
    data = [
        (date(2024, 5, 6), at, 1, "x"),
        (None, None, None, None),
        (date(1969, 12, 31), at.replace(year=1960), 3, "a/b %41ä"),
        (date(2024, 5, 6), at, 4, ""),
    ]
    wanted = [dict(zip(schema.names, row, strict=True)) for row in data]
    query.commit(0, pa.RecordBatch.from_pylist(wanted, schema))
    assert sorted(lake.read(), key=lambda row: row["id"] or 0) == sorted(
        wanted, key=lambda row: row["id"] or 0
    )
    found = lake.table.scan(row_filter="d = '1969-12-31'")
    assert len(list(found.plan_files())) == 1  # the others are passed over
    assert found.to_arrow().column("id").to_pylist() == [3]
    parts = {tuple(each.file.partition)[1:3] for each in lake.table.scan().plan_files()}
    assert {months for months, _ in parts} == {649, None, -119}
    # A table that is there says itself how it is partitioned.
    again = lake.query(schema, generation=1, logged=0)
    again.commit(1, pa.RecordBatch.from_pylist(wanted, schema))
    assert len(lake.read()) == 8
    with pytest.raises(ConfigError, match=r"is partitioned by \(d, month\(t\).*, the query by"):
        lake.writer(schema, partitionSpec="d").validate()


def test_bounds_let_readers_pass_files_over_and_lose_no_row(lake: Lake) -> None:
    schema = pa.schema([("i", pa.int64()), ("f", pa.float64()), ("d", pa.date32())])
    query = lake.query(schema)
    nan = float("nan")
    query.commit(0, pa.RecordBatch.from_pylist([{"i": 1, "f": nan}, {"i": 2, "f": 1.0}], schema))
    far = pa.array([2_932_897, 0], pa.int32()).cast(pa.date32())  # the first day of the year 10000
    query.commit(1, pa.record_batch([pa.array([3, 4]), pa.nulls(2, pa.float64()), far], schema))
    one, two = sorted(lake.table.inspect.files().to_pylist(), key=lambda f: f["lower_bounds"][0][1])
    assert {key for key, _ in one["lower_bounds"]} == {1}  # no NaN, and a column without values
    assert {key for key, _ in two["lower_bounds"]} == {1}
    assert dict(two["null_value_counts"]) == {1: 0, 3: 0}
    found = lake.table.scan(row_filter=GreaterThan("i", 2))
    assert len(list(found.plan_files())) == 1
    assert found.to_arrow().num_rows == 2


@pytest.mark.parametrize(
    ("spec", "dtype", "number", "told"),
    [
        ("d", pa.date32(), 2_932_897, "its d .* is 2932897, "),
        ("day(d)", pa.date32(), -719_163, r"its d_day \(day of .* is -719163, "),
        ("d", pa.timestamp("us", tz="UTC"), 253_402_300_800_000_000, "its d .* is 25340230080"),
        ("hour(d)", pa.timestamp("us"), 253_402_300_800_000_000, "its d_hour .* is 70389528, "),
        ("year(d)", pa.timestamp("us"), 2**63 - 1, "its d_year .* is no year of a calendar, "),
    ],
)
def test_partitions_that_the_client_has_no_name_for_are_refused(
    lake: Lake, spec: str, dtype: pa.DataType, number: int, told: str
) -> None:
    schema = pa.schema([("id", pa.int64()), ("d", dtype)])
    query = lake.query(schema, partitionSpec=spec)
    far = pa.array([number, 0], pa.int32() if dtype == pa.date32() else pa.int64()).cast(dtype)
    batch = pa.record_batch([pa.array([1, 2]), far], schema)
    with pytest.raises(SinkCommitRejectedError, match=f"the table db.t: {told}"):
        query.prepare(0, batch)
    assert not lake.data_files()
    query.commit(0, batch[1:])
    assert lake.ids() == [2]


def test_years_behind_9999_are_partitions(lake: Lake) -> None:
    schema = pa.schema([("id", pa.int64()), ("d", pa.date32())])
    far = pa.array([2_932_897, 0], pa.int32()).cast(pa.date32())
    query = lake.query(schema, partitionSpec="year(d)")
    query.commit(0, pa.record_batch([pa.array([1, 2]), far], schema))
    parts = {tuple(each.file.partition) for each in lake.table.scan().plan_files()}
    assert parts == {(0,), (8030,)}


def test_large_epochs_make_files_of_the_wanted_size(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_files, "BUFFER_BYTES", 10_000)
    query = lake.query(targetFileSize=4_000, compression="none")
    query.commit(0, *(rows(*range(i, i + 500)) for i in range(0, 5_000, 500)))
    sizes = [path.stat().st_size for path in lake.data_files()]
    assert len(sizes) == 5
    assert all(size < 30_000 for size in sizes)
    assert lake.ids() == list(range(5_000))


def test_the_table_says_what_its_files_are_like_if_the_query_does_not(lake: Lake) -> None:
    lake.query()
    wanted = {
        "write.parquet.compression-codec": "gzip",
        "write.data.path": f"{lake.properties['warehouse']}/elsewhere",
        "write.object-storage.enabled": "true",
        "write.object-storage.partitioned-paths": "false",
    }
    lake.table.transaction().set_properties(wanted).commit_transaction()
    query = lake.query(generation=1)
    query.commit(0, rows(1))
    query.prepare(1, rows(2))
    assert all(path.name.endswith(".gz.parquet") for path in lake.data_files())
    assert all("elsewhere" in path.parts for path in lake.data_files())
    lake.query(generation=2, logged=0)
    assert len(lake.data_files()) == 1  # it knows what was left all the same
    assert lake.ids() == [1]


# -- what fits a table ----------------------------------------------------------------------------


def test_columns_are_added_if_that_is_wanted(lake: Lake) -> None:
    lake.query().commit(0, rows(1))
    wider = SCHEMA.append(pa.field("note", pa.list_(pa.string())))
    with pytest.raises(ConfigError, match=r"has no column note.*add-columns"):
        lake.writer(wider).validate()
    query = lake.query(wider, schemaEvolution="add-columns", generation=1, logged=0)
    query.commit(1, pa.RecordBatch.from_pylist([{"id": 2, "name": "b", "note": ["x"]}], wider))
    found = sorted(lake.read(), key=lambda row: row["id"])
    assert [row["note"] for row in found] == [None, ["x"]]
    # A query may leave columns out, and have them in another order.
    fewer = pa.schema(list(reversed(SCHEMA)))
    batch = pa.RecordBatch.from_pylist([{"name": "c", "id": 3}], fewer)
    lake.query(fewer, generation=2, logged=1).commit(2, batch)
    assert lake.ids() == [1, 2, 3]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (Schema(column(1, "id", IntegerType())), "type int; the query writes long"),
        (Schema(column(1, "ID", LongType())), "the column ID, which the query calls id"),
        (
            Schema(column(1, "id", LongType()), column(2, "x", LongType(), required=True)),
            "the column x, which must not be left out",
        ),
    ],
)
def test_tables_that_do_not_fit(lake: Lake, schema: Schema, message: str) -> None:
    lake.catalog.create_namespace("db")
    lake.catalog.create_table(NAME, schema)
    with pytest.raises(ConfigError, match=message):
        lake.writer(schemaEvolution="add-columns").validate()


def test_parts_that_must_not_be_null_are_refused(lake: Lake) -> None:
    lake.catalog.create_namespace("db")
    inner = ListType(2, StringType(), element_required=True)
    lake.catalog.create_table(NAME, Schema(column(1, "l", inner)))
    with pytest.raises(ConfigError, match="of which parts must not be null"):
        lake.writer(pa.schema([("l", pa.list_(pa.string()))])).validate()


def test_nulls_do_not_come_into_columns_that_have_none(lake: Lake) -> None:
    lake.catalog.create_namespace("db")
    strict = Schema(column(1, "id", LongType(), required=True), column(2, "name", StringType()))
    lake.catalog.create_table(NAME, strict)
    query = lake.query()
    query.commit(0, rows(1))
    batch = pa.RecordBatch.from_pylist([{"id": None, "name": "b"}], SCHEMA)
    with pytest.raises(SinkCommitRejectedError, match="a row has no id"):
        query.prepare(1, batch)
    assert len(lake.data_files()) == 1
    assert lake.ids() == [1]


@pytest.mark.parametrize(
    ("schema", "options", "message"),
    [
        (pa.schema([("a.b", pa.int64())]), {}, "cannot be named 'a.b'"),
        (pa.schema([("a", pa.int64()), ("A", pa.int64())]), {}, "differ in case only"),
        (pa.schema([("a", pa.duration("us"))]), {}, "cannot hold the column a, .* INTERVAL"),
        (pa.schema([("a", pa.list_(pa.null()))]), {}, "cannot hold the column a, .* VOID"),
        (pa.schema([("a", pa.list_(pa.struct([])))]), {}, "cannot hold the column a, .* STRUCT<>"),
        (SCHEMA, {"__partition_by": '["x"]'}, "names 'x', which is no column"),
        (SCHEMA, {"partitionSpec": "days(id)"}, "day is not made of the type long"),
        (SCHEMA, {"partitionSpec": "bucket(id)"}, r"'bucket\(id\)' is no partition"),
        (SCHEMA, {"partitionSpec": "id", "__partition_by": '["id"]'}, "not both"),
        (pa.schema([("f", pa.float32())]), {"partitionSpec": "f"}, "float makes no partition"),
        (SCHEMA, {"mergeSchema": "true"}, "no option 'mergeschema'"),
        (SCHEMA, {"schemaEvolution": "merge"}, "one of refuse, add-columns"),
        (SCHEMA, {"compression": "lzo"}, "Option compression of sink iceberg"),
        (SCHEMA, {"table": "orders"}, "it must be namespace.table"),
    ],
)
def test_what_cannot_be(
    lake: Lake, schema: pa.Schema, options: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        lake.writer(schema, **options)


def test_a_catalog_that_cannot_be_reached_is_told_before_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        Lake({"type": "sql", "uri": f"sqlite:///{tmp_path}/no/folder.db"}).writer().validate()
    with pytest.raises(ConfigError, match="cannot be read"):
        Lake({"type": "carrier-pigeon"}).writer().validate()


def test_a_machine_without_the_client_is_told_what_to_install(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "engine.sinks.iceberg.catalogs", raising=False)
    monkeypatch.setitem(sys.modules, "pyiceberg.catalog", None)
    with pytest.raises(ConfigError, match=r"needs Iceberg's client.*pip install .*\[iceberg\]"):
        lake.writer()
