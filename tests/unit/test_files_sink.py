from __future__ import annotations

import gzip
import json
import os
import pickle
import re
from collections.abc import Iterator
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import StructType

from engine.base import durable
from engine.base.locations import local_path
from engine.checkpoint.logs.codec import MessageCodec
from engine.errors import ConfigError, SinkCommitRejectedError, SinkUnavailableError
from engine.expressions.types import schema_to_spark
from engine.sinks.builtin_sinks import sink_class
from engine.sinks.epoch_context import EpochContext
from engine.sinks.files import row_files
from engine.sinks.files.data_source import FilesMessage, FilesWriter
from engine.sinks.files.file_sink_log import FileSinkLog
from engine.sinks.files.partition_paths import DEFAULT_PARTITION, escape, split
from tests.unit.malformed_columns import TEXTS
from tests.unit.null_structs import COLUMNS

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


def writer(
    folder: Path | str, schema: pa.Schema = SCHEMA, kind: str = "parquet", /, **options: Any
) -> FilesWriter:
    given = {"path": str(folder), **{key: str(value) for key, value in options.items()}}
    source = sink_class(kind)(CaseInsensitiveDict(given))
    made = source.streamWriter(StructType.fromJson(schema_to_spark(schema)), overwrite=False)
    assert isinstance(made, FilesWriter)
    return made


def rows(*ids: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"id": i, "name": f"n{i}"} for i in ids], SCHEMA)


def commit(sink: FilesWriter, epoch: int, *batches: pa.RecordBatch) -> None:
    """What the engine does, the way over the checkpoint included."""
    message = pickle.loads(pickle.dumps(sink)).write(iter(batches))
    codec = MessageCodec(sink.messageTypes)
    sink.commit([codec.decode(codec.encode([message])), None], epoch)


def committed(sink: FilesWriter) -> list[Path]:
    log: FileSinkLog = sink.log
    return [local_path(file.path, "test") for file in log.files()]


def data_files(folder: Path) -> list[Path]:
    return sorted(each for each in folder.rglob("part-*"))


def test_the_log_names_exactly_what_was_committed(tmp_path: Path) -> None:
    sink = writer(tmp_path)
    commit(sink, 0, rows(1, 2), rows(3))
    commit(sink, 1)
    commit(sink, 2, rows(4))
    assert sink.latestEpoch() == 2
    tables = [pq.read_table(path).to_pylist() for path in committed(sink)]
    assert [[row["id"] for row in table] for table in tables] == [[1, 2, 3], [4]]
    assert len(data_files(tmp_path)) == 2  # the empty epoch has no file


def test_names_are_spark_s_and_tell_the_generation(tmp_path: Path) -> None:
    sink = writer(tmp_path)
    EpochContext.set(EpochContext("q", "r", 2, 7, 3))
    try:
        (file,) = sink.write(iter([rows(1)])).files
    finally:
        EpochContext.set(None)
    pattern = r"part-00007-g2-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-c000\.snappy\.parquet"
    path = local_path(file.path, "test")
    assert file.path == f"file://{path}"
    assert re.fullmatch(pattern, path.name)
    assert file.size == path.stat().st_size
    assert file.modified_ms == path.stat().st_mtime_ns // 1_000_000


def test_no_filter_passes_over_nan(tmp_path: Path) -> None:
    """Spark takes it for greater than any other value, Arrow's statistics leave it out."""
    floats = pa.struct([("x", pa.float32()), ("y", pa.int64())])
    schema = pa.schema([("i", pa.int64()), ("f", pa.float64()), ("s", floats)])
    sink = writer(tmp_path, schema)
    row = {"i": 1, "f": 1.0, "s": {"x": 1.0, "y": 2}}
    nan = {"i": 2, "f": float("nan"), "s": {"x": float("nan"), "y": 3}}
    commit(sink, 0, pa.RecordBatch.from_pylist([row, nan], schema))
    group = pq.ParquetFile(committed(sink)[0]).metadata.row_group(0)
    columns = [group.column(i) for i in range(group.num_columns)]
    told = {each.path_in_schema: each.is_stats_set for each in columns}
    assert told == {"i": True, "f": False, "s.x": False, "s.y": True}


