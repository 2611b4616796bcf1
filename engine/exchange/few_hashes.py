"""The hashes of few rows, in Python: a call of NumPy takes longer than such a row as a whole."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from engine.exchange import hash_words
from engine.expressions.buffers import valid_of

FEW: Final = 16
"""Rows up to which this is faster, roughly."""
_BYTES_MAX: Final = 512
"""Of the texts of a column: of long ones NumPy is faster."""
_LOW: Final = (1 << 64) - 1


class _Mark(enum.Enum):
    NULL = enum.auto()
    STRUCT = enum.auto()


_Item: TypeAlias = "int | bytes | _Mark"
"""A word, a text, or a mark."""


def hash_few(columns: Sequence[pa.Array], rows: int) -> list[list[int]] | None:
    """As :func:`engine.exchange.hashing.hash_rows`: the hashes of each lane; None if a column is
    not for Python."""
    keys: list[list[_Item]] = [[] for _ in range(rows)]
    if not all(_append(column, list(enumerate(keys))) for column in columns):
        return None
    return [[_hashed(lane, key) for key in keys] for lane in (0, 1)]


def _append(column: pa.Array, keys: list[tuple[int, list[_Item]]]) -> bool:
    """What a column has for the keys of these rows; False if it is not for Python."""
    dtype = column.type
    if column.null_count:
        valid = np.broadcast_to(
            False if column.null_count == len(column) else valid_of(column), len(column)
        ).tolist()
        for row, key in keys:
            if not valid[row]:
                key.append(_Mark.NULL)
        keys = [(row, key) for row, key in keys if valid[row]]
        if not keys:
            return True
    if pa.types.is_struct(dtype):
        for _, key in keys:
            key.append(_Mark.STRUCT)
        return all(_append(column.field(index), keys) for index in range(dtype.num_fields))
    if pa.types.is_string(dtype) or pa.types.is_binary(dtype):
        _, offsets, data = column.buffers()
        bounds = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
        ends = bounds.tolist()
        if ends[-1] - ends[0] > _BYTES_MAX:
            return False
        octets = b"" if data is None else memoryview(data)
        for row, key in keys:
            key.append(bytes(octets[ends[row] : ends[row + 1]]))
        return True
    if pa.types.is_nested(dtype):
        return False
    for words in hash_words.words_of(column):
        values = words.tolist()
        for row, key in keys:
            key.append(values[row])
    return True


def _hashed(lane: int, key: Sequence[_Item]) -> int:
    factor, last = hash_words.FACTOR[lane], hash_words.LAST_FACTOR[lane]
    state = hash_words.SEED[lane]
    for item in key:
        if isinstance(item, int):
            state ^= item
        elif isinstance(item, bytes):
            state = (state ^ _of_text(lane, item)) * factor & _LOW
            state ^= state >> 32 ^ len(item)
        elif item is _Mark.STRUCT:
            state ^= hash_words.STRUCT[lane]
        else:
            state = (state ^ hash_words.NULL[lane]) * last & _LOW
            state ^= state >> 32
            continue
        state = state * factor & _LOW
        state ^= state >> 32
    state = state * last & _LOW
    return state ^ state >> 32


def _of_text(lane: int, text: bytes) -> int:
    """The sum of its words."""
    factor, last = hash_words.FACTOR[lane], hash_words.LAST_FACTOR[lane]
    total = place = 0
    for start in range(0, len(text) or 1, 8):
        place = place + hash_words.PLACE[lane] & _LOW
        word = (place ^ int.from_bytes(text[start : start + 8], "little")) * factor & _LOW
        word = (word ^ word >> 32) * last & _LOW
        total += word ^ word >> 32
    return total & _LOW
