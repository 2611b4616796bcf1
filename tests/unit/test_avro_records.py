"""Records of Avro: what is passed over, and how Java takes what is malformed."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from engine.expressions.avro.decoding import Decoding
from engine.expressions.avro.java_maps import BUCKETS, buckets_for, in_java_order, of_bytes, of_text
from engine.expressions.avro.schemas import AvroSchemaError, parse

_PASSED_OVER: dict[str, tuple[Any, bytes]] = {
    "bytes of a negative length": ("bytes", b"\x01"),
    "a text of a negative length": ("string", b"\x0d"),
    "a key of a negative length": ({"type": "map", "values": "int"}, b"\x02\x01\x02\x00"),
    "a block of a negative size": ({"type": "array", "items": "int"}, b"\x01\x05\x00"),
    "a block by its size": ({"type": "array", "items": "int"}, b"\x01\x04\xff\xff\x00"),
}


def _record(**fields: Any) -> dict[str, Any]:
    parts = [{"name": name, "type": kind} for name, kind in fields.items()]
    return {"type": "record", "name": "R", "fields": parts}


@pytest.mark.parametrize(("kind", "octets"), _PASSED_OVER.values(), ids=_PASSED_OVER)
def test_what_java_passes_over(kind: Any, octets: bytes) -> None:
    writer = parse(json.dumps(_record(x=kind, i="int")))
    reader = parse(json.dumps(_record(i="int")))
    read = Decoding(ancient_fails=False).of(writer, reader, pa.struct({"i": pa.int32()}))
    assert read(octets + b"\x54", 0) == ({"i": 42}, len(octets) + 1)


def test_records_that_contain_themselves_are_refused() -> None:
    with pytest.raises(AvroSchemaError, match="the record R, which contains itself"):
        parse(json.dumps(_record(next=["null", "R"])))
    parse(json.dumps(_record(a=_record() | {"name": "B"}, b="B")))  # twice is not within


def test_the_order_of_javas_tables() -> None:
    assert of_text("Aa") == of_text("BB") == 2112  # as the documentation of String says
    assert of_bytes(b"a") == 31 + 97
    assert [buckets_for(entries) for entries in (0, 1, 2, 3, 4, 5)] == [1, 1, 2, 4, 4, 8]
    pairs = [("b", 1), ("a", 2), ("BB", 3), ("Aa", 4)]
    assert in_java_order(pairs, of_text, BUCKETS) == [pairs[2], pairs[3], pairs[1], pairs[0]]
