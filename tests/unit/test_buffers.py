"""NumPy's view of Arrow columns."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from engine.expressions.buffers import LONG, chosen, is_ascii, null_elsewhere, true_positions
from engine.expressions.vectors import from_numpy, to_numpy


@pytest.mark.parametrize("texts", [[], [None], ["", "a"], ["~\x7f", None], [""]])
def test_ascii(texts: list[str | None]) -> None:
    assert is_ascii(pa.array(texts, pa.string()))


def test_a_slice_is_looked_at_alone() -> None:
    texts = pa.array(["é", "a", None, "b", "ü"])
    assert not is_ascii(texts)
    assert is_ascii(texts.slice(1, 3))
    assert is_ascii(texts.slice(2, 0))
    assert not is_ascii(texts.slice(3))


@pytest.mark.parametrize("start", [0, 1, 8, 13, 1_200])
@pytest.mark.parametrize("values", [[True, False], [True, None, False], [False], [True] * 9])
def test_where_a_mask_is_true(values: list[bool | None], start: int) -> None:
    mask = pa.array((values * LONG)[: 2 * LONG + 3]).slice(start)
    chosen = [row for row, value in enumerate(mask.to_pylist()) if value]
    assert true_positions(mask).to_pylist() == chosen
    assert true_positions(mask.slice(0, 5)).to_pylist() == [row for row in chosen if row < 5]


@pytest.mark.parametrize("dtype", [pa.int8(), pa.int32(), pa.int64(), pa.float32(), pa.float64()])
def test_values_are_chosen(dtype: pa.DataType) -> None:
    left = pa.array([1, 2, None, -4, 5, None] * LONG, dtype)
    right = pa.array([-1, None, 7, 0, None] * (6 * LONG // 5), dtype)
    mask = pa.array([True, False, False, True, True, False, True] * LONG).slice(3, 6 * LONG)
    scalars = [pa.scalar(3, dtype), pa.scalar(None, dtype)]
    whole = pa.array(range(100), dtype).take(pa.array([9, 0, 3] * (2 * LONG)))
    for one in (left, right, whole, *scalars):
        for other in (left, right, whole, *scalars):
            result = chosen(mask, one, other)
            result.validate(full=True)
            assert result.equals(pc.if_else(mask, one, other))


@pytest.mark.parametrize("start", [0, 1, 8, 13])
@pytest.mark.parametrize("dtype", [pa.int8(), pa.int64(), pa.float32(), pa.float64()])
def test_to_numpy_and_back(dtype: pa.DataType, start: int) -> None:
    array = pa.array([1, None, -3, 4, None] * 4, dtype).slice(start)
    values, valid = to_numpy(array)
    assert values.tolist() == [value or 0 for value in array.to_pylist()]
    assert valid.tolist() == [value is not None for value in array.to_pylist()]
    result = from_numpy(values, valid, dtype)
    result.validate(full=True)
    assert result.equals(array)


@pytest.mark.parametrize(
    "values",
    [[1, None, 3, 4], ["a", None, "", "d"], [True, None, False, True], [[1], None, [], [2]]],
)
def test_values_that_do_not_count(values: list[object]) -> None:
    mask = [True, True, False, True, False]
    array, chosen = pa.array([*values, values[0]]), pa.array(mask)
    for part, of_part in ((array, chosen), (array.slice(1), chosen.slice(1))):
        result = null_elsewhere(part, of_part)
        result.validate(full=True)
        pairs = zip(part.to_pylist(), of_part.to_pylist(), strict=True)
        assert result.to_pylist() == [value if counts else None for value, counts in pairs]
