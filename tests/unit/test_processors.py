"""Processors of ``transformWithState`` in a stage, without Spark: values, lists, maps, restarts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

from engine.errors import ConfigError, TransformError
from tests.custom_states import GROUPS, Task, arrow, groups_of, processor_step

EVENTS = "k string, v long"
COUNTS = "k string, n long"


class Counting(StatefulProcessor):
    """How many rows a key has had."""

    def init(self, handle: Any) -> None:
        self.count = handle.getValueState("count", "n long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        (before,) = self.count.get() or (0,)
        total = before + len(list(rows))
        self.count.update((total,))
        yield Row(k=key[0], n=total)


class CountingFrames(Counting):
    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        (before,) = self.count.get() or (0,)
        total = before + sum(len(frame) for frame in rows)
        self.count.update((total,))
        yield pd.DataFrame({"k": [key[0]], "n": [total]})


@pytest.fixture(params=["rows", "pandas"])
def counting(request: pytest.FixtureRequest) -> Task:
    in_pandas = request.param == "pandas"
    processor = CountingFrames() if in_pandas else Counting()
    return Task(processor_step(processor, EVENTS, COUNTS, in_pandas=in_pandas))


def test_each_key_is_called_once_for_a_batch(counting: Task) -> None:
    assert counting.epoch([("a", 1), ("b", 2), ("a", 3)], [("a", 4)]) == [
        ("a", 2),
        ("b", 1),
        ("a", 3),
    ]
    assert counting.epoch() == []
    assert counting.epoch([("b", 5)]) == [("b", 2)]


@pytest.mark.parametrize("whole", [False, True])
def test_a_restart_goes_on_from_the_snapshots(counting: Task, whole: bool) -> None:
    counting.epoch([("a", 1), ("b", 2), ("a", 3)])
    counting.epoch([("a", 4)])
    again = counting.restarted(whole=whole)
    assert again.rows("count") == [("a", {"n": 3}), ("b", {"n": 1})]
    assert again.epoch([("a", 5), ("c", 6)]) == [("a", 4), ("c", 1)]


def test_what_has_not_changed_is_not_written(counting: Task) -> None:
    counting.epoch([("a", 1), ("b", 2)])
    counting.state.clear()
    counting.epoch([("b", 3)])
    assert counting.rows("count") == [("b", {"n": 2})]
    counting.state.clear()
    counting.epoch()
    assert counting.state == {}


def test_keys_move_with_their_groups(counting: Task) -> None:
    keys = [f"k{number}" for number in range(50)]
    counting.epoch([(key, 0) for key in keys])
    half = GROUPS // 2
    for owned in (range(half), range(half, GROUPS)):
        mine = [key for key in keys if groups_of([pa.array([key])], 1)[0] in owned]
        state = {
            "count": {
                place: row
                for place, row in counting.state["count"].items()
                if row["#group"] in owned
            }
        }
        task = Task(counting.step, owned, state=state)
        assert task.epoch([(key, 1) for key in mine]) == [(key, 2) for key in mine]


def test_a_null_key_is_a_key(counting: Task) -> None:
    assert counting.epoch([(None, 1), ("a", 1), (None, 2)]) == [(None, 2), ("a", 1)]
    assert counting.restarted().epoch([(None, 3)]) == [(None, 3)]


class Remembering(StatefulProcessor):
    """Does to a list and to a map what its rows say, and returns what they hold."""

    def init(self, handle: Any) -> None:
        self.items = handle.getListState("items", "v long")
        self.entries = handle.getMapState("entries", "name string, part long", "v long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for row in rows:
            getattr(self, row.do)(row.v)
        items = [value for (value,) in self.items.get()]
        entries = sorted((k, v) for k, v in self.entries.iterator())
        assert self.items.exists() == bool(items)
        assert self.entries.exists() == bool(entries)
        assert sorted(self.entries.keys()) == [k for k, _ in entries]
        assert sorted(self.entries.values()) == sorted(v for _, v in entries)
        yield Row(k=key[0], shown=repr((items, entries)))

    def append(self, value: int) -> None:
        self.items.appendValue((value,))

    def extend(self, value: int) -> None:
        self.items.appendList([(value,), (value + 1,)])

    def replace(self, value: int) -> None:
        self.items.put([(value,)])

    def clear(self, value: int) -> None:
        self.items.clear()

    def enter(self, value: int) -> None:
        known = self.entries.getValue(("x", value))
        assert self.entries.containsKey(("x", value)) == (known is not None)
        self.entries.updateValue(("x", value), (value * 10,))
        assert self.entries.getValue(("x", value)) == Row(v=value * 10)

    def leave(self, value: int) -> None:
        self.entries.removeKey(("x", value))

    def forget(self, value: int) -> None:
        self.entries.clear()


def shown(items: list[int], parts: list[int]) -> str:
    return repr((items, [(("x", part), (part * 10,)) for part in parts]))


def test_lists_and_maps() -> None:
    task = Task(
        processor_step(Remembering(), "k string, do string, v long", "k string, shown string")
    )
    story = [
        ([("a", "append", 1), ("a", "extend", 5)], shown([1, 5, 6], [])),
        ([("a", "enter", 2), ("a", "enter", 1)], shown([1, 5, 6], [1, 2])),
        ([("a", "replace", 9), ("a", "leave", 2), ("a", "leave", 7)], shown([9], [1])),
        ([("a", "clear", 0), ("a", "append", 3), ("a", "append", 4)], shown([3, 4], [1])),
        ([("a", "forget", 0), ("a", "enter", 3)], shown([3, 4], [3])),
    ]
    for rows, expected in story:
        assert task.epoch(rows) == [("a", expected)]
        task = task.restarted(whole=expected.startswith("([9"))
    assert task.rows("items") == [("a", 0, {"v": 3}), ("a", 1, {"v": 4})]
    assert task.rows("entries") == [("a", {"name": "x", "part": 3}, {"v": 30})]


class Lives(Counting):
    """Tells of its own life."""

    log: ClassVar[list[str]] = []

    def init(self, handle: Any) -> None:
        super().init(handle)
        self.log.append("init")

    def close(self) -> None:
        self.log.append("close")


def test_an_instance_lives_for_an_epoch_with_rows() -> None:
    task = Task(processor_step(Lives(), EVENTS, COUNTS))
    Lives.log.clear()
    task.epoch([("a", 1)], [("b", 1)])
    assert Lives.log == ["init", "close"]
    task.epoch()
    assert Lives.log == ["init", "close"]
    task.epoch([("a", 1)])
    assert Lives.log == ["init", "close"] * 2


class Unsteady(StatefulProcessor):
    """Declares something else each time."""

    calls = 0

    def init(self, handle: Any) -> None:
        Unsteady.calls += 1
        handle.getValueState(f"count{Unsteady.calls}", "n long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        yield from ()


def test_init_has_to_declare_the_same_everywhere() -> None:
    task = Task(processor_step(Unsteady(), EVENTS, COUNTS))
    with pytest.raises(ConfigError, match="declares the state variable count2 in another way"):
        task.epoch([("a", 1)])


class Misbehaving(StatefulProcessor):
    def init(self, handle: Any) -> None:
        self.handle = handle
        self.items = handle.getListState("items", "v long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        (row,) = rows
        return getattr(self, row.do)()

    def empty_list(self) -> None:
        self.items.put([])

    def timer(self) -> None:
        self.handle.registerTimer(1)

    def late_variable(self) -> None:
        self.handle.getValueState("other", "v long")

    def nothing(self) -> None:
        return None

    def stop(self) -> None:
        raise StopIteration

    def wide(self) -> None:
        self.items.appendValue((1, 2))

    def fires(self) -> Any:
        self.handle.registerTimer(0)
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:
        raise KeyError(key[0])

    def at_the_end(self) -> Any:
        self.close = self.items.clear  # type: ignore[method-assign]
        return iter(())


@pytest.mark.parametrize(
    ("does", "error"),
    [
        ("empty_list", r"\[ILLEGAL_STATE_STORE_VALUE.EMPTY_LIST_VALUE\]"),
        ("timer", r"operation=register_timer with invalid timeMode=None"),
        ("late_variable", r"operation=get_value_state with invalid handle state=INITIALIZED"),
        ("nothing", "'NoneType' object is not iterable"),
        ("stop", "StopIteration"),
        ("wide", "1 fields are required while 2 values are provided"),
        ("at_the_end", "Implicit key not found"),
    ],
)
def test_what_a_processor_may_not_do(does: str, error: str) -> None:
    task = Task(processor_step(Misbehaving(), "k string, do string", COUNTS))
    with pytest.raises(TransformError, match=error):
        task.epoch([("a", does)])


def test_an_error_names_the_class_the_line_and_the_key() -> None:
    task = Task(processor_step(Misbehaving(), "k string, do string", COUNTS))
    place = (
        r"Misbehaving failed in empty_list \(test_proc.*\), called for the key k='b': .*EMPTY_LIST"
    )
    with pytest.raises(TransformError, match=place):
        task.epoch([("a", "at_the_end"), ("b", "empty_list"), ("c", "nothing")])


def test_an_error_of_a_timer_names_the_key() -> None:
    step = processor_step(Misbehaving(), "k string, do string", COUNTS, time_mode="ProcessingTime")
    place = r"failed in handleExpiredTimer \(.*\), called for the key k='a': KeyError: 'a'"
    with pytest.raises(TransformError, match=place):
        Task(step).epoch([("a", "fires"), ("b", "at_the_end")])


def test_an_error_shows_a_part_of_a_long_key() -> None:
    task = Task(processor_step(Misbehaving(), "k string, do string", COUNTS))
    with pytest.raises(TransformError, match=r"the key k='x{197}\.\.\.: TypeError"):
        task.epoch([("x" * 300, "nothing")])


def test_an_error_of_init_and_of_close_names_no_key() -> None:
    task = Task(processor_step(Misbehaving(), "k string, do string", COUNTS))
    with pytest.raises(TransformError, match=r"Misbehaving failed: .*Implicit key not found"):
        task.epoch([("a", "at_the_end")])


class Declaring(StatefulProcessor):
    def __init__(self, declare: Any) -> None:
        self.declare = declare

    def init(self, handle: Any) -> None:
        self.declare(handle)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        yield from ()


@pytest.mark.parametrize(
    ("declare", "time_mode", "error"),
    [
        (
            lambda h: (h.getValueState("v", "n long"), h.getListState("v", "n long")),
            "None",
            "DUPLICATE_STATE_VARIABLE_DEFINED",
        ),
        (lambda h: h.getValueState("v", "n long", 5), "None", "INCORRECT_TIME_MODE_TO_ASSIGN_TTL"),
        (lambda h: h.getMapState("v", "n long", "n long", 5), "EventTime", "timeMode=EventTime"),
        (lambda h: h.getValueState("v", "n long", -5), "ProcessingTime", "MUST_BE_POSITIVE"),
        (lambda h: h.registerTimer(5), "ProcessingTime", "invalid handle state=PRE_INIT"),
        (lambda h: h.getValueState("v", "n long").exists(), "None", "handle state=PRE_INIT"),
        (lambda h: h.getListState("v", "n long").put([(1,)]), "None", "handle state=PRE_INIT"),
    ],
)
def test_what_spark_refuses_to_declare(declare: Any, time_mode: str, error: str) -> None:
    with pytest.raises(PySparkRuntimeError, match=error):
        processor_step(Declaring(declare), EVENTS, COUNTS, time_mode=time_mode)


def test_a_deleted_variable_is_not_restored() -> None:
    step = processor_step(Declaring(lambda h: h.deleteIfExists("old")), EVENTS, COUNTS)
    task = Task(step)
    assert task.stage.dropped == {"old", "$initialState"}
    task.epoch([("a", 1)])


class Starting(Counting):
    """Begins to count where the initial state says."""

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        (before,) = self.count.get() or (0,)
        values = initialState.n if isinstance(initialState, Row) else int(initialState["n"].sum())
        self.count.update((before + values,))


class StartingFrames(Starting, CountingFrames):
    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        return CountingFrames.handleInputRows(self, key, rows, timerValues)


@pytest.mark.parametrize("in_pandas", [False, True])
def test_the_initial_state_is_applied_once(in_pandas: bool) -> None:
    rows = [{"k": "a", "n": 10}, {"k": "b", "n": 20}, {"k": "a", "n": 5}]
    initial = pa.Table.from_pylist(rows, schema=arrow(COUNTS))
    processor = StartingFrames() if in_pandas else Starting()
    step = processor_step(processor, EVENTS, COUNTS, in_pandas=in_pandas, initial=initial)
    task = Task(step)
    assert task.epoch([("a", 1), ("c", 1)]) == [("a", 16), ("c", 1)]
    assert task.epoch([("b", 1)]) == [("b", 21)]
    again = task.restarted(whole=True)
    assert again.epoch([("a", 1)]) == [("a", 17)]
    assert len(again.rows("$initialState")) == GROUPS

    # Left out later, nobody misses it; with it again, or for the first time, nothing begins anew.
    without = processor_step(processor, EVENTS, COUNTS, in_pandas=in_pandas)
    assert again.restarted(whole=True, step=without).epoch([("a", 1)]) == [("a", 18)]
    task = Task(without)
    task.epoch([("c", 1)])
    later = task.restarted(step=step)
    assert later.epoch([("a", 1), ("c", 1)]) == [("a", 1), ("c", 2)]
    assert later.restarted(whole=True).epoch([("b", 1)]) == [("b", 1)]

    half = range(GROUPS // 2)
    owned = Task(step, half)
    owned.epoch()
    mine = [k for k in "ab" if groups_of([pa.array([k])], 1)[0] in half]
    assert [row[0] for row in owned.rows("count")] == mine
