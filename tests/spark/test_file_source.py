"""Spark's file source run by Spark and run here: the same rows, one checkpoint."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from engine import write_stream
from engine.checkpoint.checkpoint import Checkpoint
from engine.errors import UnsupportedQueryError
from tests.waiting import wait_until

pytestmark = pytest.mark.spark
WAIT_S = 180
NAMES = ("plain", "with space", "50%", "50%25", "größe", "a+b=c", "東京", "#", "é")
"""Which are written otherwise in a URL, or are not. Not those that Spark takes for a pattern:
beside ``q?[x]{y}`` it reads other files of the batch twice."""


class Case:
    """A folder that is read, a checkpoint, and a folder for the rows."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.count = 0
        (folder / "in").mkdir()

    def put(self, name: str, values: int = 1) -> None:
        """A whole file, of so many new values."""
        lines = [json.dumps({"value": self.count + n}) for n in range(values)]
        self.count += values
        target = self.folder / "in" / f"{name}.json"
        target.parent.mkdir(exist_ok=True)
        written = self.folder / "written"
        written.write_text("\n".join(lines))
        written.rename(target)

    def rows(self, **options: str) -> DataFrame:
        reader = self.spark.readStream.schema("value BIGINT").options(**options)
        return reader.json(str(self.folder / "in"))

    def written(self, writer: Any) -> Any:
        options = {"path": str(self.folder / "out"), "checkpointLocation": self.checkpoint}
        return writer.format("parquet").options(**options)

    def in_spark(self, **options: str) -> None:
        query = self.written(self.rows(**options).writeStream).trigger(availableNow=True).start()
        assert query.awaitTermination(WAIT_S)

    def here(self, *puts: Callable[[], None], **options: str) -> None:
        """:param puts: done one after the other, while the query runs."""
        writer = self.written(write_stream(self.rows(**options)))
        query = writer.trigger(continuous="20 milliseconds").start()
        # Where there is nothing, all is processed before any task runs: then there is no epoch.
        wait_until(lambda: query.status["state"] == "RUNNING", "its tasks run", WAIT_S)
        query.processAllAvailable()
        for put in puts:
            put()
            query.processAllAvailable()
        query.drain(WAIT_S)
        assert query.exception() is None

    @property
    def checkpoint(self) -> str:
        return str(self.folder / "checkpoint")

    def committed(self) -> Any:
        (offset,) = Checkpoint(self.checkpoint).committed_offsets() or (None,)
        return offset

    def logged(self) -> list[str]:
        return sorted(each.name for each in (self.folder / "checkpoint/sources/0").iterdir()
                      if not each.name.startswith("."))  # fmt: skip

    def values(self) -> list[int]:
        return sorted(
            row.value for row in self.spark.read.parquet(str(self.folder / "out")).collect()
        )


@pytest.fixture
def case(spark: SparkSession, tmp_path: Path) -> Case:
    return Case(spark, tmp_path)


def test_a_checkpoint_moves_from_spark_and_back(case: Case) -> None:
    """With names of all kinds, and over compactions made by either."""
    for number, name in enumerate(NAMES):
        case.put(f"1 {name}", 2)
        if number == 2:
            case.in_spark(maxFilesPerTrigger="1")
    case.here(*(lambda name=name: case.put(f"2 {name}", 3) for name in NAMES))  # type: ignore[misc]
    assert case.values() == list(range(case.count))
    at = case.committed()["logOffset"]
    assert at >= 2 + len(NAMES)
    assert "9.compact" in case.logged()
    for name in NAMES:
        case.put(f"3 {name}")
    case.in_spark(maxFilesPerTrigger="3")
    assert case.committed() == {"logOffset": at + 3}
    case.put("last")
    case.here()
    assert case.committed() == {"logOffset": at + 4}
    assert case.values() == list(range(case.count))
    case.in_spark()
    assert case.values() == list(range(case.count))


def test_spark_goes_on_from_the_start_where_nothing_was_there(case: Case) -> None:
    case.here()
    assert case.committed() == {"logOffset": -1}
    case.put("first")
    case.in_spark()
    assert case.values() == [0]
    case.put("second")
    case.here()
    assert case.values() == [0, 1]


