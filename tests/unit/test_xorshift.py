"""Spark's generator, against values that Spark has documented and against itself."""

from __future__ import annotations

import numpy as np
import pytest

from engine.expressions.numbers.xorshift import XorShiftRandom, _next


def test_the_values_of_spark() -> None:
    assert XorShiftRandom(0).doubles(1)[0] == 0.7604953758285915
    assert XorShiftRandom(0).normals(1)[0] == 1.6034991609278433


@pytest.mark.parametrize("count", [0, 1, 255, 256, 257, 1000])
def test_many_at_once_are_those_one_after_the_other(count: int) -> None:
    generator = XorShiftRandom(-5)
    state, low = generator._state, []
    for _ in range(count):
        state = _next(state)
        low.append(state & 0xFFFFFFFF)
    assert generator.ints(count).view(np.uint32).tolist() == low
    assert generator._state == state


@pytest.mark.parametrize("draw", ["ints", "doubles", "normals"])
def test_draws_go_on_where_the_ones_before_have_ended(draw: str) -> None:
    whole = getattr(XorShiftRandom(42), draw)(1111).tolist()
    generator, parts = XorShiftRandom(42), []
    for count in (1, 0, 2, 3, 301, 1, 1, 500, 302):
        parts += getattr(generator, draw)(count).tolist()
    assert parts == whole
