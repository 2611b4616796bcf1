"""Records whose schemas are in a real registry: what was written by any schema of it is read by the
query's own, here and by Spark itself, and an outage of the registry loses nothing."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.json as pj
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from engine import register, write_stream
from engine.clients import web
from engine.errors import ConfigError, SourceUnavailableError, TransformError
from engine.plan.planner import plan_query
from engine.progress.counters import EpochCounters
from engine.registry import client
from engine.registry.avro import AvroDecoder, AvroEncoder, AvroSchema
from engine.registry.client import Access, Registry, UnknownSchemaError, connected
from engine.registry.functions import SchemaRegistry
from engine.task.bad_records import BadRecords
from engine.task.intake import Origin
from engine.task.transform import compile_steps
from tests.servers.apicurio import Apicurio, running_apicurio
from tests.servers.jars import NoJarsError
from tests.spark.queries import assert_same_query, stream_of
from tests.unit.test_registry_formats import EMPTY, ORDER, descriptors, logical, record
from tests.waiting import wait_until

pytestmark = pytest.mark.spark
ORIGIN = Origin("a topic", 0, None)
AT = datetime(2024, 5, 6, 7, 8, 9, 123_000, tzinfo=timezone.utc)
FIRST = record(("id", "int"), ("name", ["null", "string"]))
SECOND = json.dumps(
    {
        **json.loads(FIRST),
        "fields": [
            {"name": "id", "type": "int"},
            {"name": "more", "type": "string", "default": "-"},
            {"name": "name", "type": ["null", "string"]},
        ],
    }
)
PROTO = """\
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Nothing {}
message Order {
  enum Kind { NEW = 0; PAID = 1; }
  message Item { string sku = 1; uint32 count = 2; }
  int64 id = 1;
  Kind kind = 2;
  repeated Item items = 3;
  map<string, sint64> tags = 4;
  google.protobuf.Timestamp at = 5;
  optional string note = 6;
  uint64 huge = 7;
  bytes raw = 8;
}
"""
_numbers = itertools.count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apicurio]:
    try:
        with running_apicurio(tmp_path_factory.mktemp("registry") / "server") as server:
            yield server
    except NoJarsError as exc:
        pytest.skip(f"no schema registry: {exc}")


@pytest.fixture
def registry(server: Apicurio) -> Iterator[SchemaRegistry]:
    yield SchemaRegistry(server.url)
    connected.cache_clear()


@pytest.fixture
def subject() -> str:
    return f"s{next(_numbers)}/a-value"  # with what stands for something else in a URL


@contextmanager
def silent(server: Apicurio) -> Iterator[None]:
    """It does not answer, and nobody has much patience with it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(web, "ANSWER_S", 0.3)
        patch.setattr(client, "PAUSE_S", 0.01)
        server.process.suspend()
        try:
            yield
        finally:
            server.process.resume()


def raw(server: Apicurio) -> Registry:
    return connected(Access.of(server.url, {}))


def written(server: Apicurio, subject: str, schema: str, *rows: Any) -> list[bytes]:
    """Records of a producer that registers its schema."""
    id = raw(server).register(subject, "AVRO", schema)
    found: list[bytes] = AvroEncoder(id, AvroSchema([schema]))(pa.array(rows)).to_pylist()
    return found


# -- there and back -------------------------------------------------------------------------------


def test_avro_there_and_back_here_and_in_spark(
    spark: SparkSession, registry: SchemaRegistry, subject: str
) -> None:
    schema = record(
        ("at", logical("long", "timestamp-millis")),
        ("money", ["null", logical("bytes", "decimal", precision=9, scale=2)]),
        ("tags", {"type": "map", "values": {"type": "array", "items": "long"}}),
    )
    table = pa.table(
        {
            "at": pa.array([AT, AT], pa.timestamp("us", tz="UTC")),
            "money": pa.array([Decimal("-1.50"), None], pa.decimal128(9, 2)),
            "tags": pa.array([[("a", [1, 2])], []], pa.map_(pa.string(), pa.list_(pa.int64()))),
        }
    )

    def there_and_back(df: DataFrame) -> DataFrame:
        framed = registry.to_avro(F.struct("at", "money", "tags"), subject, schema=schema)
        df = df.select(framed.alias("value"))
        return df.select(registry.from_avro("value", subject).alias("row")).select("row.*")

    assert assert_same_query(spark, table, there_and_back) == table.to_pylist()


def test_json_there_and_back_here_and_in_spark(
    spark: SparkSession, registry: SchemaRegistry, subject: str
) -> None:
    schema = json.dumps(
        {"type": "object", "properties": {"id": {"type": "integer"}, "s": {"type": "string"}}}
    )
    table = pa.table({"id": [1, 2], "s": ["ß", None]})

    def there_and_back(df: DataFrame) -> DataFrame:
        framed = registry.to_json(F.struct("id", "s"), subject, schema=schema)
        df = df.select(framed.alias("value"))
        return df.select(registry.from_json("value", subject).alias("row")).select("row.*")

    assert assert_same_query(spark, table, there_and_back) == table.to_pylist()


