"""The user's state beyond its budget is as that which is not."""

from __future__ import annotations

import json
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import ConfigError, StateTooLargeError
from engine.functions.custom_state.entries import Entries, OneEach, Several
from engine.functions.custom_state.entries_on_disk import EntriesOnDisk
from engine.functions.custom_state.kept import Lists, Maps, Values
from engine.functions.custom_state.keys import NAN, Keys
from engine.functions.custom_state.layout import Layout, StateRow
from engine.functions.custom_state.values import Codec
from engine.state.arrays import Budget, within
from engine.state.database import Database
from engine.state.scratch import Scratch
from tests.custom_states import Task, groups_of, processor_step
from tests.disks import disk_of_64k
from tests.unit import test_group_states, test_processors, test_state_model, test_state_timers
from tests.unit.little_memory import check_that_it_spills

__all__ = ["disk_of_64k"]


def nothing_in_memory(folder: Path) -> AbstractContextManager[None]:
    return within(Budget(0, Scratch(str(folder))))


@pytest.fixture(autouse=True)
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("scratch")
    with nothing_in_memory(folder):
        yield folder
    assert [*folder.iterdir()] == []


# What holds for state in memory, on the disk:
counting = test_processors.counting
test_restarts = test_processors.test_a_restart_goes_on_from_the_snapshots
test_changes = test_processors.test_what_has_not_changed_is_not_written
test_groups = test_processors.test_keys_move_with_their_groups
test_null = test_processors.test_a_null_key_is_a_key
test_kinds = test_processors.test_lists_and_maps
test_dropped = test_processors.test_a_deleted_variable_is_not_restored
test_initial = test_processors.test_the_initial_state_is_applied_once
test_timers = test_state_timers.test_timers_of_processing_time
test_timers_of_timers = test_state_timers.test_a_timer_may_set_others
test_event_timers = test_state_timers.test_timers_of_event_time
test_lives = test_state_timers.test_values_live_for_a_time
test_group_function = test_group_states.test_each_key_is_called_once_for_a_batch
test_timeouts = test_group_states.test_timeouts_of_processing_time
test_event_timeouts = test_group_states.test_timeouts_of_event_time
test_written = test_group_states.test_what_is_written


@settings(max_examples=40, deadline=None)
@given(st.lists(test_state_model.EPOCH, max_size=12))
def test_stories(epochs: list[Any]) -> None:
    with TemporaryDirectory() as folder, nothing_in_memory(Path(folder)):
        test_state_model.tell(epochs)


def test_it_is_on_the_disk() -> None:
    task = Task(processor_step(test_processors.Counting(), "k string, v long", "k string, n long"))
    (rows, *_) = task.stage._variables.values()  # type: ignore[attr-defined]
    assert isinstance(rows[0]._entries, EntriesOnDisk)


_KEYS = st.sampled_from(
    [
        (None,),
        ("",),
        ("a'\"\\\udcff\n",),
        (b"a",),
        (1,),
        (-(2**63),),
        (0.0,),
        (NAN,),
        ("t", True),
        (Decimal("1.10"),),
        ((1, None, ("x", "x")),),
        (1, "a"),
    ]
)
_ENTRIES = st.tuples(
    st.one_of(st.none(), st.tuples(st.one_of(st.none(), st.text(), st.lists(st.integers())))),
    st.one_of(st.none(), st.integers(0, 20)),
)
_ACTS = st.tuples(
    st.sampled_from(["put", "drop", "drop all", "load", "look"]), _KEYS, _KEYS, _ENTRIES
)


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(["one", "several", "ascending"]), st.lists(_ACTS, max_size=30))
def test_entries(kind: str, acts: list[tuple[str, Any, Any, Any]]) -> None:
    with TemporaryDirectory() as folder:
        _compare(Database(Scratch(folder), 0), kind, acts)


def _compare(database: Database, kind: str, acts: list[tuple[str, Any, Any, Any]]) -> None:
    ascend = kind == "ascending"
    both: tuple[Entries, Entries] = (
        OneEach() if kind == "one" else Several(ascend=ascend),
        EntriesOnDisk(database, moments=True, ascend=ascend),
    )
    for act, key, other, entry in acts:
        sub = {"one": None, "several": other, "ascending": both[0].last(key)}[kind]
        if act == "drop":
            assert both[0].drop(key, sub) == both[1].drop(key, sub)
            continue
        if act == "drop all":
            assert both[0].drop_all(key) == both[1].drop_all(key)
            sub = None if kind == "ascending" else sub
        elif ascend and act != "look":
            sub = 0 if sub is None else sub + 1
        if act == "put":
            for each in both:
                each.put(key, sub, entry)
        elif act == "load" and both[0].get(key, sub) is None:
            for each in both:
                each.load([StateRow(key, sub, *entry)])
        assert both[0].get(key, sub) == both[1].get(key, sub)
        assert both[0].of(key) == both[1].of(key)
        for after_ms in (-1, 10, 20):
            there = any(at is None or at > after_ms for _, (_, at) in both[0].of(key))
            assert [each.has(key, after_ms) for each in both] == [there, there]
        assert not ascend or both[0].last(key) == both[1].last(key)
        assert len(both[0]) == len(both[1])
        assert _plain(both[0].rows()) == _plain(both[1].rows())
        for until_ms in (3, 20):
            told = [sorted(map(repr, each.due(until_ms))) for each in both]
            assert told[0] == told[1]
            moments = [due[0] for due in both[1].due(until_ms)]
            assert moments == sorted(moments)


def _plain(rows: Iterator[StateRow]) -> list[str]:
    return sorted(map(repr, rows))


