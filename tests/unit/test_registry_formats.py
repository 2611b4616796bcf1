"""Records whose schemas are in a registry, without one: frames, types, and what does not fit."""

from __future__ import annotations

import json
import pickle
import re
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import ConfigError
from engine.expressions.types import sql_name
from engine.registry import wire_format
from engine.registry.avro import AvroDecoder, AvroEncoder, AvroSchema
from engine.registry.avro_values import other_unit
from engine.registry.client import Access, Schema
from engine.registry.functions import SchemaRegistry
from engine.registry.json_schema import column_type
from engine.registry.protobuf import MessageType, ProtobufDecoder, ProtobufEncoder

AT = datetime(2024, 5, 6, 7, 8, 9, 123_000, tzinfo=timezone.utc)


# -- frames ---------------------------------------------------------------------------------------


@given(st.integers(0, 2**31 - 1), st.binary())
def test_an_id_stands_before_a_record(id: int, record: bytes) -> None:
    framed = wire_format.header(id) + record
    assert framed[0] == 0
    assert wire_format.schema_id(framed) == id
    assert framed[wire_format.HEADER :] == record


@pytest.mark.parametrize("framed", [b"", b"\0\0\0\0", b"\1\0\0\0\1x", b'{"a": 1}'])
def test_what_has_no_id_is_told(framed: bytes) -> None:
    with pytest.raises(ValueError, match="it has no schema id: it begins with"):
        wire_format.schema_id(framed)


@given(st.lists(st.integers(0, 2**20), min_size=1, max_size=8), st.binary())
def test_indexes_of_messages(way: list[int], record: bytes) -> None:
    framed = wire_format.header(1) + wire_format.indexes_header(way) + record
    found, at = wire_format.indexes(framed)
    assert found == tuple(way)
    assert framed[at:] == record


def test_the_first_message_is_one_byte() -> None:
    assert wire_format.indexes_header((0,)) == b"\0"
    assert wire_format.indexes_header((1, 0)) == b"\4\2\0"


@pytest.mark.parametrize("rest", [b"", b"\x80", b"\2", b"\x01", b"\xff" * 9, b"\xd0\x0f"])
def test_indexes_that_are_none_are_told(rest: bytes) -> None:
    with pytest.raises(ValueError, match="message indexes"):
        wire_format.indexes(wire_format.header(1) + rest)


# -- Avro -----------------------------------------------------------------------------------------


def record(*fields: Any, name: str = "Row") -> str:
    pairs = [{"name": field, "type": kind} for field, kind in fields]
    return json.dumps({"type": "record", "name": name, "namespace": "x.y", "fields": pairs})


def logical(kind: str, name: str, **more: int) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def test_types_of_avro_are_those_of_spark() -> None:
    kind = {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}
    text = record(
        ("kind", kind),
        ("again", "Kind"),
        ("full", "x.y.Kind"),
        ("digest", {"type": "fixed", "name": "Digest", "size": 4}),
        ("maybe", ["null", "int"]),
        ("number", ["int", "null", "long"]),
        ("real", ["float", "double"]),
        ("day", logical("int", "date")),
        ("ms", logical("long", "timestamp-millis")),
        ("us", logical("long", "timestamp-micros")),
        ("here", logical("long", "local-timestamp-millis")),
        ("money", logical("bytes", "decimal", precision=9, scale=2)),
        ("id", logical("string", "uuid")),
        ("time", logical("int", "time-millis")),
        ("ns", logical("long", "timestamp-nanos")),
        (
            "list",
            {
                "type": "array",
                "items": {"type": "map", "values": logical("long", "timestamp-millis")},
            },
        ),
        ("part", json.loads(record(("b", "bytes"), name="Part"))),
    )
    assert {field.name: sql_name(field.type) for field in AvroSchema([text]).dtype} == {
        "kind": "STRING", "again": "STRING", "full": "STRING", "digest": "BINARY", "maybe": "INT",
        "number": "BIGINT", "real": "DOUBLE", "day": "DATE", "ms": "TIMESTAMP", "us": "TIMESTAMP",
        "here": "TIMESTAMP_NTZ", "money": "DECIMAL(9,2)", "id": "STRING", "time": "INT",
        "ns": "BIGINT", "list": "ARRAY<MAP<STRING, TIMESTAMP>>", "part": "STRUCT<b: BINARY>",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (record(("a", ["int", "string"])), "the union of"),
        (record(("a", ["null", "Row"])), "the record x.y.Row, which contains itself"),
        (record(("a", logical("bytes", "decimal", precision=39))), "a decimal of 39 digits"),
    ],
)
def test_what_no_column_can_have_is_refused(text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        _ = AvroSchema([text]).dtype


@pytest.mark.parametrize("text", ["", "{", '{"type": "record"}', '"nothing"'])
def test_what_is_no_schema_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="This is no schema of Avro"):
        AvroSchema([text])


