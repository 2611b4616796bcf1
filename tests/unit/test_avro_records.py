"""Records of Avro: what is passed over, and how Java takes what is malformed."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from engine.expressions.avro.decoding import Decoding
from engine.expressions.avro.schemas import parse

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
