"""What becomes of rows in a Delta table: values, partitions, statistics, and what does not fit."""

from __future__ import annotations

import json
import sys
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

pytest.importorskip("deltalake", reason="needs the extra delta")

from deltalake import DeltaTable, Schema, write_deltalake

from engine.errors import (
    ConfigError,
    SinkCommitRejectedError,
)
from engine.expressions.types import schema_to_spark
from engine.sinks.delta.schemas import Rows, TableFacts
from engine.sinks.files import row_files
from tests.unit.delta_tables import data_files, ids, read, writer
from tests.unit.lake_queries import SCHEMA, Query, rows
from tests.unit.null_structs import COLUMNS

# -- partitions, types, statistics ----------------------------------------------------------------


def test_partition_values(tmp_path: Path) -> None:
    schema = pa.schema([("d", pa.date32()), ("k", pa.string()), ("id", pa.int64())])
    query = Query(writer(tmp_path, schema, __partition_by='["d", "k"]'))
    day = date(2024, 5, 6)
    data = [(day, "x"), (None, "a/b %41"), (day, "ä:é"), (day, None), (day, "x"), (day, "a+b&c=d")]
    query.commit(
        0,
        pa.RecordBatch.from_pylist(
            [{"d": d, "k": k, "id": i} for i, (d, k) in enumerate(data)], schema
        ),
    )
    found = {row["id"]: (row["d"], row["k"]) for row in read(tmp_path)}
    assert found == dict(enumerate(data))
    assert DeltaTable(str(tmp_path)).metadata().partition_columns == ["d", "k"]
    folders = {str(path.parent.relative_to(tmp_path)) for path in data_files(tmp_path)}
    assert "d=2024-05-06/k=x" in folders
    # A table that is there says itself how it is partitioned.
    again = Query(writer(tmp_path, schema), generation=1, logged=0)
    again.commit(1, pa.RecordBatch.from_pylist([{"d": day, "k": "y", "id": 9}], schema))
    assert [row["k"] for row in read(tmp_path) if row["id"] == 9] == ["y"]
    assert len(list((tmp_path / "d=2024-05-06/k=y").iterdir())) == 1


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_structs_that_are_null_with_fields_that_are_not(tmp_path: Path, column: pa.Array) -> None:
    batch = pa.RecordBatch.from_pydict({"s": column})
    query = Query(writer(tmp_path, batch.schema))
    query.commit(0, batch)
    query.commit(1, batch.slice(1, 1))
    found = sorted(map(str, read(tmp_path)))
    assert found == sorted(map(str, [*batch.to_pylist(), *batch.slice(1, 1).to_pylist()]))


def test_all_types_come_back(tmp_path: Path) -> None:
    moment = datetime(2024, 2, 29, 23, 59, 59, 123456)
    values: list[tuple[pa.DataType, Any]] = [
        (pa.bool_(), True),
        (pa.int8(), -128),
        (pa.int16(), 32767),
        (pa.int32(), -5),
        (pa.int64(), 2**62),
        (pa.float32(), 1.5),
        (pa.float64(), -2.25),
        (pa.decimal128(38, 3), Decimal("12345678901234567890123456789012345.678")),
        (pa.string(), "ä\x00"),
        (pa.binary(), b"\xff"),
        (pa.date32(), date(1, 1, 1)),
        (pa.timestamp("us", tz="UTC"), moment.replace(tzinfo=timezone.utc)),
        (pa.timestamp("us"), moment),
        (pa.list_(pa.int32()), [1, None]),
        (pa.map_(pa.string(), pa.int64()), [("a", 1)]),
        (pa.struct([("x", pa.int32())]), {"x": None}),
    ]
    schema = pa.schema([(f"c{i}", dtype) for i, (dtype, _) in enumerate(values)])
    given = {f"c{i}": value for i, (_, value) in enumerate(values)}
    query = Query(writer(tmp_path, schema))
    batch = pa.RecordBatch.from_pylist([given, dict.fromkeys(schema.names)], schema)
    query.commit(0, batch)
    assert read(tmp_path) == [given, dict.fromkeys(schema.names)]


