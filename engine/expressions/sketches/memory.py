"""Bytes as the ``Memory`` of Apache DataSketches reads them: little-endian, bounds are checked.

What is wrong with a sketch is an error of Java's here, as the library of Java throws it. Spark
passes some on as they are, and has conditions of its own for others.

Source: ``ResourceImpl.java`` of datasketches-memory; ``Family.java`` of datasketches-java.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from engine.errors import TransformError

Longs = npt.NDArray[np.int64]

_COMMON: Final = "org.apache.datasketches.common."
_FAMILIES: Final = (
    *("ALPHA", "QUICKSELECT", "COMPACT", "UNION", "INTERSECTION", "A_NOT_B", "HLL", "QUANTILES"),
    *("TUPLE", "FREQUENCY", "RESERVOIR", "RESERVOIR_UNION", "VAROPT", "VAROPT_UNION", "KLL", "CPC"),
    *("REQ", "COUNTMIN", "EBPPS", "TDIGEST", "BLOOMFILTER"),
)


class SketchError(TransformError):
    """What the library throws.

    :ivar name: the simple name of its class.
    :ivar text: its message.
    """

    def __init__(self, package: str, name: str, text: str) -> None:
        super().__init__(f"[{package}{name}: {text}]")
        self.name = name
        self.text = text


def bad_argument(text: str) -> SketchError:
    """``SketchesArgumentException``."""
    return SketchError(_COMMON, "SketchesArgumentException", text)


def bad_state(text: str) -> SketchError:
    """``SketchesStateException``."""
    return SketchError(_COMMON, "SketchesStateException", text)


def negative_size(count: int) -> SketchError:
    """``NegativeArraySizeException``."""
    return SketchError("java.lang.", "NegativeArraySizeException", str(count))


def null_pointer(text: str) -> SketchError:
    """``NullPointerException``."""
    return SketchError("java.lang.", "NullPointerException", text)


def index_out_of_bounds(count: int) -> SketchError:
    """``ArrayIndexOutOfBoundsException``: one too many for so many."""
    text = f"Index {count} out of bounds for length {count}"
    return SketchError("java.lang.", "ArrayIndexOutOfBoundsException", text)


def out_of_bounds(at: int, length: int, room: int) -> SketchError:
    """``MemoryBoundsException``: so much is wanted from there on, where there is so much room."""
    text = f"reqOffset: {at}, reqLength: {length}, (reqOff + reqLen): {at + length}"
    package = "org.apache.datasketches.memory."
    return SketchError(package, "MemoryBoundsException", f"{text}, allocSize: {room}")


def as_byte(number: int) -> int:
    """0 to 255, as Java reads it where it does not mean that."""
    return (number + 128) % 256 - 128


def as_int(number: int) -> int:
    """The lowest 32 bits: what Java computes with an int."""
    return (number + 2**31) % 2**32 - 2**31


def as_long(number: float) -> int:
    """As Java casts a double to 64 bits."""
    if number != number:
        return 0
    return int(max(-(2.0**63), min(number, 2.0**63))) - (number >= 2.0**63)


def family(number: int) -> str:
    """The name of a family of sketches."""
    if not 1 <= number <= len(_FAMILIES):
        raise bad_argument(f"Possible Corruption: Illegal Family ID: {number}")
    return _FAMILIES[number - 1]


class Memory:
    """Some bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def unsigned(self, at: int) -> int:
        """One byte, 0 to 255."""
        return self._checked(at, 1)[at]

    def short(self, at: int) -> int:
        """16 bits, without a sign."""
        return int(self._read("<H", at, 2))

    def int32(self, at: int) -> int:
        """32 bits."""
        return int(self._read("<i", at, 4))

    def int64(self, at: int) -> int:
        """64 bits."""
        return int(self._read("<q", at, 8))

    def float32(self, at: int) -> float:
        """A float."""
        return float(self._read("<f", at, 4))

    def double(self, at: int) -> float:
        """A double."""
        return float(self._read("<d", at, 8))

    def some(self, at: int, length: int) -> bytes:
        """So many bytes."""
        return self._checked(at, length)[at : at + length]

    def longs(self, at: int, count: int) -> Longs:
        """So many numbers of 64 bits."""
        return np.frombuffer(self.some(at, count * 8), "<i8").astype(np.int64)

    def _read(self, form: str, at: int, length: int) -> Any:
        return struct.unpack_from(form, self._checked(at, length), at)[0]

    def _checked(self, at: int, length: int) -> bytes:
        if at < 0 or length < 0 or at + length > len(self.data):
            raise out_of_bounds(at, length, len(self.data))
        return self.data