def test_a_field_that_the_schema_does_not_have_is_refused() -> None:
    encode = AvroEncoder(7, AvroSchema([record(("a", "int"))]))
    assert encode(pa.array([{"a": 1}, None])).to_pylist() == [b"\0\0\0\0\7\2", None]
    for row in ({"a": 1, "b": 2}, {"b": 2}, {"a": None}, {"a": "one"}):
        with pytest.raises(ValueError, match="it cannot be written by schema 7"):
            encode(pa.array([row]))


def test_times_are_numbers_since_1970() -> None:
    kinds = ("d", logical("int", "date")), ("t", logical("long", "timestamp-millis"))
    schema = AvroSchema([record(*kinds)])
    framed = AvroEncoder(1, schema)(pa.array([{"d": date(2024, 1, 2), "t": AT}], schema.dtype))
    milliseconds = round(AT.timestamp() * 1000)
    written = framed[0].as_py()[wire_format.HEADER :]
    assert written == varint(19_724) + varint(milliseconds)


def varint(number: int) -> bytes:
    """As Avro writes one that is not negative."""
    octets, rest = [], number * 2
    while rest:
        octets.append(rest % 128 + 128)
        rest //= 128
    return bytes([*octets[:-1], octets[-1] - 128])


# -- Protobuf -------------------------------------------------------------------------------------


def field(name: str, number: int, kind: str, label: str = "OPTIONAL", **more: Any) -> Any:
    made = descriptor_pb2.FieldDescriptorProto(name=name, number=number, **more)
    made.type = getattr(made, f"TYPE_{kind}")
    made.label = getattr(made, f"LABEL_{label}")
    return made


def descriptors(*more: Any) -> bytes:
    """Of ``shop.Nothing``, ``shop.Order`` and ``shop.Order.Item``."""
    file = descriptor_pb2.FileDescriptorProto(
        name="shop.proto", package="shop", syntax="proto3",
        dependency=["google/protobuf/timestamp.proto"],
    )  # fmt: skip
    file.message_type.add(name="Nothing")
    order = file.message_type.add(name="Order")
    order.oneof_decl.add(name="_note")
    kind = order.enum_type.add(name="Kind")
    kind.value.add(name="NEW", number=0)
    kind.value.add(name="PAID", number=1)
    item = order.nested_type.add(name="Item")
    item.field.extend([field("sku", 1, "STRING"), field("count", 2, "UINT32")])
    entry = order.nested_type.add(name="TagsEntry")
    entry.options.map_entry = True
    entry.field.extend([field("key", 1, "STRING"), field("value", 2, "SINT64")])
    order.field.extend(
        [
            field("id", 1, "INT64"), field("kind", 2, "ENUM", type_name=".shop.Order.Kind"),
            field("items", 3, "MESSAGE", "REPEATED", type_name=".shop.Order.Item"),
            field("tags", 4, "MESSAGE", "REPEATED", type_name=".shop.Order.TagsEntry"),
            field("at", 5, "MESSAGE", type_name=".google.protobuf.Timestamp"),
            field("note", 6, "STRING", proto3_optional=True, oneof_index=0),
            field("huge", 7, "UINT64"), field("raw", 8, "BYTES"), *more,
        ]
    )  # fmt: skip
    times = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(times)
    return descriptor_pb2.FileDescriptorSet(file=[times, file]).SerializeToString()


ORDER = {
    "id": 5, "kind": "PAID", "items": [{"sku": "a", "count": 2**32 - 1}], "tags": [("t", -3)],
    "at": AT, "note": "", "huge": Decimal(2**64 - 1), "raw": b"\0\xff",
}  # fmt: skip
EMPTY = {
    "id": 0, "kind": "NEW", "items": [], "tags": [], "at": None, "note": None,
    "huge": Decimal(0), "raw": b"",
}  # fmt: skip