def test_files_that_spark_has_logged_and_not_read_are_read_here(case: Case) -> None:
    """Spark logs files before it logs the batch, and died in between; or in the midst of it."""
    case.put("a")
    case.in_spark()
    case.put("b")
    case.put("c")
    case.in_spark(maxFilesPerTrigger="1")
    folder = case.folder / "checkpoint"
    for name in ("commits/2", "offsets/2", "commits/1"):  # epoch 1 is run again, entry 2 follows
        (folder / name).unlink()
        (folder / f"{name.replace('/', '/.')}.crc").unlink()
    log = case.folder / "out/_spark_metadata"
    for name in ("1", "2"):
        (log / name).unlink()
        (log / f".{name}.crc").unlink()
    case.put("d")
    case.here()
    assert case.values() == [0, 1, 2, 3]
    assert case.committed() == {"logOffset": 3}
    case.in_spark()
    assert case.values() == [0, 1, 2, 3]


def test_the_output_of_a_files_sink_is_read_by_its_log(case: Case) -> None:
    case.put("a", 3)
    case.in_spark()
    out = case.folder / "out"
    (out / "no-part.parquet").write_bytes(b"of an epoch that was never committed")
    reader = case.spark.readStream.schema("value BIGINT").option("numPartitions", 1)
    rows = reader.parquet(str(out))
    writer = write_stream(rows).format("parquet").option("path", str(case.folder / "next"))
    query = (
        writer.option("checkpointLocation", str(case.folder / "next-checkpoint"))
        .trigger(continuous="20 milliseconds")
        .start()
    )
    query.processAllAvailable()
    case.put("b", 3)
    case.in_spark()
    query.processAllAvailable()
    query.drain(WAIT_S)
    rows = case.spark.read.parquet(str(case.folder / "next")).collect()
    assert sorted(row.value for row in rows) == list(range(6))


TYPES = "i INT, l BIGINT, d DOUBLE, s STRING, b BOOLEAN, t TIMESTAMP, n DECIMAL(10,2), day DATE"
COLUMNS = f"{TYPES}, a ARRAY<INT>, m MAP<STRING, STRING>, o STRUCT<x: INT, y: STRING>"
JSON_LINES = """{"i":1,"l":2,"d":0.5,"s":"x","b":true}
{"t":"2026-11-22 10:11:12.5","n":1.25,"day":"2026-11-22"}
{"a":[1,2],"m":{"k":"v"},"o":{"x":1,"y":"z"},"unknown":[1]}

{"i":"no number","l":7}
{"i":5000000000,"s":1.50}
{"i":1,
not json
null
7
[{"i":1},{"i":2}]
{"o":{"x":"no","y":"yes"},"i":4}
{"s":"\u00e4"} trailing
"""
CSV_LINES = r"""i,l
1,2,0.5,x,true,2026-11-22 10:11:12.5,1.25,2026-11-22
no,7,,,,,,
3
4,5,1e3,"a,b",false,,,,extra
,"",,"",,,,
5,6,7,it's,,,,
6,,,"say \"hi\", ok",,,,
7,,,"a\\b",,,,
8,,,a\\b,,,,
9,,,"x""y",,,,
10,,,"not closed
11,,,"NA",,,,
+12, 13, 1.5 ,+1,,,,
13,+13,+.5, 1,,,,
+ 14,++14,1_4,,,,,
"""


def same(
    case: Case, name: str, schema: str, select: str = "*", **options: str
) -> list[tuple[Any, ...]]:
    """The rows that Spark and this engine make of the folder, which are the same."""

    def read() -> DataFrame:
        reader = case.spark.readStream.schema(schema).options(**options)
        return reader.format(name).load(str(case.folder / "in")).selectExpr(select)

    wanted = case.spark.read.schema(schema).options(**options).format(name)
    theirs = wanted.load(str(case.folder / "in")).selectExpr(select).collect()
    writer = write_stream(read()).format("memory").queryName(f"same_{name}")
    query = writer.trigger(continuous="20 milliseconds").start()
    query.processAllAvailable()
    query.drain(WAIT_S)
    ours = case.spark.table(f"same_{name}").collect()

    def key(rows: list[Any]) -> list[tuple[Any, ...]]:
        return sorted((tuple(row) for row in rows), key=repr)

    assert key(ours) == key(theirs)
    return key(ours)


