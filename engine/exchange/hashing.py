"""A hash of 128 bits of each row's key: two numbers of 64 bits, its *lanes*.

Whatever Spark groups together has equal hashes: NULL equals NULL, -0.0 equals 0.0, all NaNs are one.
Keys with different hashes are different; that two keys share one is so unlikely (10**-15 with 10**12
keys) that nobody looks for it.

Which task owns a key, and so which files of a checkpoint hold its state, follows from the hash: it
is the same in every version of the engine, however Arrow lays out the columns.

- A row starts with a seed; each column is mixed into it, one after the other.
- A text is its words of 8 bytes, an array its items: each is mixed with its position, the sum is
  mixed into the row, and then how many bytes or items there are.
- NULL is mixed in another way than any value. A struct opens with a mark, so that one of NULLs is
  not NULL.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.expressions.buffers import bits_of, valid_of
from engine.expressions.lists import Lists

Hashes = npt.NDArray[np.uint64]
"""The lanes of some rows, of shape (2, rows)."""


def _constants(first: int, second: int) -> Hashes:
    """One for each lane."""
    return np.array([[first], [second]], np.uint64)


_SEED: Final = _constants(0x243F6A8885A308D3, 0x13198A2E03707344)
_FACTOR: Final = _constants(0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)
_LAST_FACTOR: Final = _constants(0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_PLACE: Final = _constants(0xD6E8FEB86659FD93, 0xA0761D6478BD642F)
_NULL: Final = _constants(0xE7037ED1A0B428DB, 0x8EBC6AF09C88C6E3)
_STRUCT: Final = _constants(0x589965CC75374CC3, 0x1D8E4E27C47D124F)
_HALF: Final = np.uint64(32)
_ONE: Final = np.uint64(1)
_BYTES_OF: Final = np.array([(1 << (8 * count)) - 1 for count in range(9)], np.uint64)
"""A mask for the first bytes of a word."""


def hash_rows(columns: Sequence[pa.Array], rows: int) -> Hashes:
    """The hash of each row's key.

    :param columns: those of the key, of equal length; none: all rows have the same key.
    """
    lanes = np.empty((2, rows), np.uint64)
    lanes[:] = _SEED
    for column in columns:
        lanes = _with_column(lanes, column)
    return _mixed(lanes, 0, _LAST_FACTOR)


def _mixed(lanes: Hashes, words: Any, factor: Hashes = _FACTOR) -> Hashes:
    """Takes the words in; ``lanes`` is used up."""
    lanes ^= words
    lanes *= factor
    lanes ^= lanes >> _HALF
    return lanes


def _with_column(lanes: Hashes, column: pa.Array) -> Hashes:
    if column.null_count == 0 or len(column) == 0:
        return _with_values(lanes, column)
    of_nulls = _mixed(lanes ^ _NULL, 0, _LAST_FACTOR)
    if column.null_count == len(column):
        return of_nulls
    return np.where(valid_of(column), _with_values(lanes, column), of_nulls)


def _with_values(lanes: Hashes, column: pa.Array) -> Hashes:
    """Mixes all values in, whatever stands in the place of NULL."""
    dtype = column.type
    if len(column) == 0:
        return lanes
    if pa.types.is_struct(dtype):
        lanes = _mixed(lanes, _STRUCT)
        for index in range(dtype.num_fields):
            lanes = _with_column(lanes, column.field(index))
        return lanes
    if pa.types.is_list(dtype) or pa.types.is_map(dtype):
        return _with_items(lanes, column)
    if pa.types.is_string(dtype) or pa.types.is_binary(dtype):
        return _with_texts(lanes, column)
    for words in _words(column):
        lanes = _mixed(lanes, words)
    return lanes


def _words(column: pa.Array) -> tuple[npt.NDArray[np.uint64], ...]:
    """The values of a type of fixed width as words, two of them if it has 128 bits."""
    dtype = column.type
    start, end = column.offset, column.offset + len(column)
    values = column.buffers()[1]
    if pa.types.is_boolean(dtype):
        return (bits_of(values, start, len(column)).astype(np.uint64),)
    if pa.types.is_floating(dtype):
        numbers = np.frombuffer(values, f"<f{dtype.bit_width // 8}")[start:end] + 0.0
        numbers[np.isnan(numbers)] = np.nan
        return (numbers.view(f"<u{dtype.bit_width // 8}").astype(np.uint64),)
    if dtype.bit_width == 128:
        halves = np.frombuffer(values, "<u8")[2 * start : 2 * end]
        return halves[::2], halves[1::2]
    numbers = np.frombuffer(values, f"<i{dtype.bit_width // 8}")[start:end]
    return (numbers.astype(np.int64, copy=False).view(np.uint64),)


def _with_texts(lanes: Hashes, column: pa.Array) -> Hashes:
    _, offsets, data = column.buffers()
    bounds = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    bounds = bounds.astype(np.int64) - bounds[0]
    begins, lengths, size = bounds[:-1], np.diff(bounds), int(bounds[-1])
    words = np.zeros(size // 8 + 2, "<u8")  # a word behind the last may be looked at
    if size:
        start = int(np.frombuffer(offsets, np.int32)[column.offset])
        words.view(np.uint8)[:size] = np.frombuffer(data, np.uint8, size, start)
    counts = np.maximum((lengths + 7) >> 3, 1)
    if int(counts.max()) == 1:
        places, at, left = None, begins, lengths
    else:
        places = _places(counts)
        skipped = places << 3
        at, left = np.repeat(begins, counts) + skipped, np.repeat(lengths, counts) - skipped
    word = at >> 3
    shift = ((at & 7) << 3).astype(np.uint64)
    pieces = words[word] >> shift
    pieces |= (words[word + 1] << _ONE) << (np.uint64(63) - shift)
    pieces &= _BYTES_OF[np.minimum(left, 8)]
    lanes = _mixed(lanes, _summed(pieces, places, counts))
    return _mixed(lanes, lengths.astype(np.uint64))


def _with_items(lanes: Hashes, column: pa.Array) -> Hashes:
    lists = Lists.of(column)
    items = hash_rows([lists.items], len(lists.items))
    lanes = _mixed(lanes, _summed(items, _places(lists.lengths), lists.lengths))
    return _mixed(lanes, lists.lengths.astype(np.uint64))


def _places(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """0, 1, ... for each row, so many as it has."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.asarray(np.arange(total) - np.repeat(ends - counts, counts))


def _summed(
    items: npt.NDArray[np.uint64],
    places: npt.NDArray[np.int64] | None,
    counts: npt.NDArray[np.int64],
) -> Hashes:
    """The items of each row as one; None of places: each row has one item."""
    at = np.zeros(1, np.uint64) if places is None else places.astype(np.uint64)
    mixed = _mixed(_mixed((at + _ONE) * _PLACE ^ items, 0), 0, _LAST_FACTOR)
    if places is None:
        return mixed
    sums = np.zeros((2, len(counts)), np.uint64)
    some = np.flatnonzero(counts)
    if len(some):
        starts = np.cumsum(counts) - counts
        sums[:, some] = np.add.reduceat(mixed, starts[some], axis=1)
    return sums
