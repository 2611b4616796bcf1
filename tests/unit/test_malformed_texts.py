"""Texts that are no UTF-8: how functions see them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from engine.expressions.malformed import (
    CHARACTERS,
    JAVA,
    KEPT,
    OCTETS,
    VALID,
    Characters,
    View,
    is_utf8,
    value_of,
)


def _texts(*values: bytes | None) -> pa.Array:
    return pa.array(values, pa.binary()).cast(pa.string(), safe=False)


def _octets(array: pa.Array) -> list[bytes | None]:
    return list(array.cast(pa.binary()).to_pylist())


@pytest.mark.parametrize(
    ("octets", "java", "valid"),
    [
        (b"a\xffb", "a\ufffdb", "a\ufffdb"),
        (b"\xed\xa0\x80", "\ufffd", "\ufffd\ufffd\ufffd"),
        (b"\xe2\x82", "\ufffd", "\ufffd"),
        (b"\xc0\x80", "\ufffd\ufffd", "\ufffd\ufffd"),
    ],
)
def test_what_java_and_unicode_put_for_it(octets: bytes, java: str, valid: str) -> None:
    assert JAVA.of(_texts(octets, None)).to_pylist() == [java, None]
    assert VALID.of(_texts(octets, None)).to_pylist() == [valid, None]


@pytest.mark.parametrize("view", [OCTETS, CHARACTERS, KEPT])
def test_bytes_come_back(view: View) -> None:
    octets = [b"a\xff", b"\xe2\x82", "é😀".encode(), b"", None]
    assert _octets(view.array(view.values(_texts(*octets)), pa.string())) == octets


def test_the_first_byte_tells_how_many_a_character_has() -> None:
    assert Characters.of(b"a\x80\xc1\xf5\xc3b\xf0abc\xe2") == (
        *(b"a", b"\x80", b"\xc1", b"\xf5", b"\xc3b", b"\xf0abc", b"\xe2"),
    )


def test_a_part_is_found_only_where_a_character_begins() -> None:
    text = Characters.of(b"a\xc3bbc")
    assert text.find(Characters.of(b"b")) == 2
    assert text.find(Characters.of(b"\xc3")) == 1
    assert text.find(Characters.of(b"b"), 3) == -1


def test_nested_texts() -> None:
    dtype = pa.struct([("a", pa.list_(pa.string())), ("m", pa.map_(pa.string(), pa.int32()))])
    inner = pa.struct([("a", pa.list_(pa.binary())), ("m", pa.map_(pa.binary(), pa.int32()))])
    column = pa.array([{"a": [b"\xff", None], "m": [(b"\xfe", 1)]}, None], inner)
    lists = pa.ListArray.from_arrays(column.field(0).offsets, _texts(b"\xff", None))
    maps = pa.MapArray.from_arrays(
        column.field(1).offsets, _texts(b"\xfe"), pa.array([1], pa.int32())
    )
    texts = pa.StructArray.from_arrays([lists, maps], fields=list(dtype), mask=column.is_null())
    assert JAVA.values(texts) == [{"a": ["\ufffd", None], "m": [("\ufffd", 1)]}, None]
    assert value_of(texts[0]) == {"a": ["\ufffd", None], "m": [("\ufffd", 1)]}


def test_validity_is_that_of_the_slice() -> None:
    texts = _texts(b"\xff", b"abc", "é".encode(), None)
    assert not is_utf8(texts)
    assert is_utf8(texts.slice(1, 1))
    assert is_utf8(texts.slice(1))
    assert not is_utf8(texts[0])
    assert is_utf8(_texts())
