"""Records of Avro, with Spark's package spark-avro."""

from __future__ import annotations

import io
import json
import random
from typing import Any, Final

import fastavro
import pyarrow as pa

from tests.parity.columns import draw, text, whole

# Its few classes call those of the Spark that is there.
JARS = ("org.apache.spark:spark-avro_2.13:4.1.1",)

# -- Avro -----------------------------------------------------------------------------------------

_ITEM: Final = {"type": "record", "name": "Item", "fields": [
    {"name": "sku", "type": "string"}, {"name": "n", "type": ["int", "null"]},
]}  # fmt: skip
_FIELDS: Final[dict[str, Any]] = {
    "t": "boolean",
    "i": ["null", "int"],
    "l": "long",
    "f": "float",
    "d": ["double", "null"],
    "s": ["null", "string"],
    "b": "bytes",
    "e": {"type": "enum", "name": "Kind", "symbols": ["NEW", "PAID", "SENT"]},
    "x": {"type": "fixed", "name": "Four", "size": 4},
    "dec": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
    "big": {"type": "fixed", "name": "Big", "size": 16, "logicalType": "decimal",
            "precision": 38, "scale": 10},
    "dt": {"type": "int", "logicalType": "date"},
    "at": {"type": "long", "logicalType": "timestamp-micros"},
    "ms": {"type": "long", "logicalType": "local-timestamp-millis"},
    "a": {"type": "array", "items": ["null", "int"]},
    "m": {"type": "map", "values": "long"},
    "u": ["int", "null", "string", _ITEM],
    "w": ["int", "long"],
    "items": {"type": "array", "items": "Item"},
}  # fmt: skip


def _record(name: str, fields: dict[str, Any]) -> dict[str, Any]:
    parts = []
    for field, kind in fields.items():
        default = kind.pop("default") if isinstance(kind, dict) and "default" in kind else None
        parts.append({"name": field, "type": kind, **({} if default is None else default)})
    return {"type": "record", "name": name, "fields": parts}


ORDER: Final = _record("Order", _FIELDS)
NEWER: Final = {
    "type": "record",
    "name": "Other",
    "fields": [
        {"name": "l", "type": "double"},
        {"name": "i", "type": ["null", "long"]},
        {"name": "w", "type": "long"},
        {"name": "s", "type": ["null", "bytes"]},
        {"name": "b", "type": "string"},
        {"name": "new", "type": ["null", "string"], "default": None},
        {"name": "n", "type": "int", "default": 7},
        {"name": "text", "type": "string", "default": "none"},
        {"name": "none", "type": {"type": "array", "items": "int"}, "default": []},
        {
            "name": "e",
            "type": {
                "type": "enum",
                "name": "Kind",
                "symbols": ["OTHER", "PAID"],
                "default": "OTHER",
            },
        },
        {"name": "f", "type": ["null", "float", "double"]},
    ],
}
NODE: Final = {"type": "record", "name": "Node", "fields": [
    {"name": "l", "type": "long"}, {"name": "next", "type": ["null", "Node"]},
]}  # fmt: skip


def _value(rng: random.Random) -> dict[str, Any]:
    number, small = whole(64)(rng) or 0, rng.randint(-100, 100)
    item = {"sku": text(rng), "n": rng.choice([None, small])}
    return {
        "t": rng.random() < 0.5,
        "i": rng.choice([None, small, 2**31 - 1, -(2**31)]),
        "l": number,
        "f": rng.uniform(-10, 10),
        "d": rng.choice([None, -0.0, rng.uniform(-1e9, 1e9)]),
        "s": rng.choice([None, text(rng)]),
        "b": rng.randbytes(rng.randint(0, 5)),
        "e": rng.choice(["NEW", "PAID", "SENT"]),
        "x": rng.randbytes(4),
        "dec": rng.randbytes(rng.choice([1, 2, 4, 5])),
        "big": bytes(8) + rng.randbytes(8),
        "dt": rng.randint(-150_000, 50_000),
        "at": rng.randint(-(10**17), 10**16),
        "ms": rng.randint(-(10**13), 10**13),
        "a": [rng.choice([None, small]) for _ in range(rng.randint(0, 3))],
        "m": {text(rng): number for _ in range(rng.randint(0, 3))},
        "u": rng.choice([None, small, text(rng), item]),
        "w": rng.choice([small, number]),
        "items": [item] * rng.randint(0, 2),
    }


_PLAIN: Final = json.loads(
    json.dumps(ORDER).replace('"logicalType"', '"logical"')  # numbers and bytes as they are
)


def _written(rng: random.Random) -> bytes:
    octets = io.BytesIO()
    fastavro.schemaless_writer(octets, fastavro.parse_schema(_PLAIN, {}, _force=True), _value(rng))
    found = octets.getvalue()
    if (dice := rng.random()) < 0.1:
        return found[: rng.randint(0, len(found))]
    if dice < 0.3:
        at = rng.randrange(len(found))
        return found[:at] + rng.randbytes(1) + found[at + 1 :]
    return found + bytes(dice < 0.35)


def _map(rng: random.Random) -> bytes:
    pairs = {text(rng): rng.randint(-9, 9) for _ in range(rng.randint(0, 30))}
    octets = io.BytesIO()
    fastavro.schemaless_writer(octets, {"type": "map", "values": "int"}, pairs)
    return octets.getvalue()


def _bits(rng: random.Random) -> bytes:
    """Without numbers so large that Spark makes room for so many items, and its process ends."""
    octets = bytearray(rng.randbytes(rng.randint(0, 6)))
    for at in range(2, len(octets), 3):
        octets[at] &= 0x7F
    return bytes(octets)