def test_json_is_read_as_spark_reads_it(case: Case) -> None:
    folder = case.folder / "in/day=2026-11-23/p=a%2Fb"
    folder.mkdir(parents=True)
    (folder / "lines.json").write_text(JSON_LINES)
    (folder / "more.json.gz").write_bytes(gzip.compress(b'{"i":9}\r\n{"i":10}'))
    (folder / "empty.json").touch()
    (folder / "marked.json").write_bytes(b'\xef\xbb\xbf{"i":12}\n')
    (folder / "_hidden.json").write_text('{"i":666}')
    (folder.parent / "p=__HIVE_DEFAULT_PARTITION__").mkdir()
    (folder.parent / "p=__HIVE_DEFAULT_PARTITION__/x.json").write_text('{"i":11}')
    rows = same(case, "json", f"{COLUMNS}, p STRING, _corrupt_record STRING")
    assert {row[-2] for row in rows} | {row[-1] for row in rows} >= {"a/b", None}


def test_csv_is_read_as_spark_reads_it(case: Case) -> None:
    (case.folder / "in/lines.csv").write_text(CSV_LINES)
    assert same(case, "csv", f"{TYPES}, _corrupt_record STRING", header="true", nullValue="NA")
    (case.folder / "in/lines.csv").write_text('"x""y",\n"a\\",""\n')
    assert same(case, "csv", "a STRING, b STRING", escape='"')[1][0] == 'x"y'


def test_text_is_read_as_spark_reads_it(case: Case) -> None:
    (case.folder / "in/lines.txt").write_text("a\n\n  b \r\nlast")
    (case.folder / "in/sub").mkdir()
    (case.folder / "in/sub/lines.txt").write_text("not without recursiveFileLookup")
    (case.folder / "in/other.txt").write_bytes(b"\xef\xbb\xbfmark\rreturn\r\nend\r")
    assert len(same(case, "text", "value STRING")) == 7


@pytest.mark.parametrize("name", ["parquet", "orc"])
def test_files_with_columns_are_read_as_spark_reads_them(case: Case, name: str) -> None:
    folder = str(case.folder / "in")
    full = case.spark.sql(
        "SELECT 1 AS i, 2L AS l, 0.5D AS d, 'x' AS s, true AS b,"
        " TIMESTAMP '2026-11-22 10:11:12' AS t, CAST(1.25 AS DECIMAL(10,2)) AS n,"
        " DATE '2026-11-22' AS day, array(1, 2) AS a,"
        " map('k', 'v') AS m, named_struct('x', 1, 'y', 'z') AS o"
    )
    full.write.mode("append").format(name).save(f"{folder}/p=1")
    case.spark.sql("SELECT 7 AS I, 8 AS other").write.mode("append").format(name).save(
        f"{folder}/p=2"
    )
    assert len(same(case, name, f"{COLUMNS}, p INT")) == 2


@pytest.mark.parametrize("name", ["parquet", "orc", "json", "csv", "text"])
def test_rows_of_which_only_the_folder_tells_a_column_count(case: Case, name: str) -> None:
    rows = case.spark.sql(
        "SELECT 'x' AS value, 1 AS p UNION ALL SELECT 'y', 1 UNION ALL SELECT 'z', 2"
    )
    rows.write.mode("append").partitionBy("p").format(name).save(str(case.folder / "in"))
    assert same(case, name, "value STRING, p INT", select="p") == [(1,), (1,), (2,)]


def test_instants_of_a_parquet_file_reach_as_far_as_sparks(case: Case) -> None:
    times = ("0001-01-01 00:00:00", "1969-12-31 23:59:59.123456", "9999-12-31 23:59:59")
    case.spark.sql(
        " UNION ALL ".join(f"SELECT TIMESTAMP '{each}' AS t" for each in times)
    ).write.mode("append").parquet(str(case.folder / "in"))
    assert len(same(case, "parquet", "t TIMESTAMP", select="CAST(t AS STRING)")) == 3


def test_instants_of_json_reach_as_far_as_sparks(case: Case) -> None:
    numbers = (1767225600000, -62198755200, 9223372036854, 9223372036855, 2**63 - 1, 2**63, 5)
    lines = [f'{{"t":{number},"i":{i}}}' for number in numbers for i in ("1", '"no"')]
    (case.folder / "in/lines.json").write_text("\n".join([*lines, "[" * 2_000]))
    select = "struct(CAST(t AS STRING), i, _corrupt_record) AS row"
    schema = "t TIMESTAMP, i INT, _corrupt_record STRING"
    assert len(same(case, "json", schema, select=select)) == len(lines) + 1


def test_what_files_are_like_is_refused(case: Case) -> None:
    with pytest.raises(UnsupportedQueryError, match="the column _metadata"):
        case.written(write_stream(case.rows().select("_metadata.file_path"))).trigger(
            continuous="1 second"
        ).start()
