from __future__ import annotations

import pickle
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import StructType

from engine.checkpoint.logs.codec import MessageCodec
from engine.errors import ConfigError
from engine.expressions.types import schema_to_spark
from engine.sinks.builtin_sinks import sink_class
from engine.sinks.console import ConsoleWriter
from engine.sinks.show import show_text
from tests.unit.malformed_columns import BATCH

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


def console(schema: pa.Schema = SCHEMA, **options: Any) -> ConsoleWriter:
    source = sink_class("console")(CaseInsensitiveDict({k: str(v) for k, v in options.items()}))
    return source.streamWriter(StructType.fromJson(schema_to_spark(schema)), overwrite=False)  # type: ignore[return-value]


def rows(*ids: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"id": i, "name": f"n{i}"} for i in ids], SCHEMA)


def message(sink: ConsoleWriter, *batches: pa.RecordBatch) -> Any:
    made = pickle.loads(pickle.dumps(sink.taskWriter())).write(0, iter(batches))
    codec = MessageCodec(sink.messageTypes)
    return codec.decode(codec.encode([made]))


def test_an_epoch_is_printed_as_spark_does(capsys: pytest.CaptureFixture[str]) -> None:
    sink = console()
    sink.commit([message(sink, rows(1), rows(2)), None, message(sink, rows(33))], 3)
    assert capsys.readouterr().out == (
        "-------------------------------------------\n"
        "Batch: 3\n"
        "-------------------------------------------\n"
        "+---+----+\n"
        "| id|name|\n"
        "+---+----+\n"
        "|  1|  n1|\n"
        "|  2|  n2|\n"
        "| 33| n33|\n"
        "+---+----+\n"
        "\n"
    )


def test_an_empty_epoch_prints_an_empty_table(capsys: pytest.CaptureFixture[str]) -> None:
    sink = console()
    sink.commit([message(sink)], 0)
    assert capsys.readouterr().out.endswith("+---+----+\n| id|name|\n+---+----+\n+---+----+\n\n")


def test_more_rows_than_are_shown_are_not_shipped(capsys: pytest.CaptureFixture[str]) -> None:
    sink = console(numRows=2)
    batches = [rows(*range(i, i + 50)) for i in range(0, 1000, 50)]
    left = iter(batches)
    made = sink.write(left)
    assert next(left, None) is None  # all were consumed
    assert pa.ipc.open_stream(made.stream).read_all().num_rows == 3
    sink.commit([made], 0)
    assert capsys.readouterr().out.endswith("|  1|  n1|\n+---+----+\nonly showing top 2 rows\n")


def test_values_are_cut_or_not() -> None:
    table = pa.table({"s": ["x" * 21, "tab\tnew\nline", None], "日本": ["語", "a", "b"]})
    assert show_text(table, 20, 20, "UTC") == (
        "+--------------------+----+\n"
        "|                   s|日本|\n"
        "+--------------------+----+\n"
        "|xxxxxxxxxxxxxxxxx...|  語|\n"
        "|      tab\\tnew\\nline|   a|\n"
        "|                NULL|   b|\n"
        "+--------------------+----+\n"
    )
    assert show_text(table.slice(1, 1), 20, 0, "UTC") == (
        "+--------------+----+\n"
        "|s             |日本|\n"
        "+--------------+----+\n"
        "|tab\\tnew\\nline|a   |\n"
        "+--------------+----+\n"
    )
    assert "|tab|" in show_text(table.select(["s"]), 20, 3, "UTC")
    assert show_text(table, 1, 20, "UTC").endswith("only showing top 1 row")


def test_rows_without_columns(capsys: pytest.CaptureFixture[str]) -> None:
    sink = console(pa.schema([]), numRows=4)
    sink.commit([message(sink, rows(1, 2, 3).select([]))], 0)
    assert capsys.readouterr().out.splitlines()[3:] == ["++", "||", "++", *["||"] * 3, "++", ""]


def test_nested_values() -> None:
    schema = pa.schema(
        [
            ("a", pa.list_(pa.int64())),
            ("m", pa.map_(pa.string(), pa.float64())),
            ("s", pa.struct([("x", pa.bool_()), ("y", pa.binary())])),
            ("t", pa.timestamp("us", tz="UTC")),
        ]
    )
    moment = datetime(2024, 1, 1, 12, 0, 0, 500_000, tzinfo=timezone.utc)
    full = {"a": [1, None], "m": [("k", 1e10)], "s": {"x": True, "y": b"hi"}, "t": moment}
    batch = pa.RecordBatch.from_pylist([full, {"a": [], "m": [], "s": {}}, {}], schema)
    table = pa.Table.from_batches([pa.RecordBatch.from_pylist([{}], schema), batch]).slice(1)
    lines = show_text(table, 20, 0, "Europe/Berlin").splitlines()
    assert [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[3:6]] == [
        ["[1, NULL]", "{k -> 1.0E10}", "{true, [68 69]}", "2024-01-01 13:00:00.5"],
        ["[]", "{}", "{NULL, NULL}", "NULL"],
        ["NULL", "NULL", "NULL", "NULL"],
    ]


def test_texts_that_are_no_utf_8_are_what_java_reads() -> None:
    lines = show_text(pa.Table.from_batches([BATCH]), 20, 0, "UTC").splitlines()
    assert [cell.strip() for cell in lines[3].strip("|").split("|")] == [
        "a\ufffdb", "[a\ufffdb, NULL, c]", "{a\ufffdb -> a\ufffdb}", "{a\ufffdb, NULL}"
    ]  # fmt: skip


@pytest.mark.parametrize(
    "options", [{"numRows": "0"}, {"truncate": "-1"}, {"truncate": "perhaps"}, {"rows": "3"}]
)
def test_bad_options(options: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        console(**options)