_SHORT: Final = [
    *(b"", b"\x00", b"\x01", b"\x02", b"\x02\x02", b"\x80\x01", b"\xff\xff\xff\xff\x0f", b"\x04ab"),
    *(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\xff" * 12, b"\x06\xff\x80a", b"\x00\x04abc"),
    *(b"\x02\x04\x00", b"\x03\x02\x0a\x00", b"\x01\xff\xff", b"\x00\x00\x80\x3f" * 2),
    *(b"\x02\x02a\x06\x00", b"\x80\x80\x80\x80\x10", b"\x80\x80\x80\x80\x80\x01"),
]

COLUMNS = {
    "avro": (pa.binary(), draw([b""], _written)),
    "avro_map": (pa.binary(), draw([b"\x00", b"\x06\x02a\x02\x04Aa\x04\x04BB\x06\x00"], _map)),
    "avro_bits": (pa.binary(), draw(_SHORT, _bits)),
}


def _sql(schema: Any) -> str:
    return "'" + json.dumps(schema).replace("\\", "\\\\").replace("'", "\\'") + "'"


_KINDS_OF_BITS: Final = [
    *("null", "boolean", "int", "long", "float", "double", "bytes", "string", ["int", "null"]),
    *(["null", "long"], ["string", "null"], {"type": "array", "items": "int"}, ["int", "long"]),
    *({"type": "array", "items": ["null", "string"]}, {"type": "fixed", "name": "F", "size": 2}),
    {"type": "enum", "name": "E", "symbols": ["A", "B"]},
    {"type": "int", "logicalType": "date"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "local-timestamp-micros"},
    {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1},
]
_LOOSE: Final = "map('mode', 'PERMISSIVE')"


def _passed_over(kind: Any) -> str:
    """The field behind one that is not read."""
    writer, reader = _record("R", {"x": kind, "i": "int"}), _record("R", {"i": "int"})
    options = f"map('avroSchema', {_sql(reader)}, 'mode', 'PERMISSIVE')"
    return f"from_avro(avro_bits, {_sql(writer)}, {options})"


_WRITTEN: Final = _record("Out", {
    "T": ["null", "boolean"], "b": ["null", "int"], "h": ["int", "null"], "i": ["null", "int"],
    "l": ["null", "int", "long"], "f": ["null", "float"], "d": ["float", "double", "null"],
    "s": ["null", "string"], "bin": ["bytes", "null"], "dt": ["null", _FIELDS["dt"]],
    "ts": ["null", _FIELDS["at"]], "ntz": ["null", _FIELDS["ms"]],
    "dec": ["null", _FIELDS["dec"]], "big": ["null", _FIELDS["big"]], "extra": ["int", "null"],
})  # fmt: skip
_STRUCT: Final = "struct(t, b, h, i, l, f, d, s, bin, dt, ts, ntz, dec, big)"
_NEVER_NULL: Final = (
    "named_struct('i', coalesce(i, 0), 's', coalesce(s, ''), 'dec', coalesce(dec, 1.5),"
    " 'ts', coalesce(ts, TIMESTAMP '2024-01-01'))"
)
TEMPLATES = {
    "from_avro": [
        f"from_avro(avro, {_sql(ORDER)})",
        f"from_avro(avro, {_sql(ORDER)}, {_LOOSE})",
        f"from_avro(avro, {_sql(ORDER)}, map('datetimeRebaseMode', 'EXCEPTION'))",
        f"from_avro(avro, {_sql(ORDER)}, map('enableStableIdentifiersForUnionType', 'true'))",
        f"from_avro(avro, {_sql(ORDER)}, map('avroSchema', {_sql(NEWER)}, 'mode', 'PERMISSIVE'))",
        f"from_avro(avro_map, {_sql({'type': 'map', 'values': 'int'})})",
        *(f"from_avro(avro_bits, {_sql(kind)}, {_LOOSE})" for kind in _KINDS_OF_BITS),
        *(f"from_avro(avro_bits, {_sql(kind)})" for kind in _KINDS_OF_BITS),
        *map(_passed_over, [*_KINDS_OF_BITS, {"type": "map", "values": "int"}]),
    ],
    "to_avro": [
        f"to_avro({_STRUCT}, {_sql(_WRITTEN)})",
        f"to_avro({_NEVER_NULL})",
        "to_avro(coalesce(l, 0))",
        'to_avro(i, \'["null", "int"]\')',
        "to_avro(s, '\"string\"')",
        f"to_avro(if(n > 3, 'NEW', c), {_sql(['null', _FIELDS['e']])})",
        f"to_avro(bin, {_sql(_FIELDS['x'])})",
        'to_avro(array(i, i2), \'{"type": "array", "items": ["null", "int"]}\')',
        'to_avro(array(coalesce(s, c, \'\')), \'{"type": "array", "items": "string"}\')',
        "to_avro(map('a', i, 'b', i2, 'Aa', i, 'BB', i2, coalesce(s, ''), 7),"
        ' \'{"type": "map", "values": ["null", "int"]}\')',
        'to_avro(named_struct(\'i\', i), \'{"type": "record", "name": "R", "fields":'
        ' [{"name": "I", "type": "int"}]}\')',
        f"from_avro(to_avro({_STRUCT}, {_sql(_WRITTEN)}), {_sql(_WRITTEN)})",
    ],
    "schema_of_avro": [
        f"concat(schema_of_avro({_sql(ORDER)}), s)",
        f"concat(schema_of_avro({_sql(NODE)}, map('recursiveFieldMaxDepth', '3')), s)",
    ],
}