def test_statistics_let_readers_pass_files_over_and_lose_no_row(tmp_path: Path) -> None:
    schema = pa.schema(
        [
            ("i", pa.int64()),
            ("f", pa.float64()),
            ("s", pa.string()),
            ("d", pa.decimal128(20, 2)),
            ("t", pa.timestamp("us", tz="UTC")),
            ("x", pa.struct([("y", pa.int32())])),
        ]
    )
    nan, long = float("nan"), "z" * 40
    first = datetime(2024, 1, 1, tzinfo=timezone.utc)
    query = Query(writer(tmp_path, schema))
    for epoch, values in enumerate(
        [
            (1, 1.0, "a", Decimal("1.10"), first),
            (2, nan, long, Decimal("99999999999999999.99"), None),
        ]
    ):
        full = dict(zip(schema.names, (*values, {"y": 1}), strict=True))
        empty = {**dict.fromkeys(schema.names), "i": values[0]}
        query.commit(epoch, pa.RecordBatch.from_pylist([full, empty], schema))
    log = tmp_path / "_delta_log"
    told = []
    for version in (1, 2):
        lines = map(json.loads, (log / f"{version:020}.json").read_text().splitlines())
        told += [json.loads(line["add"]["stats"]) for line in lines if "add" in line]
    assert told[0] == {
        "numRecords": 2,
        "minValues": {"i": 1, "f": 1.0, "s": "a", "d": 1.1, "t": "2024-01-01T00:00:00.000000Z"},
        "maxValues": {"i": 1, "f": 1.0, "s": "a", "d": 1.1, "t": "2024-01-01T00:00:00.000000Z"},
        "nullCount": {"i": 0, "f": 1, "s": 1, "d": 1, "t": 1},
    }
    assert told[1]["minValues"] == {"i": 2, "s": "z" * 32, "d": 99999999999999999.99}
    assert told[1]["maxValues"].keys() == {"i", "d"}
    assert '"d":99999999999999999.99' in (log / f"{2:020}.json").read_text().replace("\\", "")
    dataset = DeltaTable(str(tmp_path)).to_pyarrow_dataset()
    assert dataset.to_table(filter=ds.field("s") > "y")["i"].to_pylist() == [2]
    assert dataset.to_table(filter=ds.field("i") == 1).num_rows == 2
    assert len(list(dataset.get_fragments(filter=ds.field("i") == 1))) == 1


def test_large_epochs_make_files_of_the_wanted_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_files, "BUFFER_BYTES", 1_000)
    query = Query(writer(tmp_path, targetFileSize=4_000))
    query.commit(0, *(rows(*range(i, i + 50)) for i in range(0, 5_000, 50)))
    sizes = [path.stat().st_size for path in data_files(tmp_path)]
    assert len(sizes) > 5
    assert all(size < 12_000 for size in sizes)
    assert ids(tmp_path) == list(range(5_000))


# -- what fits a table ----------------------------------------------------------------------------


def test_columns_are_added_if_that_is_wanted(tmp_path: Path) -> None:
    Query(writer(tmp_path)).commit(0, rows(1))
    wider = SCHEMA.append(pa.field("note", pa.string()))
    with pytest.raises(ConfigError, match=r"has no column note.*add-columns"):
        writer(tmp_path, wider).validate()
    query = Query(writer(tmp_path, wider, schemaEvolution="add-columns"), generation=1, logged=0)
    query.commit(1, pa.RecordBatch.from_pylist([{"id": 2, "name": "b", "note": "x"}], wider))
    found = sorted(read(tmp_path), key=lambda row: row["id"])
    assert [row["note"] for row in found] == [None, "x"]
    # A query may leave columns out.
    Query(writer(tmp_path), generation=2, logged=1).commit(2, rows(3))
    assert ids(tmp_path) == [1, 2, 3]


