"""Ranks are in Spark's order, in all depths."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.expressions.lists import Lists
from engine.expressions.logic.ranks import common_ranks, is_orderable, normalized, ranks

_DOUBLES = st.sampled_from([None, 0.0, -0.0, 1.5, -1.5, math.nan, math.inf, -math.inf])
_LISTS = st.one_of(st.none(), st.lists(_DOUBLES, max_size=3))
_STRUCTS = st.one_of(st.none(), st.fixed_dictionaries({"x": _DOUBLES, "y": _LISTS}))
_DTYPE = pa.list_(pa.struct([("x", pa.float64()), ("y", pa.list_(pa.float64()))]))


def _key(value: Any) -> Any:
    """What Python sorts as Spark does."""
    if value is None:
        return (0,)
    if isinstance(value, dict):
        return (1, (_key(value["x"]), _key(value["y"])))
    if isinstance(value, list):
        return (1, tuple(_key(item) for item in value))
    return (2,) if math.isnan(value) else (1, value)


@settings(deadline=None)
@given(st.lists(st.one_of(st.none(), st.lists(_STRUCTS, max_size=3)), max_size=12))
def test_the_order_of_nested_values(values: list[Any]) -> None:
    keys = [_key(value) for value in values]
    known = sorted({key for key in keys if key != (0,)})
    expected = [0 if key == (0,) else known.index(key) + 1 for key in keys]
    # A slice of a longer array is the harder case.
    array = pa.array([[], *values, None], _DTYPE).slice(1, len(values))
    assert ranks(array).tolist() == expected


@settings(deadline=None)
@given(st.lists(_LISTS, min_size=1, max_size=8), st.integers(0, 8))
def test_columns_apart_are_compared_as_one(values: list[Any], at: int) -> None:
    array = pa.array(values, pa.list_(pa.float64()))
    parts = common_ranks(array.slice(0, at), array.slice(at))
    assert np.concatenate(parts).tolist() == ranks(array).tolist()


def test_signed_zeros() -> None:
    zeros = pa.array([0.0, -0.0, None])
    assert ranks(zeros).tolist() == [1, 1, 0]
    assert ranks(zeros, signed_zeros=True).tolist() == [2, 1, 0]
    assert str(normalized(pa.array([[-0.0, None]])).to_pylist()) == "[[0.0, None]]"


@pytest.mark.parametrize(
    ("dtype", "orderable"),
    [(_DTYPE, True), (pa.map_(pa.string(), pa.int32()), False), (pa.binary(), True)],
)
def test_maps_have_no_order(dtype: pa.DataType, orderable: bool) -> None:
    assert is_orderable(dtype) is orderable
    assert is_orderable(pa.list_(dtype)) is orderable


def test_nulls_with_items_have_none() -> None:
    offsets, items = pa.array([0, 2, 3], pa.int32()), pa.array([1, 2, 3])
    array = pa.ListArray.from_arrays(offsets, items, mask=pa.array([True, False]))
    lists = Lists.of(array)
    assert lists.items.to_pylist() == [3]
    assert lists.lengths.tolist() == [0, 1]


@settings(deadline=None)
@given(st.lists(_LISTS, max_size=8), st.integers(0, 3))
def test_lists_are_put_together_again(values: list[Any], cut: int) -> None:
    array = pa.array(values, pa.list_(pa.float64())).slice(cut)
    again = Lists.of(array).array(array.type)
    again.validate(full=True)
    assert again.equals(array) or str(again.to_pylist()) == str(array.to_pylist())