def test_protobuf_there_and_back_here_and_in_spark(
    spark: SparkSession, server: Apicurio, registry: SchemaRegistry, subject: str
) -> None:
    raw(server).register(subject, "PROTOBUF", PROTO)
    set_of_them = descriptors()

    def there_and_back(df: DataFrame) -> DataFrame:
        framed = registry.to_protobuf("order", subject, "Order", set_of_them)
        df = df.select(framed.alias("value"))
        return df.select(registry.from_protobuf("value", "Order", set_of_them).alias("order"))

    kinds = {
        "items": pa.list_(pa.struct([("sku", pa.string()), ("count", pa.int64())])),
        "tags": pa.map_(pa.string(), pa.int64()), "at": pa.timestamp("us", tz="UTC"),
        "huge": pa.decimal128(20, 0), "id": pa.int64(), "kind": pa.string(), "note": pa.string(),
        "raw": pa.binary(),
    }  # fmt: skip
    order = pa.struct([pa.field(name, kinds[name]) for name in ORDER])
    table = pa.table({"order": pa.array([ORDER, EMPTY, None], order)})
    assert assert_same_query(spark, table, there_and_back) == table.to_pylist()


# -- schemas that change --------------------------------------------------------------------------


@pytest.mark.parametrize(("mine", "id"), [(FIRST, "int"), (SECOND, "int")])
def test_what_was_written_by_any_schema_is_read_by_the_querys(
    server: Apicurio, subject: str, mine: str, id: str
) -> None:
    old = written(server, subject, FIRST, {"id": 1, "name": "a"})
    decode = AvroDecoder(Access.of(server.url, {}), AvroSchema([mine]))
    more = {} if mine == FIRST else {"more": "-"}
    assert decode(pa.array(old)).to_pylist() == [{"id": 1, "name": "a", **more}]
    # The producers go on with a newer one, while the query runs.
    new = written(server, subject, SECOND, {"id": 2, "name": None, "more": "b"})
    found = decode(pa.array([None, *new, *old])).to_pylist()
    assert [row and row["id"] for row in found] == [None, 2, 1]
    assert [row and row.get("more") for row in found] == (
        [None, None, None] if mine == FIRST else [None, "b", "-"]
    )


def test_a_query_reads_by_the_schema_that_was_the_latest(
    server: Apicurio, registry: SchemaRegistry, subject: str, spark: SparkSession
) -> None:
    for schema in (FIRST, SECOND):
        raw(server).register(subject, "AVRO", schema)
    df = stream_of(spark, pa.schema([("value", pa.binary())]))
    names = [
        df.select(registry.from_avro("value", subject, version=version).alias("row"))
        .select("row.*")
        .columns
        for version in (1, None)
    ]
    assert names == [["id", "name"], ["id", "more", "name"]]
    own = record(("name", ["null", "string"]))
    column = registry.from_avro("value", schema=own).alias("row")
    assert df.select(column).select("row.*").columns == ["name"]


def test_a_schema_may_refer_to_another(server: Apicurio, subject: str) -> None:
    part = record(("sku", "string"), name="Part")
    whole = record(("part", "x.y.Part"), ("rest", {"type": "array", "items": "Part"}))
    here = raw(server)
    here.register(f"{subject}-part", "AVRO", part)
    id = here.register(subject, "AVRO", whole, [("x.y.Part", f"{subject}-part", 1)])
    schema = AvroSchema.of(here, here.of_subject(subject))
    assert here.of_subject(subject).id == id
    rows = [{"part": {"sku": "a"}, "rest": [{"sku": "b"}]}]
    framed = AvroEncoder(id, schema)(pa.array(rows))
    assert AvroDecoder(Access.of(server.url, {}), schema)(framed).to_pylist() == rows


# -- what is wrong --------------------------------------------------------------------------------


def test_what_is_not_there_is_told(server: Apicurio, registry: SchemaRegistry) -> None:
    with pytest.raises(ConfigError, match="there is no version latest of the subject 'nothing'"):
        registry.from_avro("value", "nothing")
    with pytest.raises(ConfigError, match="Neither a subject nor a schema is given"):
        registry.from_avro("value")
    with pytest.raises(UnknownSchemaError, match="there is no schema 4711"):
        raw(server).schema(4711)


def test_another_kind_of_schema_is_told(
    server: Apicurio, registry: SchemaRegistry, subject: str
) -> None:
    raw(server).register(subject, "JSON", '{"type": "object", "properties": {}}')
    with pytest.raises(ConfigError, match="is one of JSON, and not of AVRO"):
        registry.from_avro("value", subject)
    id = raw(server).of_subject(subject).id
    decode = AvroDecoder(Access.of(server.url, {}), AvroSchema([FIRST]))
    with pytest.raises(ValueError, match=f"Schema {id} of the registry is one of JSON"):
        decode(pa.array([id.to_bytes(5, "big")]))