def test_a_table_that_changes_while_the_query_runs(tmp_path: Path) -> None:
    query = Query(writer(tmp_path))
    query.commit(0, rows(1))
    table = DeltaTable(str(tmp_path))
    table.alter.add_columns(Schema.from_arrow(pa.schema([("more", pa.int64())])).fields)
    query.commit(1, rows(2))
    assert ids(tmp_path) == [1, 2]
    message = query.prepare(2, rows(3))
    write_deltalake(
        str(tmp_path), pa.table({"id": ["text"], "name": ["b"]}), mode="overwrite",
        schema_mode="overwrite",
    )  # fmt: skip
    with pytest.raises(SinkCommitRejectedError, match="column id with the type string"):
        query.sink.commit([message], 2)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"type": "integer"}, "the type integer; the query writes long"),
        ({"metadata": {"delta.generationExpression": "1"}}, "is generated"),
        ({"metadata": {"__CHAR_VARCHAR_TYPE_STRING": "char(3)"}}, "CHAR or VARCHAR"),
        ({"name": "ID"}, "the column ID, which the query calls id"),
    ],
)
def test_columns_that_do_not_fit(tmp_path: Path, column: dict[str, Any], message: str) -> None:
    field = {"name": "id", "type": "long", "nullable": True, "metadata": {}, **column}
    name = {"name": "name", "type": "string", "nullable": True, "metadata": {}}
    schema = Schema.from_json(json.dumps({"type": "struct", "fields": [field, name]}))
    DeltaTable.create(str(tmp_path), schema)
    with pytest.raises(ConfigError, match=message):
        writer(tmp_path, schemaEvolution="add-columns").validate()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("delta.columnMapping.mode", "name"),
        ("delta.enableRowTracking", "true"),
        ("delta.enableInCommitTimestamps", "true"),
        ("delta.setTransactionRetentionDuration", "interval 7 days"),
    ],
)
def test_properties_that_this_sink_does_not_keep(name: str, value: str) -> None:
    query = Rows.of(schema_to_spark(SCHEMA), (), adds_columns=False)
    fields = {each["name"]: each for each in query.schema()["fields"]}
    query.check(TableFacts("id", fields, (), {"delta.appendOnly": "true"}), "t")
    with pytest.raises(ConfigError, match=f"the table t .*{name}"):
        query.check(TableFacts("id", fields, (), {name: value}), "t")


def test_what_a_table_asks_beyond_types_is_refused(tmp_path: Path) -> None:
    DeltaTable.create(str(tmp_path), SCHEMA).alter.add_constraint({"positive": "id > 0"})
    with pytest.raises(ConfigError, match="constraint positive: id > 0"):
        writer(tmp_path).validate()


def test_nulls_do_not_come_into_columns_that_have_none(tmp_path: Path) -> None:
    strict = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string())])
    DeltaTable.create(str(tmp_path), strict)
    query = Query(writer(tmp_path))
    query.commit(0, rows(1))
    batch = pa.RecordBatch.from_pylist([{"id": None, "name": "b"}], SCHEMA)
    with pytest.raises(SinkCommitRejectedError, match="a row has no id"):
        query.prepare(1, batch)
    assert len(data_files(tmp_path)) == 1


@pytest.mark.parametrize(
    ("schema", "options", "message"),
    [
        (pa.schema([("a b", pa.int64())]), {}, "cannot be named 'a b'"),
        (pa.schema([("a", pa.int64()), ("A", pa.int64())]), {}, "differ in case only"),
        (pa.schema([("a", pa.duration("us"))]), {}, "interval"),
        (pa.schema([("a", pa.list_(pa.null()))]), {}, "void"),
        (pa.schema([("a", pa.list_(pa.struct([])))]), {}, "struct<>"),
        (SCHEMA, {"__partition_by": '["x"]'}, "names 'x', which is no column"),
        (SCHEMA, {"__partition_by": '["id", "name"]'}, "names all columns"),
        (
            SCHEMA.append(pa.field("t", pa.timestamp("us", tz="UTC"))),
            {"__partition_by": '["t"]'},
            r"cannot be partitioned by t.*as a timestamp has one",
        ),
        (SCHEMA, {"mergeSchema": "true"}, "no option 'mergeschema'"),
        (SCHEMA, {"schemaEvolution": "merge"}, "one of refuse, add-columns"),
        (SCHEMA, {"storage.AWS_S3_ALLOW_UNSAFE_RENAME": "true"}, "overwrite each other"),
    ],
)
def test_what_cannot_be(
    tmp_path: Path, schema: pa.Schema, options: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        writer(tmp_path, schema, **options)


def test_a_folder_with_something_else_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").touch()
    with pytest.raises(ConfigError, match="is no Delta table, and it is not empty"):
        writer(tmp_path).validate()


def test_partitions_other_than_the_table_s_are_refused(tmp_path: Path) -> None:
    Query(writer(tmp_path, __partition_by='["name"]'))
    with pytest.raises(ConfigError, match=r"is partitioned by \(name\), the query by \(id\)"):
        writer(tmp_path, __partition_by='["id"]').validate()


def test_a_machine_without_the_client_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(ConfigError, match=r"needs Delta's client.*pip install .*\[delta\]"):
        writer(tmp_path)
