"""What the oracle has found in HLL sketches, most of them damaged."""

from __future__ import annotations

import math
import struct

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.spark.expressions import assert_parity

pytestmark = pytest.mark.spark


def _registers(
    lg_slots: int,
    body: bytes,
    *,
    mode: int = 10,
    flags: int = 0,
    least: int = 0,
    sums: tuple[float, float, float] = (40.0, 7.0, 0.0),
    zeros: int = 0,
    large: int = 0,
    lg_size: int = 0,
) -> bytes:
    start = bytes((10, 1, 7, lg_slots, lg_size, flags, least, mode))
    return start + struct.pack("<dddii", *sums, zeros, large) + body


_BODY = bytes(number * 37 % 60 for number in range(40))


def test_hll_registers_of_any_number(spark: SparkSession) -> None:
    """Of 2 to the power of 32 and more there are as many as Java shifts 1, of bytes, of 6 bits and
    of 4; but a sketch of them has no estimate of its own, and is in no union alone."""
    numbers = (0, 1, 2, 3, 22, 31, 32, 36, 37, 44, 69, 95, 127, 128, 132, 133, 255)
    sketches = [
        _registers(lg_slots, _BODY, mode=mode, flags=flags)
        for lg_slots in numbers
        for mode, flags in ((10, 0), (10, 16), (10, 32), (6, 0), (6, 16), (2, 0), (2, 8), (2, 24))
        if mode == 10 or lg_slots & 31 not in (1, 31)
    ]
    sketches += [
        _registers(number, _BODY, mode=2, flags=8, large=1) for number in (36, 27, 26, 5, 4)
    ]
    others = [
        _registers(4, _BODY),
        _registers(5, _BODY),
        bytes((2, 1, 7, 8, 3, 0, 1, 8, 9, 9, 9, 9)),
    ]
    others[2] += bytes(28)
    pairs = [(a, b) for a in sketches for b in others]
    pairs += [(b, a) for a, b in pairs]
    table = pa.table(dict(zip("ab", zip(*pairs, strict=True), strict=True)))
    expressions = ["hll_union(a, b, true)", "hll_union(a, b)"]
    assert_parity(spark, table, expressions, ansi=[True])
    assert_parity(spark, pa.table({"a": sketches}), ["hll_sketch_estimate(a)"], ansi=[True])


def test_hll_registers_of_odd_values(spark: SparkSession) -> None:
    """Bytes of which more than 6 bits are used, a least register that is too large for these, sums
    of 0, less than no registers that are 0."""
    wide = bytes(number * 37 % 256 for number in range(32))
    sketches = [
        *(_registers(lg_slots, wide, flags=flags) for lg_slots in (4, 5) for flags in (0, 16, 32)),
        *(_registers(5, wide, mode=2, least=least) for least in (0, 50, 64, 94, 255)),
        *(_registers(4, bytes(8), mode=2, least=least) for least in (0, 64, 128)),
        _registers(5, bytes(32), sums=(40.0, 0.0, 0.0)),
        _registers(5, bytes(32), sums=(40.0, 2.0, -2.0)),
        *(
            _registers(5, bytes(32), flags=16, sums=(0.0, low, 0.0), zeros=zeros, least=least)
            for low in (math.nan, -7.0, 0.0, 0.5, 4.0, 8.0, 20.0, 28.0, 31.0, 32.0, 40.0)
            for zeros, least in ((-1, 0), (-(2**31), 0), (-1, 1), (0, 0), (3, 0), (40, 0))
        ),
        *(bytes((2, 1, 7, 8, 3, 0, count, 8)) + _BODY * 2 for count in (8, 9, 26)),
        bytes((2, 1, 7, 8, 3, 0, 9, 8)) + _BODY[:33],
    ]
    coupons = [value << 26 | value * 40_503 for value in range(1, 24)]
    others = [_registers(4, wide), _registers(5, wide[::-1]), _registers(5, wide, mode=6)]
    others += [bytes((2, 1, 7, 5, 3, 0, 7, 8)) + struct.pack("<8I", *coupons[:7], 0)]
    pairs = [(a, b) for a in sketches for b in others]
    pairs += [(b, a) for a, b in pairs]
    table = pa.table(dict(zip("ab", zip(*pairs, strict=True), strict=True)))
    assert_parity(spark, table, ["hll_union(a, b, true)"], ansi=[True])
    assert_parity(spark, pa.table({"a": sketches}), ["hll_sketch_estimate(a)"], ansi=[True])


def test_hll_registers_behind_those_of_4_bits(spark: SparkSession) -> None:
    """Tables of them that are full, that say too much, that have a slot twice or one that is none;
    of a size that Java cannot compute, or of its own."""
    nibbles = b"\xff\x11" * 4
    large = [20 << 26 | slot for slot in (0, 1, 4, 5, 8, 9, 12, 13)]
    lists = [large, large[:3], large[::-1], [*large[:3], 20 << 26 | 17], [16, 16, *large], [16] * 9]
    lists += [[0, *large], [*large, 0], [7 << 26, *large[1:]]]
    sketches = [
        _registers(
            4,
            nibbles + struct.pack(f"<{len(each)}I", *each) + bytes(more),
            mode=2,
            flags=flags,
            large=count,
            lg_size=lg_size,
        )
        for each in lists
        for flags, lg_size, more in ((8, 0, 0), (0, 0, 0), (0, 1, 0), (0, 3, 0), (0, 4, 28))
        for count in {len(each), 2**31 - 16, 2**30, -1, 1}
    ]
    sketches += [_registers(4, nibbles, mode=2, large=1, lg_size=size) for size in (31, 63, 255)]
    other = _registers(4, _BODY)
    table = pa.table({"a": sketches, "b": [other] * len(sketches)})
    expressions = ["hll_sketch_estimate(a)", "hll_union(a, b)", "hll_union(b, a)"]
    assert_parity(spark, table, expressions, ansi=[True])
