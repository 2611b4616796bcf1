"""``hash`` (Murmur3, 32 bits) and ``xxhash64``: Spark's own variants, on arrays.

A row's hash is the seed of the next column's; NULL leaves it as it is. 0.0 and -0.0 are alike, and
so are all NaNs. Texts hash as their UTF-8. Spark's Murmur3 takes the bytes after the last whole
word one by one.

Source: ``hash.scala``, ``Murmur3_x86_32.java``, ``XXH64.java`` of Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

from engine.expressions.argument_types import Rare
from engine.expressions.datum import to_array
from engine.expressions.registry import Context, Datum, ValueFunction, strict
from engine.expressions.tree import Expr
from engine.expressions.types import YEAR_MONTH_INTERVAL
from engine.expressions.vectors import to_numpy

_LONG_DECIMAL_MAX: Final = 18


class _Murmur3:
    """All numbers are uint32."""

    dtype: Final = np.uint32

    def ints(self, values: Any, seeds: Any) -> Any:
        return self._finished(self._mixed(seeds, values.astype(np.uint32)), 4)

    def longs(self, values: Any, seeds: Any) -> Any:
        bits = values.view(np.uint64)
        low = self._mixed(seeds, (bits & np.uint64(0xFFFFFFFF)).astype(np.uint32))
        return self._finished(self._mixed(low, (bits >> np.uint64(32)).astype(np.uint32)), 8)

    def bytes(self, texts: _Bytes, seeds: Any) -> Any:
        result = seeds.copy()
        for rows, words in texts.words(np.dtype("<u4"), texts.lengths // 4):
            result[rows] = self._mixed(result[rows], words)
        for rows, octets in texts.words(np.dtype("i1"), texts.lengths % 4, texts.lengths // 4 * 4):
            result[rows] = self._mixed(result[rows], octets.astype(np.int32).view(np.uint32))
        return self._finished(result, texts.lengths.astype(np.uint32))

    def _mixed(self, hashes: Any, words: Any) -> Any:
        words = _rotated(words * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
        return _rotated(hashes ^ words, 13) * np.uint32(5) + np.uint32(0xE6546B64)

    def _finished(self, hashes: Any, length: Any) -> Any:
        hashes = hashes ^ np.uint32(length)
        hashes = (hashes ^ (hashes >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        hashes = (hashes ^ (hashes >> np.uint32(13))) * np.uint32(0xC2B2AE35)
        return hashes ^ (hashes >> np.uint32(16))


_P1, _P2, _P3, _P4, _P5 = map(
    np.uint64,
    (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    ),
)


class _XxHash64:
    """All numbers are uint64."""

    dtype: Final = np.uint64

    def ints(self, values: Any, seeds: Any) -> Any:
        words = values.astype(np.uint32).astype(np.uint64)
        return self._finished(self._with_int(seeds + _P5 + np.uint64(4), words))

    def longs(self, values: Any, seeds: Any) -> Any:
        return self._finished(self._with_long(seeds + _P5 + np.uint64(8), values.view(np.uint64)))

    def bytes(self, texts: _Bytes, seeds: Any) -> Any:
        lengths = texts.lengths
        result = np.where(lengths >= 32, self._stripes(texts, seeds), seeds + _P5)
        result = result + lengths.astype(np.uint64)
        done = lengths // 32 * 32
        for rows, words in texts.words(np.dtype("<u8"), lengths % 32 // 8, done):
            result[rows] = self._with_long(result[rows], words)
        for rows, words in texts.words(np.dtype("<u4"), lengths % 8 // 4, lengths // 8 * 8):
            result[rows] = self._with_int(result[rows], words.astype(np.uint64))
        for rows, octets in texts.words(np.dtype("u1"), lengths % 4, lengths // 4 * 4):
            mixed = result[rows] ^ (octets.astype(np.uint64) * _P5)
            result[rows] = _rotated(mixed, 11) * _P1
        return self._finished(result)

    def _stripes(self, texts: _Bytes, seeds: Any) -> Any:
        """Four sums over every fourth word, joined."""
        sums = [seeds + _P1 + _P2, seeds + _P2, seeds.copy(), seeds - _P1]
        for number, (rows, words) in enumerate(
            texts.words(np.dtype("<u8"), texts.lengths // 32 * 4)
        ):
            each = sums[number % 4]
            each[rows] = self._round(each[rows], words)
        total = sum(
            (_rotated(each, by) for each, by in zip(sums, (1, 7, 12, 18), strict=True)),
            start=np.zeros_like(seeds),
        )
        for each in sums:
            total = (total ^ self._round(np.zeros_like(each), each)) * _P1 + _P4
        return total

    def _round(self, hashes: Any, words: Any) -> Any:
        return _rotated(hashes + words * _P2, 31) * _P1

    def _with_long(self, hashes: Any, words: Any) -> Any:
        return _rotated(hashes ^ self._round(np.uint64(0), words), 27) * _P1 + _P4

    def _with_int(self, hashes: Any, words: Any) -> Any:
        return _rotated(hashes ^ (words * _P1), 23) * _P2 + _P3

    def _finished(self, hashes: Any) -> Any:
        hashes = (hashes ^ (hashes >> np.uint64(33))) * _P2
        hashes = (hashes ^ (hashes >> np.uint64(29))) * _P3
        return hashes ^ (hashes >> np.uint64(32))


def _rotated(words: Any, by: int) -> Any:
    kind = words.dtype.type
    return (words << kind(by)) | (words >> kind(words.dtype.itemsize * 8 - by))


class _Bytes:
    """The values of a column of texts or binaries in its own buffers; NULL as empty."""

    def __init__(self, array: pa.Array) -> None:
        _, offsets, data = array.buffers()
        bounds = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
        self._starts = bounds[:-1].astype(np.int64)
        self.lengths = np.diff(bounds).astype(np.int64)
        self._data = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)

    def words(self, dtype: Any, counts: Any, skipped: Any = 0) -> Any:
        """The first word of every value that has one, then the second of those that have two, ...

        :param counts: for each value how many words to take.
        :param skipped: how many bytes of each value to leave out at its start.
        :return: pairs of the rows' numbers and their words.
        """
        starts = self._starts + skipped
        within = np.arange(dtype.itemsize)
        for number, rows in _rounds(counts):
            first = starts[rows] + number * dtype.itemsize
            octets = self._data[first[:, None] + within]
            yield rows, np.ascontiguousarray(octets).view(dtype)[:, 0]


def _rounds(counts: Any) -> Iterator[tuple[int, Any]]:
    """0 and the rows that have something, 1 and those that have two, ...: a single long row costs
    its own length, not that times the number of rows."""
    rows, number = np.flatnonzero(counts > 0), 0
    while len(rows):
        yield number, rows
        number += 1
        rows = rows[counts[rows] > number]


def _why_not(dtype: pa.DataType) -> str | None:
    if pa.types.is_map(dtype):
        return "maps have no hash"
    if pa.types.is_struct(dtype):
        return next(filter(None, (_why_not(field.type) for field in dtype)), None)
    return _why_not(dtype.value_type) if pa.types.is_list(dtype) else None


def _supports(expr: Expr) -> str | None:
    return next(filter(None, (_why_not(child.dtype) for child in expr.children)), None)


def _update(kind: _Murmur3 | _XxHash64, array: pa.Array, seeds: Any) -> Any:
    """The hashes after one more column."""
    if pa.types.is_null(array.type) or len(array) == 0:
        return seeds
    if pa.types.is_struct(array.type):
        hashes = seeds
        for field in array.flatten():
            hashes = _update(kind, field, hashes)
        return hashes
    if pa.types.is_list(array.type):
        return _update_with_items(kind, array, seeds)
    hashes = _leaf(kind, array, seeds)
    return np.where(array.is_valid().to_numpy(zero_copy_only=False), hashes, seeds)


def _update_with_items(kind: _Murmur3 | _XxHash64, array: pa.Array, seeds: Any) -> Any:
    hashes = seeds.copy()
    starts = array.offsets.to_numpy()[:-1]
    lengths = array.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    for number, rows in _rounds(lengths):
        items = array.values.take(pa.array(starts[rows] + number))
        hashes[rows] = _update(kind, items, hashes[rows])
    return hashes


def _leaf(kind: _Murmur3 | _XxHash64, array: pa.Array, seeds: Any) -> Any:
    dtype = array.type
    if pa.types.is_string(dtype) or pa.types.is_binary(dtype):
        return kind.bytes(_Bytes(array), seeds)
    if pa.types.is_decimal(dtype):
        if dtype.precision <= _LONG_DECIMAL_MAX:
            # The unscaled value is the low half of Arrow's 128 bits.
            halves = np.frombuffer(array.buffers()[1], np.int64)[::2]
            return kind.longs(
                np.ascontiguousarray(halves[array.offset : array.offset + len(array)]), seeds
            )
        return kind.bytes(_Bytes(_unscaled(array)), seeds)
    values, _ = to_numpy(array)
    if pa.types.is_floating(dtype):
        values = np.where(np.isnan(values), values.dtype.type("nan"), values + 0.0)
        is_float = values.dtype == np.float32
        bits = np.ascontiguousarray(values).view(np.int32 if is_float else np.int64)
        return kind.ints(bits, seeds) if is_float else kind.longs(bits, seeds)
    if pa.types.is_boolean(dtype):
        return kind.ints(values.astype(np.int32), seeds)
    if dtype in (pa.date32(), YEAR_MONTH_INTERVAL) or (
        pa.types.is_integer(dtype) and dtype.bit_width < 64
    ):
        return kind.ints(values.astype(np.int32), seeds)
    return kind.longs(np.ascontiguousarray(values, np.int64), seeds)


def _unscaled(array: pa.Array) -> pa.Array:
    """As ``BigInteger.toByteArray``: big-endian, no byte more than the sign needs."""
    raw = np.frombuffer(array.buffers()[1], np.uint8)[16 * array.offset :]
    whole = raw.tobytes()
    result = []
    for start in range(0, 16 * len(array), 16):
        number = int.from_bytes(whole[start : start + 16], "little", signed=True)
        size = (number if number >= 0 else ~number).bit_length() // 8 + 1
        result.append(number.to_bytes(size, "big", signed=True))
    return pa.array(result, pa.binary())


def _register(op: str, make: Callable[[], _Murmur3 | _XxHash64]) -> None:
    @strict(op, supports=_supports, loop=True, reads=("seed",), takes=Rare.ALL)
    def hashed(expr: Expr, context: Context) -> ValueFunction:
        """Never NULL. Only decimals beyond 64 bits are looped over."""
        kind = make()
        bits = kind.dtype(int(expr.params["seed"]))
        types = [child.dtype for child in expr.children]

        def function(*values: Datum) -> Datum:
            lengths = [len(value) for value in values if not isinstance(value, pa.Scalar)]
            count = lengths[0] if lengths else 1
            hashes = np.full(count, bits, kind.dtype)
            with np.errstate(over="ignore"):
                for value, dtype in zip(values, types, strict=True):
                    hashes = _update(kind, to_array(value, count, dtype), hashes)
            signed = hashes.view(np.int32 if kind.dtype == np.uint32 else np.int64)
            result = pa.array(signed, expr.dtype)
            return result if lengths else result[0]

        return function


_register("Murmur3Hash", _Murmur3)
_register("XxHash64", _XxHash64)