def test_an_epoch_is_committed_once(tmp_path: Path) -> None:
    sink = writer(tmp_path)
    commit(sink, 0, rows(1))
    commit(sink, 0, rows(2))
    assert [pq.read_table(path).column("id").to_pylist() for path in committed(sink)] == [[1]]


def test_a_new_writer_knows_the_latest_epoch(tmp_path: Path) -> None:
    assert writer(tmp_path).latestEpoch() is None
    commit(writer(tmp_path), 0, rows(1))
    assert writer(tmp_path).latestEpoch() == 0


def test_abort_deletes_the_files(tmp_path: Path) -> None:
    sink = writer(tmp_path / "a b%")
    message = sink.write(iter([rows(1)]))
    assert len(data_files(tmp_path)) == 1
    sink.abort([message, None], 0)
    sink.abort([message], 0)
    assert data_files(tmp_path) == []


def test_a_writer_that_fails_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_files, "BUFFER_BYTES", 1)

    def failing() -> Iterator[pa.RecordBatch]:
        yield rows(1)
        assert len(data_files(tmp_path)) == 1
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        writer(tmp_path).write(failing())
    assert data_files(tmp_path) == []


def test_small_batches_make_one_row_group(tmp_path: Path) -> None:
    sink = writer(tmp_path)
    commit(sink, 0, *(rows(i) for i in range(500)))
    (path,) = committed(sink)
    assert pq.ParquetFile(path).num_row_groups == 1
    assert pq.read_table(path).column("id").to_pylist() == list(range(500))


def test_what_is_large_is_written_while_the_epoch_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_files, "BUFFER_BYTES", 1_000)
    sink = writer(tmp_path)
    commit(sink, 0, *(rows(i) for i in range(500)))
    (path,) = committed(sink)
    assert pq.ParquetFile(path).num_row_groups > 1
    assert pq.read_table(path).column("id").to_pylist() == list(range(500))


def test_parquet_has_spark_s_schema_and_instants_in_utc(tmp_path: Path) -> None:
    schema = pa.schema(
        [("t", pa.timestamp("us", tz="UTC")), ("n", pa.timestamp("us")), ("m", pa.decimal128(7, 3))]
    )
    now = datetime(2024, 5, 6, 7, 8, 9, 123456)
    row = {"t": now.replace(tzinfo=timezone.utc), "n": now, "m": Decimal("1.234")}
    sink = writer(tmp_path, schema)
    commit(sink, 0, pa.RecordBatch.from_pylist([row], schema))
    (path,) = committed(sink)
    file = pq.ParquetFile(path)
    assert file.read().to_pylist() == [row]
    instant, local, _ = (str(file.schema.column(i).logical_type) for i in range(3))
    assert "isAdjustedToUTC=true, timeUnit=microseconds" in instant
    assert "isAdjustedToUTC=false, timeUnit=microseconds" in local
    metadata = file.metadata.metadata[b"org.apache.spark.sql.parquet.row.metadata"]
    assert json.loads(metadata) == schema_to_spark(schema)


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_parquet_has_structs_that_are_null_with_fields_that_are_not(
    tmp_path: Path, column: pa.Array
) -> None:
    batch = pa.RecordBatch.from_pydict({"s": column, "k": ["x"] * len(column)})
    sink = writer(tmp_path, batch.schema, __partition_by='["k"]')
    commit(sink, 0, batch, batch.slice(1))
    (path,) = committed(sink)
    file = pq.ParquetFile(path)
    assert file.read()["s"].to_pylist() == [*column.to_pylist(), *column.to_pylist()[1:]]
    metadata = file.metadata.metadata[b"org.apache.spark.sql.parquet.row.metadata"]
    assert json.loads(metadata) == schema_to_spark(batch.schema.remove(1))


