"""What the oracle has found in theta, tuple and HLL sketches, most of them damaged."""

from __future__ import annotations

import random
import struct

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.spark.expressions import assert_parity

pytestmark = pytest.mark.spark
_MOST = 2**63 - 1
_MODES = ("sum", "min", "max", "alwaysone")


def _updatable(
    *hashes: int,
    form: str = "d",
    lg_size: int = 5,
    theta: int | None = None,
    part: float | None = None,
    flags: int = 0,
    count: int | None = None,
) -> bytes:
    """A tuple sketch to which hashes can be added, with the summaries 1, 2, 3 ..."""
    flags |= (
        (2 if part is not None else 0) | (8 if hashes else 0) | (16 if theta is not None else 0)
    )
    body = b"" if part is None else struct.pack("<f", part)
    body += b"" if theta is None else struct.pack("<q", theta)
    if hashes:
        body += struct.pack("<i", len(hashes) if count is None else count)
    for number, value in enumerate(hashes, 1):
        body += struct.pack(f"<q{form}B", value, number, number % 4)
    return bytes((1, 2, 9, 0, flags, 4, lg_size, 3)) + body


def _compact(*hashes: int, form: str = "d", theta: int = _MOST) -> bytes:
    start = struct.pack("<6BHiiq", 3, 3, 9, 1, 0, 10, 37836, len(hashes), 0, theta)
    return start + b"".join(struct.pack(f"<q{form}B", value, 10 + value % 5, 0) for value in hashes)


def _theta(*hashes: int, theta: int = _MOST, flags: int = 0x0A, count: int | None = None) -> bytes:
    count = len(hashes) if count is None else count
    start = struct.pack("<6BHifq", 3, 3, 3, 0, 0, flags, 37836, count, 1, theta)
    return start + struct.pack(f"<{len(hashes)}q", *hashes)


@pytest.mark.parametrize("of", ["double", "integer"])
def test_tuple_sketches_to_which_hashes_can_be_added(spark: SparkSession, of: str) -> None:
    """Of several sizes, with and without a theta, sampled, with hashes that are none or twice
    there, with strides of another size than that of their table."""
    form = of[0]
    half = 2**62
    many = random.Random(1).sample(range(1, _MOST), 30)
    sketches = [
        _updatable(form=form),
        _updatable(5, form=form),
        _updatable(*many, form=form),
        _updatable(*many, form=form, lg_size=5 + 32),
        _updatable(*many, form=form, lg_size=4),
        _updatable(1, 33, 65, 2**40 + 1, form=form, lg_size=12),
        _updatable(1, 33, 65, 2**40 + 1, 2**56 + 1, form=form, lg_size=37),
        _updatable(5, 7, form=form, lg_size=0),
        _updatable(5, form=form, lg_size=31),
        _updatable(5, 7, half + 1, form=form, theta=half),
        _updatable(5, 7, form=form, theta=0),
        _updatable(form=form, theta=half),
        _updatable(5, 7, form=form, part=0.5),
        *(_updatable(5, form=form, part=part) for part in (2.0, -1.0, float("nan"), 1.0, 0.0)),
        _updatable(5, 7, form=form, theta=half, part=0.1, flags=0xE4),
        _updatable(5, 7, form=form, flags=4),
        _updatable(5, form=form, flags=1),
        _updatable(5, 5, 7, 5, form=form),
        _updatable(-5, 5, -7, _MOST, form=form),
        _updatable(_MOST, form=form),
        _updatable(-5, -7, form=form),
        _updatable(0, 5, form=form),
        _updatable(0, 32, 64, form=form),
        _updatable(5, 7, form=form, count=-2),
        _updatable(5, 7, form=form, count=3),
        b"\x02" + _updatable(5, form=form)[1:],
        b"\x03" + _updatable(5, form=form)[1:],
        b"\x01\x03" + _updatable(5, form=form)[2:],
        b"\x01\xc8" + _updatable(5, form=form)[2:],
        _updatable(5, form=form)[:-1],
        _updatable()[:7],
    ]
    compact = [_compact(5, 7, 33, form=form), _compact(*many[:9], 7, form=form, theta=2**61)]
    compact += [_compact(5, 5, 5, 7, form=form), _compact(form=form, theta=half)]
    thetas = [_theta(5, 33, *sorted(many)), _theta(5, 5, 7), _theta(5, theta=half), _theta()]
    rows = [(a, b, t) for a in sketches for b, t in zip(compact, thetas, strict=True)]
    rows += [(a, b, thetas[0]) for a in sketches for b in sketches[1:7:2]]
    table = pa.table(dict(zip("abt", zip(*rows, strict=True), strict=True)))
    one = pa.table({"a": sketches})
    expressions = [f"tuple_sketch_{what}_{of}(a)" for what in ("estimate", "theta")]
    expressions += [f"tuple_sketch_summary_{of}(a, '{mode}')" for mode in _MODES]
    assert_parity(spark, one, expressions, ansi=[True])
    expressions = [f"tuple_{what}_{of}(a, b)" for what in ("union", "intersection", "difference")]
    expressions += [f"tuple_{what}_theta_{of}(a, t)" for what in ("union", "intersection")]
    expressions += [f"tuple_difference_theta_{of}(a, t)", f"tuple_difference_{of}(b, a)"]
    expressions += [f"tuple_intersection_{of}(b, a, 'max')", f"tuple_union_{of}(b, a, 4, 'min')"]
    assert_parity(spark, table, expressions, ansi=[True])


