"""Texts that are no UTF-8: ``CAST(binary AS STRING)`` makes them, of Kafka's values for example.

Spark carries their bytes along, and each of its functions has a view of its own of them:

============== ======================================================= ==========================
view           what a function sees                                    in Spark
============== ======================================================= ==========================
``JAVA``       U+FFFD for what is malformed, as Java reads it          ``UTF8String.toString``
``KEPT``       the same; a text that it returns as it is stays so
``VALID``      U+FFFD for what is malformed, as Unicode recommends     ``UTF8String.makeValid``
``OCTETS``     each byte as a character of its own, U+0000 to U+00FF   functions of bytes
``CHARACTERS`` as many bytes to a character as its first byte tells    functions of positions
``BYTES``      the bytes; it returns ``str``                            ``UTF8String.getBytes``
============== ======================================================= ==========================

A function whose batch has no such text never meets a view: it gets ``str``. With one, it gets all
texts of the batch in its view, and the texts that it returns are read back from there.

The last character of a text may lack some of its bytes. Where Spark 4.2 cuts or compares texts, it
then reads the memory behind the text; here the character ends with the text.

Source: ``UTF8String.java``, ``CollationAwareUTF8String.java`` of Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from engine.expressions.buffers import is_ascii
from engine.expressions.java_utf8 import decoded
from engine.expressions.registry import Datum
from engine.expressions.types import nullable_inside

_WIDTHS: Final = bytes([1] * 0xC2 + [2] * 30 + [3] * 16 + [4] * 5 + [1] * 11)
"""How many bytes a character has, by its first one: ``UTF8String.numBytesForFirstByte``."""


class Characters(tuple[bytes, ...]):
    """A text as a sequence of characters; slices and sums are plain tuples of such."""

    __slots__ = ()

    @staticmethod
    def of(octets: bytes) -> Characters:
        """Take a text apart."""
        return Characters(_characters(octets))

    def find(self, part: Characters, start: int = 0) -> int:
        """As :meth:`str.find`. The part may end within a character, but not begin there."""
        octets, wanted = b"".join(self), b"".join(part)
        if not wanted:
            return 0
        position = sum(map(len, self[:start]))
        for index in range(start, len(self)):
            if octets.startswith(wanted, position):
                return index
            position += len(self[index])
        return -1

    def lstrip(self, characters: Characters) -> Sequence[bytes]:
        """As :meth:`str.lstrip`, of all characters whose bytes are found in ``characters``."""
        known = b"".join(characters)
        kept = next((i for i, each in enumerate(self) if each not in known), len(self))
        return self[kept:]

    def rstrip(self, characters: Characters) -> Sequence[bytes]:
        """As :meth:`str.rstrip`, likewise."""
        known = b"".join(characters)
        end = next((i for i in range(len(self), 0, -1) if self[i - 1] not in known), 0)
        return self[:end]

    def strip(self, characters: Characters) -> Sequence[bytes]:
        """As :meth:`str.strip`, likewise."""
        return Characters(self.lstrip(characters)).rstrip(characters)


def _characters(octets: bytes) -> Iterator[bytes]:
    position = 0
    while position < len(octets):
        end = position + _WIDTHS[octets[position]]
        yield octets[position:end]
        position = end


@dataclass(frozen=True)
class View:
    """How functions see texts.

    :param read: what they get for a text of these bytes.
    :param write: the bytes of a text that they return.
    """

    read: Callable[[bytes], Any]
    write: Callable[[Any], bytes]

    def values(self, array: pa.Array) -> list[Any]:
        """The Python values of a column whose texts, in any depth, are seen so."""
        dtype = array.type
        as_bytes = with_bytes(dtype)
        if as_bytes == dtype:
            return list(array.to_pylist())
        # Arrow casts nothing to NOT NULL that has NULLs, not even below a NULL struct.
        octets = array.cast(nullable_inside(as_bytes))
        return [self._seen(value, dtype) for value in octets.to_pylist()]

    def _seen(self, value: Any, dtype: pa.DataType) -> Any:
        if value is None:
            return None
        if pa.types.is_string(dtype):
            return self.read(value)
        if pa.types.is_map(dtype):
            return [
                (self._seen(k, dtype.key_type), self._seen(v, dtype.item_type)) for k, v in value
            ]
        if pa.types.is_list(dtype):
            return [self._seen(item, dtype.value_type) for item in value]
        if pa.types.is_struct(dtype):
            return {field.name: self._seen(value[field.name], field.type) for field in dtype}
        return value

    def array(self, values: Sequence[Any], dtype: pa.DataType) -> pa.Array:
        """The column of what a function has returned."""
        if pa.types.is_string(dtype):
            octets = [None if value is None else self.write(value) for value in values]
            return as_texts(pa.array(octets, pa.binary()))
        if pa.types.is_list(dtype) and pa.types.is_string(dtype.value_type):
            lists = [None if v is None else [self.write(item) for item in v] for v in values]
            column = pa.array(lists, pa.list_(pa.binary()))
            return pa.ListArray.from_arrays(
                column.offsets, as_texts(column.values), dtype, mask=column.is_null()
            )
        return pa.array(values, dtype)

    def of(self, texts: Datum) -> Datum:
        """The same texts as UTF-8, if their view is one of valid texts; valid ones as they are."""
        if is_utf8(texts):
            return texts
        if isinstance(texts, pa.Scalar):
            return self.of(pa.repeat(texts, 1))[0]
        return self.array(self.values(texts), texts.type)


class _Kept(str):
    """A text as Java reads it, and its bytes."""

    octets: bytes

    @staticmethod
    def of(octets: bytes) -> _Kept:
        text = _Kept(decoded(octets))
        text.octets = octets
        return text


def _utf8(text: str) -> bytes:
    return text.encode()


def _kept(text: str) -> bytes:
    return text.octets if isinstance(text, _Kept) else text.encode()


def _unicode(octets: bytes) -> str:
    return octets.decode(errors="replace")


def _latin1(octets: bytes) -> str:
    return octets.decode("latin-1")


def _octets(text: str) -> bytes:
    return text.encode("latin-1")


def _joined(characters: bytes | Sequence[bytes]) -> bytes:
    return characters if isinstance(characters, bytes) else b"".join(characters)


JAVA: Final = View(decoded, _utf8)
KEPT: Final = View(_Kept.of, _kept)
VALID: Final = View(_unicode, _utf8)
OCTETS: Final = View(_latin1, _octets)
CHARACTERS: Final = View(Characters.of, _joined)
BYTES: Final = View(bytes, _utf8)


def is_utf8(texts: Datum) -> bool:
    """Whether all of them are valid."""
    if isinstance(texts, pa.Scalar):
        texts = pa.repeat(texts, 1)
    if is_ascii(texts):
        return True
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def as_texts(binaries: pa.Array) -> pa.Array:
    """The same bytes, of the type STRING."""
    return binaries.cast(pa.string(), safe=False)


def octets_of(text: pa.Scalar) -> bytes:
    """The bytes of a text that is not NULL."""
    return bytes(text.cast(pa.binary()).as_py())


def value_of(scalar: pa.Scalar) -> Any:
    """The Python value; texts as Java reads them."""
    try:
        return scalar.as_py()
    except UnicodeDecodeError:
        return JAVA.values(pa.repeat(scalar, 1))[0]


def values_of(array: pa.Array) -> list[Any]:
    """As :func:`value_of`, of a column."""
    try:
        return list(array.to_pylist())
    except UnicodeDecodeError:
        return JAVA.values(array)


def with_bytes(dtype: pa.DataType) -> pa.DataType:
    """The type with BINARY for STRING in all depths."""
    if pa.types.is_string(dtype):
        return pa.binary()
    if pa.types.is_map(dtype):
        key, item = dtype.key_field, dtype.item_field
        return pa.map_(key.with_type(with_bytes(key.type)), item.with_type(with_bytes(item.type)))
    if pa.types.is_list(dtype):
        return pa.list_(dtype.value_field.with_type(with_bytes(dtype.value_type)))
    if pa.types.is_struct(dtype):
        return pa.struct([field.with_type(with_bytes(field.type)) for field in dtype])
    return dtype
