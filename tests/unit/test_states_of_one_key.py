"""Aggregates of a key that has many states, as it has where the task that keeps it is behind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from engine.state.aggregates.functions import fold_of
from tests.unit.test_grouped_aggregates import DOUBLE, aggregate


@pytest.mark.parametrize("function", ["StddevSamp", "Corr"])
def test_a_key_with_many_states_takes_few_rounds(
    function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    what = aggregate(function, [DOUBLE, DOUBLE][: 1 + (function == "Corr")], DOUBLE)
    random = np.random.default_rng(7)
    slots = random.integers(0, 3, 5_000)
    slots[1_000:] = 1
    each, counts = fold_of(what), []
    each.grow(5_000)
    values = [pa.array(random.normal(50, 3, 5_000)) for _ in what.arguments]
    each.update(np.arange(5_000), values)
    merged = type(each)._merged

    def counted(self: Any, left: Any, right: Any) -> Any:
        counts.append(len(left[0]))
        return merged(self, left, right)

    monkeypatch.setattr(type(each), "_merged", counted)
    together, expected = fold_of(what), fold_of(what)
    together.grow(3)
    together.merge(slots, each.states(np.arange(5_000)))
    assert len(counts) <= 14
    assert sum(counts) <= 5_000 + 3
    expected.grow(3)
    expected.update(slots, values)
    some = np.arange(3)
    assert together.results(some).to_pylist() == pytest.approx(expected.results(some).to_pylist())
