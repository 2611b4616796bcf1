"""A hash of 128 bits of each row's key: two numbers of 64 bits, its *lanes*.

Whatever Spark groups together has equal hashes: NULL equals NULL, -0.0 equals 0.0, all NaNs are
one. Keys with different hashes are different; that two keys share one is so unlikely (10**-15 with
10**12 keys) that nobody looks for it.

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

from engine.exchange import hash_words
from engine.exchange.few_hashes import FEW, hash_few
from engine.exchange.hash_words import Lanes
from engine.expressions.buffers import valid_of
from engine.expressions.lists import Lists

Ints = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]
"""The lanes of some rows, of shape (2, rows)."""


def _constants(lanes: Lanes) -> Hashes:
    return np.array(lanes, np.uint64).reshape(2, 1)


_SEED: Final = _constants(hash_words.SEED)
_FACTOR: Final = _constants(hash_words.FACTOR)
_LAST_FACTOR: Final = _constants(hash_words.LAST_FACTOR)
_PLACE: Final = _constants(hash_words.PLACE)
_NULL: Final = _constants(hash_words.NULL)
_STRUCT: Final = _constants(hash_words.STRUCT)
_HALF: Final = np.uint64(32)
_ONE: Final = np.uint64(1)
_BLOCK: Final = 1 << 13
"""Rows of texts that are worked on at once, which so stay in the processor's cache."""
_WASTE_MAX: Final = 2
"""How many times as many words may be worked on as there are, to have as many of each text."""
_BYTES_OF: Final = np.array([(1 << (8 * count)) - 1 for count in range(9)], np.uint64)
"""A mask for the first bytes of a word."""


def hash_rows(columns: Sequence[pa.Array], rows: int) -> Hashes:
    """The hash of each row's key.

    :param columns: those of the key, of equal length; none: all rows have the same key.
    """
    if 0 < rows <= FEW and (few := hash_few(columns, rows)) is not None:
        return np.array(few, np.uint64)
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
    for words in hash_words.words_of(column):
        lanes = _mixed(lanes, words)
    return lanes


def _with_texts(lanes: Hashes, column: pa.Array) -> Hashes:
    _, offsets, data = column.buffers()
    bounds = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    start, size = int(bounds[0]), int(bounds[-1] - bounds[0])
    words = np.zeros(size // 8 + 2, "<u8")  # a word behind the last may be looked at
    if size:
        words.view(np.uint8)[:size] = np.frombuffer(data, np.uint8, size, start)
    begins, lengths = bounds[:-1].astype(np.int64) - start, np.diff(bounds).astype(np.int64)
    parts = [
        _of_texts(words, begins[row : row + _BLOCK], lengths[row : row + _BLOCK])
        for row in range(0, len(column), _BLOCK)
    ]
    sums = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
    return _mixed(_mixed(lanes, sums), lengths.astype(np.uint64))


def _of_texts(words: npt.NDArray[np.uint64], begins: Ints, lengths: Ints) -> Hashes:
    """The sum of each text's words.

    :param words: all bytes of all texts.
    :param begins: where each text has its first byte.
    """
    counts = np.maximum((lengths + 7) >> 3, 1)
    most, rows = int(counts.max()), len(counts)
    if most * rows > _WASTE_MAX * int(counts.sum()):
        places = _places(counts)
        skipped = places << 3
        at, left = np.repeat(begins, counts) + skipped, np.repeat(lengths, counts) - skipped
        return _summed(_cut(words, at, left), places, counts)
    # As if all had as many words as the longest: so every text's first words are side by side.
    places = np.repeat(np.arange(most), rows)
    skipped = (np.arange(most) << 3)[:, None]
    at, left = (begins + skipped).ravel(), (lengths - skipped).ravel()
    items = _of_items(_cut(words, np.minimum(at, 8 * len(words) - 9), left), places)
    if most == 1:
        return items
    each = items.reshape(2, most, rows)
    each[:, 1:] *= (left > 0).reshape(most, rows)[1:]
    return np.asarray(each.sum(axis=1))


def _cut(words: npt.NDArray[np.uint64], at: Ints, left: Ints) -> npt.NDArray[np.uint64]:
    """The 8 bytes from each of these places on, of which only so many count."""
    word = at >> 3
    shift = ((at & 7) << 3).astype(np.uint64)
    pieces: npt.NDArray[np.uint64] = words[word] >> shift
    pieces |= (words[word + 1] << _ONE) << (np.uint64(63) - shift)
    pieces &= _BYTES_OF[np.clip(left, 0, 8)]
    return pieces


def _with_items(lanes: Hashes, column: pa.Array) -> Hashes:
    lists = Lists.of(column)
    items = hash_rows([lists.items], len(lists.items))
    lanes = _mixed(lanes, _summed(items, _places(lists.lengths), lists.lengths))
    return _mixed(lanes, lists.lengths.astype(np.uint64))


def _places(counts: Ints) -> Ints:
    """0, 1, ... for each row, so many as it has."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.asarray(np.arange(total) - np.repeat(ends - counts, counts))


def _summed(items: npt.NDArray[np.uint64], places: Ints, counts: Ints) -> Hashes:
    """The items of each row as one."""
    sums = np.zeros((2, len(counts)), np.uint64)
    some = np.flatnonzero(counts)
    if len(some):
        starts = np.cumsum(counts) - counts
        sums[:, some] = np.add.reduceat(_of_items(items, places), starts[some], axis=1)
    return sums


def _of_items(items: npt.NDArray[np.uint64], places: Ints) -> Hashes:
    """What each item adds to the sum of its row."""
    mixed = (places.astype(np.uint64) + _ONE) * _PLACE
    return _mixed(_mixed(mixed, items), 0, _LAST_FACTOR)
