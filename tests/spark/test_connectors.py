"""The connectors beside Spark: what one writes the other reads, and both read the same."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import StructType

from engine.checkpoint.sink_context import SinkContext
from engine.expressions.schemas import to_arrow
from engine.query.registration import register
from engine.sinks.builtin_sinks import sink_class
from engine.sinks.files.data_source import FilesWriter
from engine.sinks.files.file_sink_log import FileSinkLog
from engine.sinks.files.partition_paths import escape
from engine.sinks.foreach_batch import ForeachBatchWriter
from engine.sinks.memory import MemoryWriter
from engine.sinks.show import show_text
from tests.spark.since import WITH_MICRO_BATCHES, WITHOUT_MICRO_BATCHES
from tests.waiting import wait_until

pytestmark = pytest.mark.spark

ALL_TYPES = """
    SELECT id, if(id % 5 = 0, null, id) AS n, cast(id AS TINYINT) AS i8,
      cast(id AS SMALLINT) AS i16, cast(id AS INT) AS i32, cast(id / 7 AS FLOAT) AS f,
      id / 3 AS d, id % 2 = 0 AS b, concat('ä"\\\\,', id) AS s,
      cast(id AS DECIMAL(10, 3)) / 7 AS m, date'2024-02-28' + cast(id AS INT) AS day,
      timestamp_micros(id * 123456789123456) AS t,
      cast(timestamp_micros(id * 1234567891234) AS TIMESTAMP_NTZ) AS ntz
    FROM range(1, 20)
"""
NESTED = """
    , array(id, null) AS a, map(concat('k', id), id, 'null', null) AS k,
      cast(concat('b', id) AS BINARY) AS bin,
      named_struct('x', id, 'y', cast(null AS STRING),
                   'z', array(named_struct('t', timestamp_seconds(id)))) AS st
"""
WITH_NESTED = ALL_TYPES.replace("FROM", NESTED + " FROM")


@pytest.fixture(scope="module", autouse=True)
def _registered(spark: SparkSession) -> None:
    register(spark)


def batches_of(df: DataFrame) -> list[pa.RecordBatch]:
    """The rows as the engine has them."""
    table = df.toArrow().cast(to_arrow(df.schema, "test"))
    return table.to_batches(max_chunksize=7)


def writer(kind: str, schema: StructType, options: Mapping[str, Any]) -> Any:
    given = CaseInsensitiveDict({key: str(value) for key, value in options.items()})
    return sink_class(kind)(given).streamWriter(schema, overwrite=False)


def write(df: DataFrame, folder: Path, kind: str, **options: Any) -> FilesWriter:
    """The rows in two epochs of a files sink, with an uncommitted file beside them."""
    sink = writer(kind, df.schema, {"path": folder, **options})
    batches = batches_of(df)
    sink.commit([sink.write(iter(batches[:1])), sink.write(iter([]))], 0)
    sink.commit([sink.write(iter([])), sink.write(iter(batches[1:]))], 1)
    sink.write(iter(batches))
    return sink


def sorted_rows(df: DataFrame) -> list[Row]:
    return sorted(df.collect(), key=str)


# -- the files sink, read by Spark ----------------------------------------------------------------


def test_spark_reads_exactly_what_was_committed_to_parquet(
    spark: SparkSession, tmp_path: Path
) -> None:
    df = spark.sql(WITH_NESTED)
    write(df, tmp_path, "parquet")
    found = spark.read.parquet(str(tmp_path))
    assert [(f.name, f.dataType) for f in found.schema] == [(f.name, f.dataType) for f in df.schema]
    assert sorted_rows(found) == sorted_rows(df)


def test_spark_reads_intervals_back(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.sql("SELECT INTERVAL '1 02:03:04.5' DAY TO SECOND AS i")
    write(df, tmp_path, "parquet")
    assert sorted_rows(spark.read.parquet(str(tmp_path))) == sorted_rows(df)


def test_spark_reads_json_back(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.sql(WITH_NESTED).drop("t", "ntz")
    write(df, tmp_path, "json")
    assert sorted_rows(spark.read.schema(df.schema).json(str(tmp_path))) == sorted_rows(df)


@pytest.mark.parametrize("header", ["true", "false"])
def test_spark_reads_csv_back(spark: SparkSession, tmp_path: Path, header: str) -> None:
    df = spark.sql(ALL_TYPES).drop("t", "ntz")
    write(df, tmp_path, "csv", header=header)
    found = spark.read.schema(df.schema).option("header", header).csv(str(tmp_path))
    assert sorted_rows(found) == sorted_rows(df)


def lines_in(folder: Path) -> list[str]:
    files = sorted(folder.glob("part-*"))
    return [line for file in files for line in file.read_bytes().decode().split("\n")]


AWKWARD_TEXT = r"""
    SELECT * FROM VALUES ('plain', 1e10, 'x'), ('', 1e-5, ''), ('  lead', 0.1, ' '),
      ('trail  ', double('NaN'), 'a\tb'), ('a,b', double('-Infinity'), '\t'), ('q"x', 1.0, '"'),
      ('a\\b', -0.0, 'a\\"b'), ('line\nbreak', 123456789.125, '#'), ('#comment', 3.0, 'a\\,b'),
      (null, null, null), ('cr\rx', 1e21, 'ä😀\u2028'), ('\u0001x', 1e7, '\'') AS v(s, d, u)