def test_tuple_sketches_that_name_their_summaries(spark: SparkSession) -> None:
    """In so many bytes, less than none from 128 on; hashes are where that leads to, if any."""
    sketches = [
        bytes((1, 1, 9, 1, 4 | flags)) + bytes(flags) + struct.pack("<Bi", named, count) + rest
        for flags in (0, 8)
        for named in (0, 3, 24, 127, 128, 184, 243, 246, 250, 254, 255)
        for count in (0, 1, 2, -1)
        for rest in (b"", bytes(number % 5 // 4 for number in range(30)))
    ]
    expressions = [
        f"tuple_sketch_{what}_{of}(a)"
        for of in ("integer", "double")
        for what in ("estimate", "theta", "summary")
    ]
    assert_parity(spark, pa.table({"a": sketches}), expressions, ansi=[True])


def test_tuple_sketches_whose_hashes_are_none(spark: SparkSession) -> None:
    """Of an intersection with them nothing can come, not even nothing; with hashes beyond theta
    there are places without a summary; with 0 nothing can be sought."""
    tuples = [_compact(-5), _compact(0, theta=2**62), _compact(_MOST), _compact(5, 7), _compact(5)]
    tuples += [_compact(5, 2**62 + 1, theta=2**62), _compact(5, 5, 7, 7), _compact()]
    thetas = [_theta(5, 2**62 + 1), _theta(5, 5, 5), _theta(0, 5), _theta(-5, 5), _theta()]
    old = struct.pack("<6BHifqqq", 2, 2, 3, 0, 0, 0, 37836, 2, 1, 0, 5, 0)[:32]
    thetas += [old, _theta(5, count=-3), _theta(0)]
    rows = [(a, b, t) for a in tuples for b, t in zip(tuples, thetas, strict=True)]
    table = pa.table(dict(zip("abt", zip(*rows, strict=True), strict=True)))
    names = ("union", "intersection", "difference")
    expressions = [f"tuple_{what}_double(a, b)" for what in names]
    expressions += [f"tuple_{what}_theta_double(a, t)" for what in names]
    assert_parity(spark, table, expressions, ansi=[True])


def test_theta_sketches_whose_hashes_are_none(spark: SparkSession) -> None:
    """0, negative ones, those beyond theta, some twice, fewer than none; of no theta."""
    half = 2**62
    sketches = [
        _theta(5, 7, 9),
        _theta(5, 5, 7, 7, 5, flags=0x1A),
        _theta(9, 5, 0, 7, flags=0x1A),
        _theta(-5, 5, 7, flags=0x1A),
        _theta(7, -5, 0, 5),
        _theta(5, half, half + 1, theta=half),
        _theta(half + 1, 5, theta=half, flags=0x1A),
        _theta(5, 7, theta=0),
        _theta(5, 7, theta=-1),
        _theta(5, 7, count=-1),
        _theta(theta=half),
        _theta(),
        b"\x04" + _theta(theta=half)[1:],
        bytes((1, 3, 3, 0, 0, 0x0A, 67, 147)),
        struct.pack("<6BHif", 2, 3, 3, 0, 5, 0x1A, 37836, 0, 1),
        struct.pack("<6BHifqq", 2, 2, 3, 0, 0, 0, 37836, 2, 1, 0, 5),
        struct.pack("<6BHq", 1, 3, 3, 0, 0, 0x3A, 37836, 5),
    ]
    pairs = [(a, b) for a in sketches for b in sketches]
    table = pa.table(dict(zip("ab", zip(*pairs, strict=True), strict=True)))
    expressions = ["theta_intersection(a, b)", "theta_difference(a, b)", "theta_union(a, b)"]
    assert_parity(spark, table, expressions, ansi=[True])
    pairs = [(_theta(5, half), _theta(5, theta=theta)) for theta in (9 - half * 2, -5, 3 - half)]
    table = pa.table(dict(zip("ab", zip(*pairs, strict=True), strict=True)))
    assert_parity(spark, table, ["theta_union(a, b)"], ansi=[True])


def test_theta_sketches_of_old_versions(spark: SparkSession) -> None:
    """Their bytes are counted in 32 bits; the second version has all of its preamble."""
    half = 2**62
    counts = (0, 1, 2, -1, -(2**31), -963_912_704, -478_335_910, 2**26)
    old = [
        struct.pack("<6BHifq", longs, version, 3, 0, 0, 0, 37836, count, 1, theta) + bytes(16)
        for longs, version in ((3, 1), (1, 2), (2, 2), (3, 2))
        for count in counts
        for theta in (_MOST, half)
    ]
    sketches = [each[:length] for each in old for length in (12, 15, 16, 23, 24, 32, 40)]
    table = pa.table({"a": sketches, "b": [_theta(5)] * len(sketches)})
    expressions = ["theta_sketch_estimate(a)", "theta_union(a, b)", "theta_difference(b, a)"]
    assert_parity(spark, table, expressions, ansi=[True])


def test_theta_sketches_whose_preamble_says_something_else(spark: SparkSession) -> None:
    """Without a preamble, compressed and empty with a theta or not, of a negative number of hashes
    whose theta is below the hashes of the other, of a theta below 0 behind many hashes."""
    half, many = 2**62, [2**58 * number + 3 for number in range(1, 31)]
    sketches = [
        _theta(half + 1),
        _theta(*many),
        _theta(5, half + 1, half + 2),
        b"\x00" + _theta(5, 7)[1:],
        b"\x00" + _theta(0, 5, 7, theta=-half)[1:],
        _theta(theta=half),
        _theta(theta=half, count=-1),
        _theta(theta=-(2**61), flags=0x1A),
        *(
            struct.pack("<6BH", longs, 4, 3, 60, 1, flags, 37836) + theta + bytes(1)
            for longs, theta in ((1, b""), (2, struct.pack("<q", half)))
            for flags in (0x1A, 0x1E, 0x85)
        ),
    ]
    pairs = [(a, b) for a in sketches for b in sketches]
    table = pa.table(dict(zip("ab", zip(*pairs, strict=True), strict=True)))
    expressions = ["theta_intersection(a, b)", "theta_difference(a, b)", "theta_union(a, b, 4)"]
    assert_parity(spark, table, expressions, ansi=[True])


def test_compressed_theta_sketches_of_odd_sizes(spark: SparkSession) -> None:
    """Of no bits per hash, of more than there are, of a number in many bytes, or a negative one."""

    def compressed(bits: int, count: bytes, rest: int = 700) -> bytes:
        start = struct.pack("<6BH", 1, 4, 3, bits, len(count), 0x1A, 37836)
        return start + count + bytes(number * 7 % 251 for number in range(rest))

    counts = [bytes((number,)) for number in (0, 1, 3, 7, 8, 9)]
    sketches = [compressed(bits, count) for bits in (0, 1, 60, 63, 64, 65, 80) for count in counts]
    sketches += [compressed(10, bytes((2, 0, 0, 0, 1, 0)) + bytes(100))]
    sketches += [compressed(10, b"\2\0\0\x80"), compressed(10, b"", 0)]
    expressions = ["theta_sketch_estimate(a)", "theta_intersection(a, a)"]
    assert_parity(spark, pa.table({"a": sketches}), expressions, ansi=[True])


def test_hll_sketches_of_odd_sizes(spark: SparkSession) -> None:
    """Lists of any number of slots, tables that do not say how large they are or have a coupon
    twice, sums that are not those of the registers."""
    coupons = [(1 + number % 3) << 26 | number * 40_503 for number in range(1, 20)]
    few = [*coupons[:3], 0, 0, 0, 0, 0]
    lists = [
        bytes((2, 1, 7, slots, 3, 0, 3, 8)) + struct.pack("<8I", *few)
        for slots in (0, 3, 4, 8, 22, 255)
    ]
    tables = [
        struct.pack("<8Bi", 3, 1, 7, slots, size, 0, 0, 9, count)
        + struct.pack("<19I", *coupons)
        + bytes(4 * (32 - 19) + more)
        for slots in (8, 12)
        for size, count, more in (
            (3, 19, 0),
            (0, 0x3500000B, 0),
            (3, 19, -40),
            (4, 25, 128),
            (5, 19, 0),
            (0, -1, 0),
        )
    ]
    twice = [*coupons[:18], *coupons[:6], *[0] * 8]
    tables.append(struct.pack("<8Bi32I", 3, 1, 7, 12, 5, 0, 0, 9, 24, *twice))
    tables += [struct.pack("<8Bi", 3, 1, 7, 8, 5, 0, 0, mode, 0) + bytes(128) for mode in (9, 13)]
    some = struct.pack("<10I", *coupons[:5], *[0] * 5)
    tables.append(struct.pack("<8Bi", 3, 1, 7, 8, 5, 8, 0, 9, 10) + some)
    lists.append(bytes((2, 1, 7, 8, 3, 0, 0, 12)) + bytes(32))
    sums = struct.pack("<8Bdddii", 10, 1, 7, 8, 0, 0x30, 0, 6, 200.0, 50.0, 0.0, 3, 0)
    lacking = struct.pack("<8Bdddii", 10, 1, 7, 8, 0, 8, 0, 2, 200.0, 50.0, 0.0, 3, 2)
    lacking += b"\x11" * 128
    lists += [
        lacking,
        lacking + struct.pack("<I", coupons[0]),
        lacking[:40] + b"\xff" * 136,
        lacking[:36] + b"\xff" * 132,
    ]
    registers = [sums + bytes(number % 200 for number in range(193))]
    pairs = [
        (a, b) for a in lists + tables + registers for b in (lists[3], tables[0], registers[0])
    ]
    table = pa.table(dict(zip("ab", zip(*pairs, strict=True), strict=True)))
    expressions = ["hll_sketch_estimate(a)", "hll_union(a, b, true)", "hll_union(a, a)"]
    assert_parity(spark, table, expressions, ansi=[True])
