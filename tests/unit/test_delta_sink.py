"""The sink of a Delta table on a disk: what is committed, once, whoever dies or comes too late."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

pytest.importorskip("deltalake", reason="needs the extra delta")

from deltalake import DeltaTable, Schema, write_deltalake

from engine.base import durable
from engine.errors import (
    ConfigError,
    SinkCommitRejectedError,
    SinkUnavailableError,
    StaleRunError,
)
from engine.expressions.types import schema_to_spark
from engine.sinks.delta import table_log
from engine.sinks.delta.schemas import Rows, TableFacts
from engine.sinks.files import row_files
from tests.unit.delta_tables import (
    QUERY,
    SCHEMA,
    Query,
    data_files,
    ids,
    read,
    rows,
    writer,
)


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


def test_commits_are_synchronised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []

    class System:
        def __getattr__(self, name: str) -> Any:
            return getattr(durable.os, name)

        def fsync(self, descriptor: int) -> None:
            synced.append(Path(f"/proc/self/fd/{descriptor}").resolve().name)
            durable.os.fsync(descriptor)

    query = Query(writer(tmp_path / "t"))
    monkeypatch.setattr(durable, "system", System())
    query.commit(0, rows(1))
    (data,) = data_files(tmp_path)
    assert synced.index(data.name) < synced.index("t") < synced.index(f"{1:020}.json")
    assert synced[-2:] == ["_delta_log", "t"]


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
        (SCHEMA, {"__partition_by": '["x"]'}, "names 'x', which is no column"),
        (SCHEMA, {"__partition_by": '["id", "name"]'}, "names all columns"),
        (
            SCHEMA.append(pa.field("t", pa.timestamp("us", tz="UTC"))),
            {"__partition_by": '["t"]'},
            r"cannot be partitioned by t.*that of a timestamp",
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


# -- rewinds --------------------------------------------------------------------------------------


def rewound(folder: Path, to: int, generation: int) -> None:
    """As a rewind does it: the sink is reopened without its query."""
    from engine.checkpoint.sink_context import SinkContext
    from engine.sinks.reopen import reopen_sink

    sink = reopen_sink("delta", {"path": str(folder)})
    sink.checkRewind(to)
    sink.bind(SinkContext(QUERY, "rewind", generation, 0))
    sink.checkRewind(to)
    sink.rewind(to)
    sink.rewind(to)


def test_epochs_are_taken_back_and_come_again_with_other_rows(tmp_path: Path) -> None:
    query = Query(writer(tmp_path))
    other = Query(writer(tmp_path), query_id="other")
    for epoch in range(4):
        query.commit(epoch, rows(epoch))
        other.commit(epoch, rows(100 + epoch))
    rewound(tmp_path, 1, generation=1)
    assert ids(tmp_path) == [0, 1, 100, 101, 102, 103]
    again = Query(writer(tmp_path), generation=2, timeline=1, logged=1)
    assert again.latest is None
    for epoch in (2, 3, 4):
        again.commit(epoch, rows(10 + epoch))
    rewound(tmp_path, 2, generation=3)
    assert ids(tmp_path) == [0, 1, 12, 100, 101, 102, 103]
    rewound(tmp_path, 0, generation=4)
    assert ids(tmp_path) == [0, 100, 101, 102, 103]


def test_what_was_rewritten_since_is_not_taken_back(tmp_path: Path) -> None:
    query = Query(writer(tmp_path))
    for epoch in range(4):
        query.commit(epoch, rows(epoch))
    rewound(tmp_path, 2, generation=1)
    DeltaTable(str(tmp_path)).optimize.compact()
    with pytest.raises(ConfigError, match=r"files of epoch 2 .* were rewritten"):
        rewound(tmp_path, 1, generation=2)
    rewound(tmp_path, 2, generation=3)
    assert ids(tmp_path) == [0, 1, 2]


def test_an_append_only_table_is_not_taken_back(tmp_path: Path) -> None:
    Query(writer(tmp_path)).commit(0, rows(1))
    DeltaTable(str(tmp_path)).alter.set_table_properties({"delta.appendOnly": "true"})
    again = Query(writer(tmp_path), generation=1, logged=0)
    again.commit(1, rows(2))
    with pytest.raises(ConfigError, match="is append-only"):
        rewound(tmp_path, 0, generation=2)
    assert ids(tmp_path) == [1, 2]


def test_a_history_that_is_gone_is_not_guessed(tmp_path: Path) -> None:
    query = Query(writer(tmp_path))
    for epoch in range(4):
        query.commit(epoch, rows(epoch))
    DeltaTable(str(tmp_path)).create_checkpoint()
    for version in range(3):
        (tmp_path / "_delta_log" / f"{version:020}.json").unlink()
    with pytest.raises(ConfigError, match="does not reach back to epoch 0"):
        rewound(tmp_path, 0, generation=1)
    rewound(tmp_path, 2, generation=1)
    assert ids(tmp_path) == [0, 1, 2]


def test_no_table_no_rewind(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no Delta table"):
        rewound(tmp_path, 1, generation=1)


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