def test_messages_are_rows() -> None:
    order = MessageType(descriptors(), "Order")
    assert sql_name(order.dtype) == (
        "STRUCT<id: BIGINT, kind: STRING, items: ARRAY<STRUCT<sku: STRING, count: BIGINT>>, "
        "tags: MAP<STRING, BIGINT>, at: TIMESTAMP, note: STRING, huge: DECIMAL(20,0), raw: BINARY>"
    )
    rows = pa.array([ORDER, None, EMPTY], order.dtype)
    framed = pickle.loads(pickle.dumps(ProtobufEncoder(258, order)))(rows)
    assert framed[2].as_py() == b"\0\0\0\1\2" + b"\2\2"  # the message at [1], and nothing in it
    assert pickle.loads(pickle.dumps(ProtobufDecoder(order)))(framed).equals(rows)


def test_what_a_newer_schema_has_is_passed_over() -> None:
    newer = MessageType(descriptors(field("more", 9, "DOUBLE")), "shop.Order")
    rows = pa.array([{**ORDER, "more": 1.5}], newer.dtype)
    found = ProtobufDecoder(MessageType(descriptors(), "Order"))(ProtobufEncoder(1, newer)(rows))
    assert found.to_pylist() == [ORDER]


def test_another_message_is_refused() -> None:
    item = MessageType(descriptors(), "Item")
    framed = ProtobufEncoder(3, item)(pa.array([{"sku": "a", "count": 1}], item.dtype))
    says = r"it is the message at \[1, 0\] of schema 3, and shop.Order is at \[1\]"
    with pytest.raises(ValueError, match=says):
        ProtobufDecoder(MessageType(descriptors(), "Order"))(framed)


def test_what_is_no_message_is_refused() -> None:
    decode = ProtobufDecoder(MessageType(descriptors(), "Order"))
    with pytest.raises(ValueError, match=r"it is no shop\.Order"):
        decode(pa.array([b"\0\0\0\0\1\2\2\xff"]))


@pytest.mark.parametrize("row", [{"other": 1}, {"id": "one"}, {"kind": "LOST"}, {"id": 2**63}])
def test_what_no_message_can_hold_is_refused(row: dict[str, Any]) -> None:
    encode = ProtobufEncoder(1, MessageType(descriptors(), "Order"))
    with pytest.raises(ValueError, match=r"it cannot be a shop\.Order"):
        encode(pa.array([{key: str(v) if v == 2**63 else v for key, v in row.items()}]))


def test_messages_that_are_not_there_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"no messages of the name 'Orders'.*shop\.Order\.Item"):
        MessageType(descriptors(), "Orders")
    with pytest.raises(ConfigError, match="This is no descriptor set"):
        MessageType(b"nothing", "Order")
    itself = field("next", 9, "MESSAGE", type_name=".shop.Order")
    with pytest.raises(ConfigError, match=r"shop\.Order, which contains itself"):
        _ = MessageType(descriptors(itself), "Order").dtype


# -- JSON Schema ----------------------------------------------------------------------------------


def test_types_of_json_schema() -> None:
    schema = {
        "$defs": {"name": {"type": ["string", "null"]}},
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "name": {"$ref": "#/$defs/name"},
            "price": {"oneOf": [{"type": "null"}, {"type": "number"}]},
            "tags": {"type": "array", "items": {"type": "boolean"}},
            "more": {
                "type": "object",
                "additionalProperties": {"properties": {"x": {"type": "integer"}}},
            },
        },
    }
    assert sql_name(column_type(json.dumps(schema))) == (
        "STRUCT<id: BIGINT, name: STRING, price: DOUBLE, tags: ARRAY<BOOLEAN>, "
        "more: MAP<STRING, STRUCT<x: BIGINT>>>"
    )


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({}, r"at \$ its type is None"),
        ({"properties": {"a": {"type": ["string", "integer"]}}}, r"at \$\.a its type is \["),
        (
            {"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}},
            "one of several",
        ),
        ({"type": "object"}, r"at \$\.\* it may be anything"),
        ({"properties": {"a": {"$ref": "#"}}}, r"at \$\.a\.a # contains itself"),
        ({"properties": {"a": {"$ref": "other.json"}}}, r"there is no other\.json in the schema"),
    ],
)
def test_documents_of_no_one_type_are_refused(schema: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        column_type(json.dumps(schema))


# -- where the registry is ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "options", "says"),
    [
        ("registry:8081", {}, "is at no URL"),
        ("", {}, "is at no URL"),
        ("http://me:hunter2@registry", {}, "has a user in it"),
        ("http://registry", {"basic.auth.user.info": "hunter2"}, "must be like user:password"),
        ("http://registry", {"basic.auth.user": "me"}, "no option 'basic.auth.user'"),
        ("http://registry", {"basic.auth.credentials.source": "URL"}, "one of user_info"),
        ("http://registry", {"ssl.ca.location": "/nowhere.pem"}, "a certificate cannot be read"),
    ],
)
def test_wrong_options_of_a_registry_are_refused(
    url: str, options: dict[str, str], says: str
) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        SchemaRegistry(url, options)
    assert "hunter2" not in str(caught.value)