def test_an_unknown_id_is_asked_for_once_in_a_while(
    server: Apicurio, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "LATE_S", ())
    here, asked = raw(server), []
    right = here._ask
    monkeypatch.setattr(here, "_ask", lambda path: asked.append(path) or right(path))
    decode = AvroDecoder(Access.of(server.url, {}), AvroSchema([FIRST]))
    for _ in range(3):
        with pytest.raises(ValueError, match="there is no schema 4712"):
            decode(pa.array([(4712).to_bytes(5, "big")]))
    assert len(asked) == 1


def test_a_schema_that_the_registry_refuses_is_told(registry: SchemaRegistry, subject: str) -> None:
    with pytest.raises(ConfigError, match=r"it answers 4\d\d"):
        registry.to_json(F.col("x"), subject, schema="{")


# -- an outage ------------------------------------------------------------------------------------


def bad_records(server: Apicurio, subject: str) -> tuple[Callable[[DataFrame], DataFrame], Any]:
    good = written(server, subject, FIRST, {"id": 1, "name": "a"}, {"id": 2, "name": None})
    unreadable = [b"", b"\0\0\0\0", (4713).to_bytes(5, "big"), good[0][:-1], good[0] + b"x"]
    values = [good[0], *unreadable, None, good[1]]
    registry = SchemaRegistry(server.url)

    def query(df: DataFrame) -> DataFrame:
        return df.select(registry.from_avro("value", subject).alias("row")).select("row.*")

    return query, pa.record_batch([pa.array(values, pa.binary())], names=["value"])


@pytest.mark.usefixtures("registry")
def test_bad_records_are_left_out_and_what_an_outage_hides_is_not(
    spark: SparkSession, server: Apicurio, subject: str
) -> None:
    query, batch = bad_records(server, subject)
    (pipeline,) = plan_query(query(stream_of(spark, batch.schema)))
    bad, counters = BadRecords("skip", lambda: ORIGIN), EpochCounters()
    bad.begin(0, counters)

    def run() -> list[Any]:
        transform = compile_steps(pipeline, bad.sift)
        return [row for found in transform.stream(iter([batch])) for row in found.to_pylist()]

    connected.cache_clear()  # as in a task that has read nothing yet
    told = r"there is no answer: .*timed out"
    with silent(server), pytest.raises(SourceUnavailableError, match=told):
        run()
    assert counters.bad_records == 0
    assert [row["id"] for row in run()] == [1, None, 2]
    assert counters.bad_records == 5


def test_a_bad_record_ends_a_query_that_wants_none(
    spark: SparkSession, server: Apicurio, subject: str, registry: SchemaRegistry
) -> None:
    query, batch = bad_records(server, subject)
    (pipeline,) = plan_query(query(stream_of(spark, batch.schema)))
    bad = BadRecords("fail", lambda: ORIGIN)
    transform = compile_steps(pipeline, bad.sift)
    with pytest.raises(TransformError, match=r"from_avro_\w+ failed: ValueError: it has no schema"):
        list(transform.stream(iter([batch])))


# -- a whole query --------------------------------------------------------------------------------


def test_a_running_query_takes_a_new_schema_and_keeps_what_it_cannot_read(
    spark: SparkSession, server: Apicurio, registry: SchemaRegistry, subject: str, tmp_path: Path
) -> None:
    def feed(name: str, values: list[bytes]) -> None:
        lines = "".join(f"{base64.b64encode(value).decode()}\n" for value in values)
        (tmp_path / f".{name}").write_text(lines)
        (tmp_path / f".{name}").rename(tmp_path / "in" / name)

    def rows(folder: str) -> list[Any]:
        files = sorted((tmp_path / folder).glob("part-*.json"))
        return [
            row for each in files if each.stat().st_size for row in pj.read_json(each).to_pylist()
        ]

    register(spark)
    (tmp_path / "in").mkdir()
    feed("first", written(server, subject, FIRST, {"id": 1, "name": "a"}))
    lines = spark.readStream.format("tail").option("fileFormat", "text").option("numPartitions", 1)
    df = lines.option("path", str(tmp_path / "in")).load()
    row = registry.from_avro(F.unbase64("value"), subject).alias("row")
    query = (
        write_stream(df.select(row).select("row.*"))
        .format("json")
        .option("path", str(tmp_path / "out"))
        .option("onBadRecord", "dead-letter")
        .option("deadLetterPath", str(tmp_path / "letters"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(continuous="100 milliseconds")
        .start()
    )
    wait_until(lambda: len(rows("out")) == 1, "the first record", 60)
    second = written(server, subject, SECOND, {"id": 2, "name": "b", "more": "!"})
    feed("second", [b"\0\0\0\x12\x69x", *second])
    wait_until(lambda: len(rows("out")) == 2, "a record of a newer schema", 60)
    query.drain(60)
    assert sorted(row["id"] for row in rows("out")) == [1, 2]
    (letter,) = rows("letters")
    assert "there is no schema 4713" in letter["error"]
