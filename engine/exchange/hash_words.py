"""What a hash of :mod:`engine.exchange.hashing` is made of: its constants, and a column's words."""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.expressions.buffers import bits_of

Lanes: TypeAlias = tuple[int, int]
"""A number for each lane."""

SEED: Final[Lanes] = 0x243F6A8885A308D3, 0x13198A2E03707344
FACTOR: Final[Lanes] = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F
LAST_FACTOR: Final[Lanes] = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
PLACE: Final[Lanes] = 0xD6E8FEB86659FD93, 0xA0761D6478BD642F
NULL: Final[Lanes] = 0xE7037ED1A0B428DB, 0x8EBC6AF09C88C6E3
STRUCT: Final[Lanes] = 0x589965CC75374CC3, 0x1D8E4E27C47D124F


def words_of(column: pa.Array) -> tuple[npt.NDArray[np.uint64], ...]:
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
