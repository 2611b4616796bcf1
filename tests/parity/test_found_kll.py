"""What the oracle has found in KLL sketches, most of them damaged."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.spark.expressions import assert_parity

pytestmark = pytest.mark.spark


def test_bytes_of_another_kll_sketch(spark: SparkSession) -> None:
    """Their levels are not ascending, nor are the least and the largest value what they say."""
    one = "05010f00080008000300000000000000080001000500000059f3f8c21f6ea581000000c8298c674159f3f8c2"
    levels = "05010f02080008000c00000000000000080002000300000006000000"
    values = np.array([-9, 9, 5, -1, 2, 7, -3, 6], "<f4")
    two = bytes.fromhex(levels) + values.tobytes() + np.array([np.nan, 4, 4, 0], "<f4").tobytes()
    table = pa.table({"sketch": [bytes.fromhex(one), two, two[:28] + two[32:]]})
    at = ", ".join(f"float({value})" for value in (-200000, -9, -3, -1, 0, 2, 4.5, 5, 6, 7, 8, 9))
    expressions = [f"kll_sketch_get_rank_float(sketch, array({at}))"]
    expressions += ["kll_sketch_get_quantile_float(sketch, array(0D, 0.2D, 0.4D, 0.6D, 0.8D, 1D))"]
    assert_parity(spark, table, [*expressions, "kll_sketch_get_n_float(sketch)"])


def test_kll_whose_levels_are_elsewhere(spark: SparkSession) -> None:
    """What is cut off behind the numbers where three levels begin, with other bytes behind it."""
    head = bytes.fromhex("05010f0208000800070000000000000008000300150000001600000000000000")
    cut = [head[:-4] + number.to_bytes(4, "little", signed=True) for number in (-33423337, 22, 25)]
    made = [each + np.arange(1.0, 40.0).tobytes() for each in cut]
    of = ("double", "bigint")
    expressions = [f"kll_sketch_get_quantile_{each}(b, array(0.1D, 0.5D, 1D))" for each in of]
    expressions += ["kll_sketch_get_rank_double(b, 2D)", "kll_sketch_get_n_double(b)"]
    expressions += ["kll_sketch_to_string_double(b)", "length(kll_sketch_merge_double(b, b)) > 0"]
    assert_parity(spark, pa.table({"b": made}), expressions)


def test_kll_sketches_that_can_be_added_to_and_have_no_room(spark: SparkSession) -> None:
    """The last level of these says itself where it ends: within 8 values, or 16 of two levels."""
    ends = [[5, 8], [5, 9], [5, 7], [5, 4], [9, 12, 16], [9, 12, 17]]
    table = pa.table({"b": [_that_can_be_added_to(levels, "<f4") for levels in ends]})
    expressions = ["kll_sketch_get_quantile_float(b, 0.5D)", "kll_sketch_get_rank_float(b, 2.5F)"]
    expressions += ["kll_sketch_get_n_float(b)", "kll_sketch_to_string_float(b)"]
    assert_parity(spark, table, [*expressions, "length(kll_sketch_merge_float(b, b)) > 0"])


@pytest.mark.parametrize("of", ["bigint", "float", "double"])
def test_kll_whose_levels_end_before_they_begin(spark: SparkSession, of: str) -> None:
    """The last one, or one in the middle; some begin or end before all values, or have none."""
    dtype = {"bigint": "<i8", "float": "<f4", "double": "<f8"}[of]
    falling = [[5, 4], [7, 0], [9, 8], [5, -1], [-1, -2], [5, 7, 4], [9, 12, 8], [5, 16, 4]]
    rising = [[5, 3, 4], [9, 4, 8], [2, 12, 2], [-1, 5], [5, 3, 4, 8], [6, 9, 2, 4], [7, 8, 3, 9]]
    damaged = [
        _that_can_be_added_to(levels, dtype, n, is_sorted=is_sorted)
        for levels in falling + rising
        for n, is_sorted in ((3, True), (3, False), (1, True), (0, True))
    ]
    shorter = [(each, 16 + 4 * each[18]) for each in damaged]  # do not say where the last ends
    cut_off = [b"\5\1" + each[2 : at + 4] + each[at + 8 :] for each, at in shorter]
    whole = [[5, 8], [4, 8, 12, 16], [0, 8], [0, 8, 16]]
    others = [_that_can_be_added_to(levels, dtype, 20) for levels in whole]
    others += [bytes.fromhex("02010f0108000800"), bytes.fromhex("02020f0008000800") + bytes(8)]
    pairs = [(each, each) for each in damaged + cut_off]
    pairs += [(each, other) for each in damaged for other in others]
    pairs += [(other, each) for each in damaged for other in others]
    merged = f"kll_sketch_merge_{of}(a, b)"
    expressions = [f"kll_sketch_to_string_{of}({merged})", f"substring({merged}, 1, 20)"]
    table = pa.table(dict(zip("ab", zip(*pairs, strict=True), strict=True)))
    assert_parity(spark, table, [*expressions, f"length({merged})"], ansi=[True])
    expressions = [f"kll_sketch_get_quantile_{of}(b, array(0D, 0.3D, 0.5D, 1D))"]
    expressions += [f"kll_sketch_get_rank_{of}(b, cast(2 AS {of}))", f"kll_sketch_get_n_{of}(b)"]
    expressions += [f"kll_sketch_to_string_{of}(b)"]
    overlapping = [[0, 11, 25, 6, 40, 40], [0, 17, 21, 9, 40, 40]]  # what merges keep is chance
    read = damaged + cut_off + [_that_can_be_added_to(levels, dtype) for levels in overlapping]
    assert_parity(spark, pa.table({"b": read}), expressions, ansi=[True])


def _that_can_be_added_to(
    levels: list[int], dtype: str, n: int = 3, *, is_sorted: bool = True
) -> bytes:
    """One whose levels begin there, and end at the last of these; with values 1 to 40."""
    head = bytes([5, 3, 15, 2 * is_sorted, 8, 0, 8, 0]) + n.to_bytes(8, "little")
    head += bytes([8, 0, len(levels) - 1, 0]) + np.array(levels, "<i4").tobytes()
    return head + np.array([1, 3, *range(1, 41)], dtype).tobytes()


def test_kll_without_levels(spark: SparkSession) -> None:
    head = bytes.fromhex("05010f0008000800") + (1).to_bytes(8, "little") + b"\x08\x00\x00\x00"
    table = pa.table({"b": pa.array([head + bytes(16), head + bytes(80)], pa.binary())})
    assert_parity(spark, table, ["kll_sketch_get_quantile_bigint(b, 0.5D)"])


@pytest.mark.parametrize("of", ["float", "double"])
def test_kll_with_nan_is_merged(spark: SparkSession, of: str) -> None:
    """As the least value of one, and as a value for which there is no room."""
    dtype = {"float": "<f4", "double": "<f8"}[of]
    size = np.dtype(dtype).itemsize
    whole = _that_can_be_added_to([5, 8], dtype)
    least = whole[:28] + np.array([np.nan], dtype).tobytes() + whole[28 + size :]
    full = _that_can_be_added_to([0, 8], dtype)
    values = np.array([1, 1, 1, 1, 1, np.nan, 1, 1], dtype).tobytes()
    within = full[: 28 + 2 * size] + values + full[28 + 10 * size :]
    pairs = [(whole, least), (least, whole), (least, least), (whole, full), (whole, within)]
    pairs += [(within, whole), (least, within), (within, least)]
    largest = [
        each[: 28 + size] + least[28 : 28 + size] + each[28 + 2 * size :] for each in (whole, full)
    ]
    pairs += [(each, other) for each in largest for other in (whole, full, within)]
    table = pa.table(dict(zip("ab", zip(*pairs, strict=True), strict=True)))
    expressions = [f"kll_sketch_to_string_{of}(kll_sketch_merge_{of}(a, b))"]
    assert_parity(spark, table, expressions)


def test_kll_whose_values_begin_before_all_numbers(spark: SparkSession) -> None:
    """How many values there are, and bytes of them, is more than 32 bits count."""
    starts = (-(2**31), -(2**31) + 6, -(2**30), -(2**29), -(2**28) + 1, -5, 2**31 - 1)
    sketches = [_that_can_be_added_to([start, 8], "<i8") for start in starts]
    expressions = ["kll_sketch_to_string_bigint(b)", "kll_sketch_get_n_bigint(b)"]
    assert_parity(spark, pa.table({"b": sketches}), expressions)


def test_ranks_in_kll_sketches_of_more_values_than_doubles_count(spark: SparkSession) -> None:
    sketches = [_that_can_be_added_to([5, 8], "<f8", 0xFF << 48 | n) for n in (43, 1, 77, 1001)]
    expressions = ["kll_sketch_get_rank_double(b, array(1D, 2D, 4D, 40D))"]
    assert_parity(spark, pa.table({"b": sketches}), expressions)


def test_kll_sketches_whose_least_k_is_0(spark: SparkSession) -> None:
    whole = _that_can_be_added_to([5, 8], "<f8")
    several = _that_can_be_added_to([4, 8, 12, 16], "<f8", 20)
    sketches = [each[:16] + bytes(2) + each[18:] for each in (whole, several)]
    expressions = ["kll_sketch_to_string_double(b)"]
    expressions += ["kll_sketch_to_string_double(kll_sketch_merge_double(b, b))"]
    assert_parity(spark, pa.table({"b": sketches}), expressions)
