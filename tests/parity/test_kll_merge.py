"""``kll_sketch_merge_*`` beside Spark's: all bytes where no level is halved, else what chance does
not decide."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.expressions.sketches.kll_merging import merged, write_kll
from engine.expressions.sketches.kll_sketches import KllSketch, read_kll
from tests.parity import sketches
from tests.spark.expressions import assert_parity

_VALUES = {
    "bigint": ("q", [*range(-3, 40), 2**63 - 1, -(2**63)]),
    "double": ("d", [-0.0, 0.0, 0.1, -1.5, 1e300, float("inf"), *map(float, range(2, 30))]),
    "float": ("f", [-0.0, 0.0, 0.5, -1.5, float("-inf"), *map(float, range(2, 30))]),
}
_ROWS = 150


def _drawn(of: str, seed: int, *, few: bool) -> list[bytes | None]:
    form, values = _VALUES[of]
    rng = random.Random(seed)
    draw = sketches.sketches(sketches.kll(form, values, few=few), (0, 1, 2, 6))
    return [draw(rng) for _ in range(_ROWS)]


@pytest.mark.spark
@pytest.mark.parametrize("of", _VALUES)
def test_as_spark(spark: SparkSession, of: str) -> None:
    table = pa.table(
        {
            name: pa.array(_drawn(of, seed, few=name.startswith("few")), pa.binary())
            for seed, name in enumerate(("a", "b", "few_a", "few_b"))
        }
    )
    full, few = (f"kll_sketch_merge_{of}({pair})" for pair in ("a, b", "few_a, few_b"))
    certain = [f"kll_sketch_get_n_{of}({full})", f"length({full})", f"substring({full}, 1, 20)"]
    certain += [f"kll_sketch_get_quantile_{of}({full}, array(0D, 1D))"]
    assert_parity(spark, table, [few, f"kll_sketch_to_string_{of}({full})", *certain])


def _weights(sketch: KllSketch) -> list[int]:
    return [size << level for level, size in enumerate(b - a for a, b in pairwise(sketch.levels))]


@pytest.mark.parametrize("of", _VALUES)
def test_what_a_merge_keeps(of: str) -> None:
    """Each value stands for as many as before, levels are ascending and not too full."""
    dtype = f"<{'i' if of == 'bigint' else 'f'}{4 if of == 'float' else 8}"
    rng = random.Random(of)
    draw = sketches.kll(*_VALUES[of])
    for _ in range(200):
        left, right = (read_kll(draw(rng), dtype) for _ in range(2))
        both = merged(left, right)
        again = read_kll(write_kll(both), dtype)
        assert both.n == left.n + right.n == again.n == sum(_weights(both))
        assert set(both.items.tolist()) <= {*left.items.tolist(), *right.items.tolist()}
        assert np.array_equal(again.items, both.items)
        for start, end in list(pairwise(both.levels))[1:]:
            level = both.items[start - both.levels[0] : end - both.levels[0]]
            assert (level[:-1] <= level[1:]).all()
