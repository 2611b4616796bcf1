"""The table of keys, against a dictionary."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.exchange.hashing import Hashes
from engine.state.slot_table import SlotTable

STEPS = st.lists(st.tuples(st.booleans(), st.lists(st.integers(0, 40), max_size=30)), max_size=12)


def hashes(keys: list[int], spread: int) -> Hashes:
    """Few different lower halves of the first lane, so that keys collide in every way.

    :param spread: how many of them there are.
    """
    numbers = np.array(keys, np.uint64)
    first = numbers % np.uint64(spread)
    return np.stack([first + (numbers % np.uint64(3) << np.uint64(40)), numbers // np.uint64(2)])


@settings(deadline=None)
@given(STEPS, st.sampled_from([1, 2, 5, 1000]))
def test_as_a_dictionary(steps: list[tuple[bool, list[int]]], spread: int) -> None:
    table, model = SlotTable(), dict[tuple[int, int], int]()
    for frees, keys in steps:
        rows = hashes(keys, spread)
        names = [(int(first), int(second)) for first, second in rows.T]
        if frees:
            slots = sorted({model.pop(name) for name in set(names) if name in model})
            table.free(np.array(slots, np.int64))
            continue
        slots, added = table.find_or_add(rows)
        expected = [row for row, name in enumerate(names) if names.index(name) == row]
        assert added.tolist() == [row for row in expected if names[row] not in model]
        for name, slot in zip(names, slots.tolist(), strict=True):
            assert model.setdefault(name, slot) == slot
        assert len(set(model.values())) == len(model) == len(table)
        assert table.slots.tolist() == sorted(model.values())
        kept = np.array(list(model.values()), np.int64)
        assert [tuple(each) for each in table.hashes(kept).T.tolist()] == list(model)


@pytest.mark.parametrize("size", [10, 1_000, 50_000])
def test_it_grows_and_shrinks(size: int) -> None:
    random = np.random.default_rng(size)
    keys = random.integers(0, 1 << 63, (2, 200_000)).astype(np.uint64)
    table = SlotTable()
    seen = np.empty(200_000, np.int64)
    for start in range(0, 200_000, size)[:40]:
        part = slice(start, start + size)
        seen[part], added = table.find_or_add(keys[:, part])
        assert len(added) == len(keys[0, part])
    count = len(table)
    again, added = table.find_or_add(keys[:, :count])
    assert not len(added)
    assert (again == seen[:count]).all()
    table.free(again[::2])
    assert len(table) == count - len(again[::2])
    back, added = table.find_or_add(keys[:, :count])
    assert added.tolist() == list(range(0, count, 2))
    assert (back[1::2] == again[1::2]).all()
    assert table.room <= 2 * max(count, 512)


def test_slots_of_keys_that_come_and_go_are_used_again() -> None:
    """For ever: neither slots nor places become more."""
    table = SlotTable()
    for start in range(0, 100_000, 500):
        numbers = np.arange(start, start + 500, dtype=np.uint64)
        spread = numbers * np.uint64(0x9E3779B97F4A7C15)
        slots, added = table.find_or_add(np.stack([spread, numbers]))
        assert len(added) == 500
        table.free(slots)
    assert len(table) == 0
    assert table.room == 512


def test_room_is_made_at_once() -> None:
    table = SlotTable()
    table.reserve(10_000)
    assert table.room >= 10_000