@pytest.mark.parametrize(
    ("compression", "end"),
    [("none", "-c000.parquet"), ("zstd", "-c000.zstd.parquet"), ("gzip", "-c000.gz.parquet")],
)
def test_compression_of_parquet(tmp_path: Path, compression: str, end: str) -> None:
    sink = writer(tmp_path, compression=compression)
    commit(sink, 0, rows(1))
    (path,) = committed(sink)
    assert path.name.endswith(end)
    assert pq.read_table(path).num_rows == 1


def test_json_lines(tmp_path: Path) -> None:
    sink = writer(tmp_path, SCHEMA, "json")
    batch = pa.RecordBatch.from_pylist(
        [{"id": 1, "name": 'a"\n'}, {"id": None, "name": "ä"}], SCHEMA
    )
    commit(sink, 0, batch)
    (path,) = committed(sink)
    assert path.name.endswith("-c000.json")
    assert path.read_text() == '{"id":1,"name":"a\\"\\n"}\n{"name":"ä"}\n'


def test_csv_lines_with_a_header(tmp_path: Path) -> None:
    sink = writer(
        tmp_path, SCHEMA, "csv", header="true", sep=";", nullValue="NA", compression="gzip"
    )
    batch = pa.RecordBatch.from_pylist(
        [{"id": 1, "name": "a;b"}, {"id": None, "name": ""}, {"id": 3, "name": None}], SCHEMA
    )
    commit(sink, 0, batch)
    (path,) = committed(sink)
    assert path.name.endswith("-c000.csv.gz")
    assert gzip.decompress(path.read_bytes()).decode() == 'id;name\n1;"a;b"\nNA;""\n3;NA\n'


def test_csv_has_what_java_reads_in_texts_that_are_no_utf_8(tmp_path: Path) -> None:
    sink = writer(tmp_path, pa.schema([("t", pa.string())]), "csv")
    commit(sink, 0, pa.RecordBatch.from_pydict({"t": TEXTS}))
    (path,) = committed(sink)
    assert path.read_text(encoding="utf-8") == "a\ufffdb\n\nc\n"


def test_partition_values_that_are_no_utf_8(tmp_path: Path) -> None:
    """As Java reads them, so also what is a text in Spark. Others of the same folder join it."""
    octets = [b"a\xff", b"a\xfe", b"\xed\xa0\x80", b"\xc3\xa4", None, b""]
    texts = pa.array(octets, pa.binary()).view(pa.string())
    for kind, values in (("binary", pa.array(octets, pa.binary())), ("text", texts)):
        batch = pa.record_batch({"id": range(6), "p": values}).cast(
            pa.schema([("id", pa.int64()), ("p", values.type)])
        )
        sink = writer(tmp_path / kind, batch.schema, __partition_by='["p"]')
        commit(sink, 0, batch)
        assert {
            file.parent.name: pq.ParquetFile(file).read()["id"].to_pylist()
            for file in committed(sink)
        } == {
            "p=a\ufffd": [0, 1],
            "p=\ufffd": [2],
            "p=ä": [3],
            f"p={DEFAULT_PARTITION}": [4, 5],
        }


def test_partition_folders(tmp_path: Path) -> None:
    schema = pa.schema([("d", pa.date32()), ("k", pa.string()), ("id", pa.int64())])
    sink = writer(tmp_path, schema, __partition_by='["d", "k"]')
    day = date(2024, 5, 6)
    data = [(day, "x"), (None, "a/b"), (day, ""), (day, None), (day, "x")]
    batch = pa.RecordBatch.from_pylist(
        [{"d": d, "k": k, "id": i} for i, (d, k) in enumerate(data)], schema
    )
    commit(sink, 0, batch)
    found = {
        str(path.parent.relative_to(tmp_path)): pq.ParquetFile(path).read().to_pylist()
        for path in committed(sink)
    }
    assert found == {
        "d=2024-05-06/k=x": [{"id": 0}, {"id": 4}],
        f"d={DEFAULT_PARTITION}/k=a%2Fb": [{"id": 1}],
        f"d=2024-05-06/k={DEFAULT_PARTITION}": [{"id": 2}, {"id": 3}],
    }