"""
TIMES = """
    SELECT timestamp'2024-02-03 04:05:06.789123' + make_dt_interval(cast(id * 91 AS INT)) AS t,
      cast(timestamp'2024-02-03 04:05:06.7' + make_dt_interval(cast(id AS INT)) AS TIMESTAMP_NTZ)
        AS n, cast(id AS DECIMAL(38, 18)) / 10000000 AS m, cast(id / 7 AS FLOAT) AS f
    FROM range(4)
"""


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York"])
@pytest.mark.parametrize("kind", ["json", "csv"])
def test_text_is_spark_s_byte_for_byte(
    spark: SparkSession, tmp_path: Path, kind: str, zone: str
) -> None:
    nested = WITH_NESTED if kind == "json" else ALL_TYPES
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        for number, query in enumerate([AWKWARD_TEXT, TIMES, nested]):
            df = spark.sql(query).coalesce(1)
            theirs, ours = tmp_path / f"theirs{number}", tmp_path / f"ours{number}"
            df.write.format(kind).save(str(theirs))
            sink = writer(kind, df.schema, {"path": ours, "__session_timezone": zone})
            sink.commit([sink.write(iter(batches_of(df)))], 0)
            assert lines_in(ours) == lines_in(theirs)
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))


def test_spark_reads_partitions_back(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.sql(
        "SELECT id, concat('a/b=', id % 3, ' ä%') AS name, if(id % 4 = 0, null, id % 4) AS k, "
        "date'2024-01-01' + cast(id % 2 AS INT) AS day, timestamp_seconds(id) AS t FROM range(20)"
    )
    by = ["name", "k", "day"]
    write(df, tmp_path, "parquet", __partition_by=json.dumps(by))
    found = spark.read.parquet(str(tmp_path)).selectExpr("id", "name", "bigint(k) AS k", "day", "t")
    assert sorted_rows(found) == sorted_rows(df)
    theirs = tmp_path / "theirs"
    df.write.partitionBy(*by).parquet(str(theirs))
    assert folders(tmp_path, "theirs", "_spark_metadata") == folders(theirs)


def folders(root: Path, *ignored: str) -> set[str]:
    found = {str(each.parent.relative_to(root)) for each in root.rglob("part-*")}
    return {each for each in found if each.split("/")[0] not in ignored}


@pytest.mark.parametrize("column", ["d", "t", "m", "b", "f", "o", "s"])
def test_partition_values_are_written_as_spark_does(
    spark: SparkSession, tmp_path: Path, column: str
) -> None:
    df = spark.sql(
        "SELECT id, double(id * 1e7) AS d, timestamp_micros(id * 1234567) AS t, "
        "cast(id AS DECIMAL(9, 4)) / 3 AS m, id = 1 AS b, float(id / 7) AS f, "
        "element_at(array(X'41FF', X'EDA080C3', X'E4'), int(id) + 1) AS o, "
        "cast(element_at(array(X'C3A4', X'FF3D', X''), int(id) + 1) AS STRING) AS s FROM range(3)"
    )
    sink = writer(
        "parquet", df.schema, {"path": tmp_path / "ours", "__partition_by": json.dumps([column])}
    )
    sink.write(iter(batches_of(df)))
    df.write.partitionBy(column).parquet(str(tmp_path / "theirs"))
    assert folders(tmp_path / "ours") == folders(tmp_path / "theirs")


def test_names_are_escaped_as_spark_does(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    theirs = jvm.org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils
    for char in [*map(chr, range(1, 128)), "ä", "語"]:
        assert escape(char) == theirs.escapePathName(char), repr(char)


def test_spark_reads_the_log_through_compactions(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.range(1)
    sink = writer("parquet", df.schema, {"path": tmp_path, "compactInterval": 3})
    for epoch in range(8):
        rows = [pa.RecordBatch.from_pydict({"id": pa.array([epoch], pa.int64())})]
        sink.commit([sink.write(iter(rows if epoch % 3 else []))], epoch)
        if epoch in (1, 2, 5, 7):
            expected = [each for each in range(epoch + 1) if each % 3]
            ids = [row.id for row in spark.read.parquet(str(tmp_path)).collect()]
            assert sorted(ids) == expected


def test_spark_reads_a_log_whose_interval_has_grown(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.sinks.files.file_sink_log.LINES_PER_EPOCH", 0)
    sink = writer("parquet", spark.range(1).schema, {"path": tmp_path})
    for epoch in range(130):
        rows = pa.RecordBatch.from_pydict({"id": pa.array([epoch], pa.int64())})
        sink.commit([sink.write(iter([rows]))], epoch)
        if epoch in (38, 39, 40, 58, 59, 60, 79, 80, 99, 119, 129):
            ids = [row.id for row in spark.read.parquet(str(tmp_path)).collect()]
            assert sorted(ids) == list(range(epoch + 1))
    assert sink.log.interval(sink.log.listing()) == 40
    # A day of epochs without files, as dead letters have that were switched off and on again.
    sink.log.fill(86_400)
    for epoch in range(86_401, 86_425):
        sink.commit([sink.write(iter([]))], epoch)
        if epoch % 4 == 0:
            assert spark.read.parquet(str(tmp_path)).count() == 130


def test_spark_s_own_sink_goes_on_with_our_log(spark: SparkSession, tmp_path: Path) -> None:
    source, out, checkpoint = tmp_path / "in", tmp_path / "out", tmp_path / "checkpoint"
    source.mkdir()
    (source / "a.json").write_text('{"id":1}\n')
    stream = spark.readStream.schema("id BIGINT").json(str(source)).writeStream.format("parquet")
    stream = stream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    stream.start(str(out)).awaitTermination()
    sink = writer("parquet", StructType().add("id", "long"), {"path": out})
    assert sink.latestEpoch() == 0
    row = pa.RecordBatch.from_pydict({"id": pa.array([2], pa.int64())})
    sink.commit([sink.write(iter([row]))], 1)
    log: FileSinkLog = sink.log
    first = log.files()[0]
    assert first.line() in (out / "_spark_metadata" / "0").read_text()
    assert sorted(r.id for r in spark.read.parquet(str(out)).collect()) == [1, 2]


def test_spark_does_not_look_into_the_folders_of_our_runs(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Neither its readers nor its own sink, which goes on beyond a compaction."""
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    for number in range(12):
        (source / f"{number}.json").write_text(f'{{"id":{number}}}\n')
    sink = writer("parquet", StructType().add("id", "long"), {"path": out})
    for epoch in range(2):
        sink.bind(SinkContext("query", "run", generation=epoch, timeline=0))
        row = pa.RecordBatch.from_pydict({"id": pa.array([100 + epoch], pa.int64())})
        sink.commit([sink.write(iter([row]))], epoch)
    log = out / "_spark_metadata"
    (log / ".g1-query" / "7").write_bytes(b"as a run leaves it that is killed")
    stream = spark.readStream.schema("id BIGINT").option("maxFilesPerTrigger", 1)
    query = (
        stream.json(str(source))
        .writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(out))
    )
    query.awaitTermination()
    ids = [row.id for row in spark.read.parquet(str(out)).collect()]
    assert {100, 101} < set(ids)
    assert len(ids) == 12  # Spark's sink skips the two epochs that are there
    assert (log / "9.compact").exists()
    assert (log / ".g1-query").exists()


