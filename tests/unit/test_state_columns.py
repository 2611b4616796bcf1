"""Columns by slot, against dictionaries."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import StateTooLargeError
from engine.expressions.types import YEAR_MONTH_INTERVAL
from engine.state.columns import _RowsColumn, column_of

STRUCT = pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])
SAMPLES: dict[pa.DataType, list[Any]] = {
    pa.int64(): [1, -(2**63), 2**63 - 1],
    pa.int8(): [1, -1],
    pa.float32(): [1.5, -0.0],
    pa.bool_(): [True, False],
    pa.date32(): [0, 20000],
    pa.timestamp("us", "UTC"): [0, 1],
    pa.duration("us"): [5],
    pa.decimal128(38, 2): [Decimal("-1.50"), Decimal(10) ** 30],
    pa.string(): ["", "x", "ÿ" * 50],
    pa.binary(): [b"", b"\xff"],
    pa.list_(pa.int64()): [[], [1, None]],
    pa.map_(pa.string(), pa.int64()): [[("a", 1)], []],
    STRUCT: [{"a": 1, "b": ["x"]}, {"a": None, "b": None}],
    YEAR_MONTH_INTERVAL: [pa.MonthDayNano([3, 0, 0])],
    pa.null(): [],
}
PUTS = st.lists(st.dictionaries(st.integers(0, 15), st.integers(-1, 2), max_size=9), max_size=9)


@pytest.mark.parametrize("dtype", SAMPLES, ids=str)
@settings(deadline=None)
@given(puts=PUTS, cleared=st.sets(st.integers(0, 15)))
def test_as_a_dictionary(dtype: pa.DataType, puts: list[dict[int, int]], cleared: set[int]) -> None:
    values = pa.array([*SAMPLES[dtype], None], dtype)
    column, model = column_of(dtype), dict[int, Any]()
    column.grow(4)
    column.grow(16)
    for put in puts:
        rows = [number % len(values) for number in put.values()]
        taken = values.take(pa.array(rows, pa.int64()))
        column.put(
            np.array(list(put), np.int64), pa.concat_arrays([values, taken]).slice(len(values))
        )
        model.update(zip(put, taken.to_pylist(), strict=True))
    slots = np.array([*range(16), 3, 3], np.int64)
    assert column.take(slots).to_pylist() == [model.get(slot) for slot in slots.tolist()]
    assert column.take(slots).type == dtype
    column.take(slots).validate(full=True)
    column.clear(np.array(sorted(cleared), np.int64))
    expected = [None if slot in cleared else model.get(slot) for slot in range(16)]
    assert column.take(np.arange(16)).to_pylist() == expected
    assert column.is_valid(np.arange(16)).tolist() == [each is not None for each in expected]
    assert len(column.take(np.empty(0, np.int64))) == 0


def test_what_is_overwritten_is_not_kept() -> None:
    column = column_of(pa.string())
    column.grow(10)
    before = pa.total_allocated_bytes()
    for number in range(2_000):
        column.put(np.arange(10), pa.array([f"{number} " * 100] * 10))
    assert pa.total_allocated_bytes() - before < 20_000_000
    assert column.take(np.arange(2)).to_pylist() == ["1999 " * 100] * 2


def test_more_than_arrow_can_count_is_told() -> None:
    items = 1 << 30  # of no size
    column = column_of(pa.list_(pa.null()))
    column.grow(2)
    for slot in range(2):
        value = pa.ListArray.from_arrays(pa.array([0, items], pa.int32()), pa.nulls(items))
        column.put(np.array([slot]), value)
    with pytest.raises(StateTooLargeError, match="2\\*\\*31 bytes"):
        column.take(np.array([0, 1]))


def test_keys_that_only_come_are_never_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    column = column_of(pa.string())
    column.grow(1 << 14)
    texts = pa.array([f"key {slot}" for slot in range(1 << 14)])
    with monkeypatch.context() as patched:
        patched.setattr("engine.state.columns.taken", None)
        for start in range(0, 1 << 14, 1_000):
            part = texts.slice(start, 1_000)
            column.put(np.arange(start, start + len(part)), part)
    assert column.take(np.arange(1 << 14)) == texts


@pytest.mark.parametrize("share", [1, 20])
def test_what_no_slot_remembers_goes_when_it_is_much(share: int) -> None:
    column = column_of(pa.string())
    assert isinstance(column, _RowsColumn)
    column.grow(20_000)
    for turn in range(40):
        slots = np.arange(20_000)[turn % share :: share] if turn else np.arange(20_000)
        column.put(slots, pa.array([f"{turn} {slot}" for slot in slots]))
    newest = {slot: turn for turn in range(40) for slot in range(turn % share, 20_000, share)}
    assert column.take(np.arange(20_000)).to_pylist() == [
        f"{newest[slot]} {slot}" for slot in range(20_000)
    ]
    assert len(column._older) + sum(map(len, column._newer)) < 3 * 20_000