def test_splitting_keeps_order_over_many_columns_and_values() -> None:
    table = pa.table(
        {"id": range(1000), **{f"c{i}": [j % 7 for j in range(1000)] for i in range(25)}}
    )
    columns = [f"c{i}" for i in range(25)]
    parts = list(split(table, columns, "UTC"))
    assert [part.column("id")[0].as_py() for _, part in parts] == list(range(7))
    assert all(
        part.column("id").to_pylist() == list(range(i, 1000, 7))
        for i, (_, part) in enumerate(parts)
    )


def test_a_batch_without_rows_goes_to_no_folder() -> None:
    assert (
        list(split(pa.table({"id": pa.array([], pa.int64()), "k": ["a"][:0]}), ["k"], "UTC")) == []
    )


def test_escaping() -> None:
    assert escape("a=b/c:%\n ä") == "a%3Db%2Fc%3A%25%0A ä"


def test_validate_creates_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    writer(folder).validate()
    assert list(folder.iterdir()) == []


def test_validate_refuses_what_cannot_be_written(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for path in (file, file / "below"):
        with pytest.raises(ConfigError, match=r"cannot write to .*file"):
            writer(path).validate()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_validate_refuses_a_read_only_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(ConfigError, match="Permission denied"):
        writer(tmp_path).validate()


def test_a_failing_disk_is_retryable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SinkUnavailableError) as error:
        writer(tmp_path / "file").write(iter([rows(1)]))
    assert error.value.retryable


def test_a_value_that_makes_no_folder_is_no_outage(tmp_path: Path) -> None:
    """It would be met again by every restart."""
    sink = writer(tmp_path, __partition_by='["name"]')
    long = pa.RecordBatch.from_pylist([{"id": 1, "name": "x" * 300}], SCHEMA)
    with pytest.raises(
        SinkCommitRejectedError, match="of column 'name' makes no folder: "
    ) as error:
        sink.write(iter([rows(2), long]))
    assert len(str(error.value)) < 600
    assert data_files(tmp_path) == []


def test_a_process_does_not_remember_folders_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable, "KEPT_MAX", 50)
    for epoch in range(4):
        names = [{"id": i, "name": f"n{epoch}-{i}"} for i in range(40)]
        commit(
            writer(tmp_path, __partition_by='["name"]'),
            epoch,
            pa.RecordBatch.from_pylist(names, SCHEMA),
        )
    assert len(durable._kept) <= 50
    assert len(data_files(tmp_path)) == 160


NESTED = pa.schema([("id", pa.int64()), ("x", pa.list_(pa.int64()))])


@pytest.mark.parametrize(
    ("schema", "kind", "options", "message"),
    [
        (SCHEMA, "parquet", {"path": ""}, "path"),
        (SCHEMA, "parquet", {"path": "ftp://b/x"}, "ftp://b/x.*object stores"),
        (SCHEMA, "parquet", {"storage.key": "k"}, "on a disk.*storage.key"),
        (SCHEMA, "parquet", {"compression": "rar"}, "snappy"),
        (SCHEMA, "parquet", {"header": "true"}, "no option 'header'"),
        (SCHEMA, "json", {"compression": "snappy"}, "none, uncompressed, gzip"),
        (SCHEMA, "parquet", {"__partition_by": '["nope"]'}, "'nope', which is no column"),
        (SCHEMA, "parquet", {"__partition_by": '["id", "name"]'}, "all columns"),
        (NESTED, "parquet", {"__partition_by": '["x"]'}, "nested"),
        (NESTED, "csv", {}, r"column x of type ARRAY<BIGINT>"),
        (pa.schema([("v", pa.null())]), "parquet", {}, "column v of type VOID"),
        (pa.schema([("v", pa.list_(pa.struct([])))]), "parquet", {}, "column v of type ARRAY"),
    ],
)
def test_bad_configuration(
    tmp_path: Path, schema: pa.Schema, kind: str, options: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        writer(tmp_path, schema, kind, **options)


def test_the_message_is_plain() -> None:
    assert MessageCodec(FilesWriter.messageTypes).encode([FilesMessage(())]) == (
        b'{"files":{"files":[],"host":null}}'
    )