# -- in Spark's micro-batch mode ------------------------------------------------------------------


def run(df: DataFrame, name: str, checkpoint: Path) -> list[Row]:
    """Everything available, through Spark's memory sink."""
    query = (
        df.writeStream.format("memory")
        .queryName(name)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return sorted_rows(df.sparkSession.table(name))


@WITH_MICRO_BATCHES
@pytest.mark.parametrize("kind", ["json", "csv", "text"])
def test_tail_reads_what_spark_reads(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    df = spark.sql(WITH_NESTED if kind == "json" else ALL_TYPES)
    data = tmp_path / "data"
    if kind == "text":
        df = df.select("s")
    # The dialect that both understand: quotes are doubled.
    df.repartition(3).write.format(kind).option("escape", '"').save(str(data))
    schema = df.schema if kind != "text" else StructType().add("value", "string")
    stream = (
        spark.readStream.format("tail")
        .schema(schema)
        .options(path=str(data), fileFormat=kind, numPartitions="2")
        .load()
    )
    batch = spark.read.schema(schema).format(kind).option("escape", '"').load(str(data))
    assert run(stream, f"tail_{kind}", tmp_path / "checkpoint") == sorted_rows(batch)


AWKWARD_JSON = [
    '{"i":1,"s":"x","d":1,"t":"2024-05-06T07:08:09.123456Z","a":[1,2],"m":{"k":1}}',
    '{"s":1.50,"d":"NaN","t":"2024-05-06","day":"2024-2-3","x":{"y":1}}',
    '{"s":{"b": [1, 2.0]},"d":1e3,"t":"2024-05-06 07:08:09+02:00","dec":1.2345}',
    '{"s":true,"d":"-Infinity","t":1714979289,"dec":"7.1","st":{"z":"q","u":null}}',
    '  {"i":null,"a":[],"m":{},"st":{}}  ',
    "",
    '[{"i":7},{"i":8}]',
    '{"i":1,"i":2}',
]


@WITH_MICRO_BATCHES
def test_awkward_json_is_read_as_spark_does(spark: SparkSession, tmp_path: Path) -> None:
    schema = StructType.fromDDL(
        "i INT, s STRING, d DOUBLE, t TIMESTAMP, day DATE, dec DECIMAL(5, 2), a ARRAY<BIGINT>, "
        "m MAP<STRING, BIGINT>, st STRUCT<z: STRING, u: INT>"
    )
    for number, line in enumerate(AWKWARD_JSON):
        (tmp_path / f"{number}.json").write_text(line + "\n")
    options = {"path": str(tmp_path), "fileFormat": "json"}
    stream = spark.readStream.format("tail").schema(schema).options(**options).load()
    batch = spark.read.schema(schema).option("mode", "FAILFAST").json(str(tmp_path))
    found = run(stream, "awkward_json", tmp_path / "checkpoint")
    assert str(found) == str(sorted_rows(batch))  # as text, because NaN equals nothing


@WITH_MICRO_BATCHES
def test_awkward_csv_is_read_as_spark_does(spark: SparkSession, tmp_path: Path) -> None:
    schema = StructType.fromDDL(
        "i INT, s STRING, d DOUBLE, b BOOLEAN, t TIMESTAMP, dec DECIMAL(5,2)"
    )
    (tmp_path / "a.csv").write_text(
        "i,s,d,b,t,dec\r\n"
        '1,"a,b",1e3,true,2024-05-06T07:08:09Z,1.2345\r\n'
        ',,,,,\n\n2,"",-0.5,FALSE,2024-05-06,7\n3," x ",NaN,True,2024-05-06 07:08:09.5,-1\n'
        '4,"say ""hi""",1,false,,\n5,5" disk,1,false,,\nNA,NA,NA,NA,NA,NA\n'
    )
    options = {"path": str(tmp_path), "header": "true", "nullValue": "NA"}
    stream = spark.readStream.format("tail").schema(schema).options(fileFormat="csv", **options)
    batch = spark.read.schema(schema).options(escape='"', mode="FAILFAST", **options).format("csv")
    found = run(stream.load(), "awkward_csv", tmp_path / "checkpoint")
    assert str(found) == str(sorted_rows(batch.load()))


@WITH_MICRO_BATCHES
def test_tail_goes_on_in_micro_batches(spark: SparkSession, tmp_path: Path) -> None:
    data, checkpoint, out = tmp_path / "data", tmp_path / "checkpoint", tmp_path / "out"
    data.mkdir()
    stream = (
        spark.readStream.format("tail")
        .schema("id BIGINT")
        .options(path=str(data), fileFormat="json")
        .load()
    )

    def go_on() -> list[int]:
        stream.writeStream.format("continuous_parquet").option("path", str(out)).option(
            "checkpointLocation", str(checkpoint)
        ).trigger(availableNow=True).start().awaitTermination()
        return sorted(row.id for row in spark.read.parquet(str(out)).collect())

    (data / "a.json").write_text('{"id":1}\n{"id":2}\n{"id"')
    assert go_on() == [1, 2]
    with (data / "a.json").open("a") as file:
        file.write(":3}\n")
    (data / "b.json").write_text('{"id":4}\n')
    assert go_on() == [1, 2, 3, 4]
    assert go_on() == [1, 2, 3, 4]
    newest = max((checkpoint / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    end = json.loads(newest.read_text().splitlines()[-1])
    assert {name: at for name, at in end.items() if name != "/"} == {"a.json": 27, "b.json": 9}


@WITH_MICRO_BATCHES
def test_rate_in_micro_batches(spark: SparkSession, tmp_path: Path) -> None:
    stream = spark.readStream.format("arrow_rate").option("rowsPerSecond", 1000).load()
    assert [(f.name, f.dataType.simpleString()) for f in stream.schema] == [
        ("timestamp", "timestamp"),
        ("value", "bigint"),
    ]
    query = (
        stream.writeStream.format("memory")
        .queryName("rate_rows")
        .option("checkpointLocation", str(tmp_path))
        .start()
    )

    def more_than_a_hundred() -> list[int] | None:
        assert query.isActive, query.exception()
        values = sorted(row.value for row in spark.table("rate_rows").collect())
        return values if len(values) > 100 else None

    try:
        values = wait_until(more_than_a_hundred, "a hundred rows", 60)
    finally:
        query.stop()
    assert values == list(range(len(values)))


@WITHOUT_MICRO_BATCHES
@pytest.mark.parametrize("source", ["arrow_rate", "kafka"])
def test_micro_batches_of_an_earlier_spark_are_refused(
    spark: SparkSession, tmp_path: Path, source: str
) -> None:
    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "a"}
    stream = spark.readStream.format(source).options(**options if source == "kafka" else {}).load()
    with pytest.raises(StreamingQueryException, match=r"needs Spark 4\.2 or later") as error:
        run(stream, f"refused_{source}", tmp_path)
    assert "ModuleNotFoundError" not in str(error.value)


# -- sinks on the driver --------------------------------------------------------------------------


def test_memory_is_a_table_that_needs_no_job(spark: SparkSession) -> None:
    df = spark.sql(WITH_NESTED)
    sink = MemoryWriter("seen", df.schema, spark)
    assert spark.table("seen").collect() == []
    batches = batches_of(df)
    tracker = spark.sparkContext.statusTracker()
    spark.sparkContext.setJobGroup("memory", "none expected")
    try:
        sink.commit([sink.write(iter(batches[:1])), sink.write(iter([]))], 0)
        sink.commit([sink.write(iter(batches))], 0)
        sink.commit([sink.write(iter([])), sink.write(iter(batches[1:]))], 1)
        found = spark.table("seen").collect()
        assert list(tracker.getJobIdsForGroup("memory")) == []
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
    assert found == df.collect()
    assert spark.sql("SELECT max(id) FROM seen").collect() == [Row(19)]
    assert spark.table("seen").schema == df.schema


def test_foreach_batch_gets_a_data_frame(spark: SparkSession) -> None:
    df = spark.sql(WITH_NESTED)
    seen: list[tuple[int, list[Row]]] = []
    sink = ForeachBatchWriter(
        lambda batch, epoch: seen.append((epoch, batch.collect())), spark, df.schema
    )
    sink.commit([sink.write(iter([])), None], 0)
    sink.commit([sink.write(iter([])), sink.write(iter(batches_of(df)))], 1)
    assert seen == [(1, df.collect())]


def test_rows_without_columns_are_counted(spark: SparkSession) -> None:
    df = spark.range(3).select()
    seen: list[int] = []
    batches = [pa.RecordBatch.from_pydict({"a": [1, 2, 3]}).select([])]
    given = ForeachBatchWriter(lambda batch, epoch: seen.append(batch.count()), spark, df.schema)
    kept = MemoryWriter("uncolumned", df.schema, spark)
    for sink in (given, kept):
        sink.commit([sink.write(iter(batches)), None, sink.write(iter(batches))], 0)
    assert seen == [6]
    assert spark.table("uncolumned").count() == 6


def test_rows_are_shown_as_spark_shows_them(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    df = spark.sql(WITH_NESTED)
    table = pa.Table.from_batches(batches_of(df))
    for rows, width in ((20, 20), (5, 20), (20, 0), (1, 7)):
        df.show(rows, width if width else False)
        theirs = capsys.readouterr().out
        assert show_text(table, rows, width, "UTC") + "\n" == theirs


# -- Kafka's source, where Spark's own is not on the classpath ------------------------------------


def test_register_brings_kafka_where_spark_has_none(spark: SparkSession) -> None:
    """And again is fine."""
    register(spark)
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", "127.0.0.1:1")
    df = reader.option("subscribe", "orders").option("includeHeaders", "true").load()
    assert df.columns == [
        "key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers",
    ]  # fmt: skip
    assert df.isStreaming


def test_a_wrong_option_of_kafka_is_told_when_it_is_loaded(spark: SparkSession) -> None:
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", "127.0.0.1:1")
    with pytest.raises(AnalysisException, match="needs exactly one of the options subscribe"):
        reader.load()