def test_a_registry_shows_no_secret() -> None:
    options = {"schema.registry.basic.auth.user.info": "me:hunter2"}
    registry = SchemaRegistry("http://a/, http://b", options)
    assert repr(registry) == "SchemaRegistry(http://a, http://b)"
    assert "hunter2" not in repr(Access.of("http://a", options))
    assert Access.of("http://a", options).headers() == {"Authorization": "Basic bWU6aHVudGVyMg=="}
    token = {"confluent.schema.registry.bearer.auth.token": "t"}
    assert Access.of("http://a", token).headers() == {"Authorization": "Bearer t"}


# -- what Avro's own rules let pass ---------------------------------------------------------------


def _of(**fields: Any) -> dict[str, Any]:
    made = [{"name": name, "type": dtype} for name, dtype in fields.items()]
    return {"type": "record", "name": "R", "fields": made}


MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}


def _inside(unit: Any) -> dict[str, Any]:
    nested = {"type": "record", "name": "Inner", "fields": [{"name": "at", "type": ["null", unit]}]}
    again = {"type": "array", "items": "Inner"}
    return _of(one=nested, more=again, me=["null", "R"], map={"type": "map", "values": unit})


@pytest.mark.parametrize(
    ("written", "read", "said"),
    [
        (_of(at=MILLIS), _of(at=MICROS), r"the time at \$.at is in millis, and is read as micros"),
        (_of(at=["null", MICROS]), _of(at=MILLIS), "is in micros"),
        (_inside(MICROS), _inside(MILLIS), r"at \$.one.at is"),
        (_inside(MICROS), _inside(MICROS), None),
        (_of(at="long"), _of(at=MICROS), None),
        (_of(at=MILLIS, b="int"), _of(at=MILLIS), None),
        (_of(at={"type": "long", "logicalType": "local-timestamp-micros"}), _of(at=MICROS), None),
        (MILLIS, MICROS, r"at \$ is"),
    ],
)
def test_times_in_another_unit_are_never_read(written: Any, read: Any, said: str | None) -> None:
    def units(schema: Any) -> dict[str, str]:
        return AvroSchema([json.dumps(schema)]).units

    other = other_unit(units(written), units(read))
    assert (other is None) == (said is None)
    assert said is None or re.search(said, str(other))


def test_a_record_with_times_in_another_unit_is_a_bad_one(monkeypatch: pytest.MonkeyPatch) -> None:
    class Knows:
        def schema(self, id: int) -> Schema:
            return Schema(id, "AVRO", json.dumps(_of(at=MILLIS)))

    monkeypatch.setattr("engine.registry.avro.connected", lambda access: Knows())
    decode = AvroDecoder(Access.of("http://x:1", {}), AvroSchema([json.dumps(_of(at=MICROS))]))
    with pytest.raises(ValueError, match=r"by schema 7 the time at \$.at is in millis"):
        decode(pa.array([wire_format.header(7) + b"\2"]))


@pytest.mark.parametrize("whole", ["long", "int", {"type": "int", "logicalType": "date"}])
@pytest.mark.parametrize("dtype", [pa.float32(), pa.float64(), pa.decimal128(10, 2)])
def test_no_fraction_is_cut_off(whole: Any, dtype: pa.DataType) -> None:
    for schema, rows in (
        (_of(v=whole), pa.struct([("v", dtype)])),
        (_of(v={"type": "array", "items": whole}), pa.struct([("v", pa.list_(dtype))])),
        (_of(v={"type": "map", "values": whole}), pa.struct([("v", pa.map_(pa.string(), dtype))])),
    ):
        encode = AvroEncoder(1, AvroSchema([json.dumps(schema)]))
        with pytest.raises(ConfigError, match=r"a whole number at \$.v"):
            encode(pa.array([None], rows))


def test_whole_numbers_are_written_whatever_their_type() -> None:
    encode = AvroEncoder(1, AvroSchema([json.dumps(_of(v="long"))]))
    for value in (pa.array([3], pa.int32()), pa.array([3], pa.decimal128(10, 0))):
        assert encode(pa.StructArray.from_arrays([value], ["v"])).to_pylist() == [
            wire_format.header(1) + b"\6"
        ]