def test_rows_of_a_list_come_in_any_order(here: Path) -> None:
    database = Database(Scratch(str(here)), 0)
    for each in (Several(ascend=True), EntriesOnDisk(database, moments=False, ascend=True)):
        each.load([StateRow(("k",), place, (place,)) for place in (5, 300, -1)])
        each.load([StateRow(("k",), place, (place,)) for place in (70, 2)])
        assert [sub for sub, _ in each.of(("k",))] == [-1, 2, 5, 70, 300]
        assert each.last(("k",)) == 300
        assert each.last(("other",)) is None


def field_of(dtype: str) -> dict[str, Any]:
    return {"name": "v", "type": dtype, "nullable": True, "metadata": {}}


def layout_of(dtype: str, *, map_key: str | None = None) -> Layout:
    value = Codec(json.dumps({"type": "struct", "fields": [field_of(dtype)]}))
    keys = Keys([pa.field("k", pa.string())])
    if map_key is None:
        return Layout("rows", keys, groups_of, value=value)
    of_key = Keys(list(Codec(map_key).dtype))
    return Layout("rows", keys, groups_of, sub="map_key", sub_keys=of_key, value=value)


@dataclass
class Counting:
    """Counts how often it is read."""

    read: ClassVar[int] = 0

    def __setstate__(self, state: Any) -> None:
        Counting.read += 1

    def __getstate__(self) -> Any:
        return (1,)


@pytest.mark.parametrize("on_disk", [False, True])
def test_whether_a_list_exists_is_told_without_its_items(on_disk: bool) -> None:
    with nullcontext() if on_disk else within(None):
        lists = Lists(replace(layout_of("long"), sub="position"))
    lists.append(("a",), [(Counting(),) for _ in range(10_000)])
    Counting.read = 0
    tracemalloc.start()
    try:
        assert lists.exists(("a",))
        assert tracemalloc.get_traced_memory()[1] < 10_000
    finally:
        tracemalloc.stop()
    lists.clear(("a",))
    assert (len(lists), lists.exists(("a",))) == (0, False)
    assert Counting.read == 0
    lists.append(("a",), [(Counting(),)])
    assert [position for position, _ in lists.items(("a",))] == [0]
    assert Counting.read == on_disk


@pytest.mark.parametrize("count", [10, 1 << 10, 5_000])
def test_what_is_due_as_others_come_and_go(here: Path, count: int) -> None:
    """What is due is what was as the first was asked for."""
    for each in (Several(), EntriesOnDisk(Database(Scratch(str(here)), 0), moments=True)):
        each.load(StateRow((n,), n // 3, None, n // 3) for n in reversed(range(count)))
        assert [each.next_ms(from_ms) for from_ms in (-1, 2, count)] == [0, 2, None]
        found = []
        for at_ms, key, sub in each.due(count):
            found.append((at_ms, key, sub))
            each.drop(key, sub)
            each.drop((count - 1 - len(found),), (count - 1 - len(found)) // 3)
            each.put(key, -1, (None, -1))
        assert [at for at, _, _ in found] == [n // 3 for n in range(count)]
        assert sorted(found) == [(n // 3, (n,), n // 3) for n in range(count)]
        assert len(each) == count
        assert each.next_ms() == -1
        assert len([*each.due(count)]) == count
        for _, key, sub in each.due(count):
            each.drop(key, sub)
        assert each.next_ms() is None


def test_what_is_due_is_in_memory_a_part_at_a_time(here: Path) -> None:
    entries = EntriesOnDisk(Database(Scratch(str(here)), 0), moments=True)
    entries.load(StateRow((n,), None, None, n) for n in range(20_000))
    tracemalloc.start()
    try:
        for _, key, sub in entries.due(20_000):
            entries.drop(key, sub)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
    assert len(entries) == 0


def test_a_full_disk(disk_of_64k: Path) -> None:
    entries = EntriesOnDisk(Database(Scratch(str(disk_of_64k)), 0), moments=False)
    rows = (StateRow((number,), None, ("value" * 20,)) for number in range(100_000))
    with pytest.raises(StateTooLargeError, match=rf"{disk_of_64k}.*(full|I/O)"):
        entries.load(rows)


def test_a_full_disk_that_the_user_does_not_want_to_see(disk_of_64k: Path) -> None:
    """What was not kept is not left out of a snapshot."""
    with nothing_in_memory(disk_of_64k):
        texts = Values(layout_of("string"))
    for number in range(2_000):
        with suppress(Exception):
            texts.put((str(number),), ("value" * 20,))
    for whole in (False, True):
        with pytest.raises(StateTooLargeError, match=f"{disk_of_64k}"):
            sum(rows.num_rows for rows in texts.changes(whole=whole))


def test_a_negative_zero_is_the_same_key() -> None:
    schema = json.dumps({"type": "struct", "fields": [field_of("decimal(10,2)")]})
    maps = Maps(layout_of("long", map_key=schema))
    codec = Codec(schema)
    for number in ("-0.00", "0", "0.000"):
        maps.put(("k",), codec.take((Decimal(number),)), (1,))
    assert [repr(each) for each, _ in maps.items(("k",))] == ["(Decimal('0.00'),)"]


def test_no_folder_and_no_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"No file can be made in .*/none"):
        Database(Scratch(str(tmp_path / "none")), 0)
    monkeypatch.setitem(sys.modules, "sqlite3", None)
    with pytest.raises(ConfigError, match="was built without it"):
        Database(Scratch(str(tmp_path)), 0)
    assert [*tmp_path.iterdir()] == []


def test_little_memory(tmp_path: Path) -> None:
    """A state that does not fit it."""
    check_that_it_spills("tests.unit.spilled_custom_state", tmp_path)
