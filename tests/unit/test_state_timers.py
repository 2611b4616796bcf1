"""Timers, time to live and late rows of ``transformWithState``, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

import pytest
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

from engine.errors import TransformError
from tests.custom_states import Task, processor_step

ACTS = "k string, do string, at long"
TOLD = "k string, told string"


class Acting(StatefulProcessor):
    """Does to its timers what rows say, and tells what it hears."""

    def init(self, handle: Any) -> None:
        self.handle = handle

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for row in rows:
            if row.do == "set":
                self.handle.registerTimer(row.at)
            elif row.do == "delete":
                self.handle.deleteTimer(row.at)
            elif row.do == "list":
                yield Row(k=key[0], told=f"has {list(self.handle.listTimers())}")
            else:
                now = timerValues.getCurrentProcessingTimeInMs()
                yield Row(k=key[0], told=f"{now} {timerValues.getCurrentWatermarkInMs()}")

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:
        at = expiredTimerInfo.getExpiryTimeInMs()
        assert at in list(self.handle.listTimers())  # it is there until this returns
        if at % 10 == 7:  # again, and one that is past already
            self.handle.registerTimer(at)
            self.handle.registerTimer(at - 1)
        now = timerValues.getCurrentProcessingTimeInMs()
        yield Row(k=key.k, told=f"{at} at {now} {timerValues.getCurrentWatermarkInMs()}")


def acting(time_mode: str) -> Task:
    return Task(processor_step(Acting(), ACTS, TOLD, time_mode=time_mode))


def test_timers_of_processing_time() -> None:
    task = acting("ProcessingTime")
    rows = [("a", "set", 300), ("b", "set", 200), ("a", "set", 100), ("a", "set", 301)]
    assert task.epoch(rows, at_ms=50) == []
    assert task.rows("$procTimers") == [("a", 100), ("a", 300), ("a", 301), ("b", 200)]
    assert task.epoch(at_ms=99) == []
    assert task.clock.due_ms == 100
    # Without rows; those that are due, the earliest first, and the moment itself counts.
    assert task.epoch(at_ms=300) == [
        ("a", "100 at 300 0"),
        ("b", "200 at 300 0"),
        ("a", "300 at 300 0"),
    ]
    assert task.clock.due_ms == 301
    task = task.restarted()
    assert task.epoch([("a", "list", 0)], at_ms=300) == [("a", "has [301]")]
    assert task.clock.due_ms == 301
    assert task.epoch([("a", "delete", 301), ("a", "delete", 5)], at_ms=400) == []
    assert task.rows("$procTimers") == []
    assert task.clock.due_ms is None


def test_rows_come_before_timers() -> None:
    task = acting("ProcessingTime")
    task.epoch([("a", "set", 100)], at_ms=50)
    assert task.epoch([("a", "tell", 0)], at_ms=200) == [("a", "200 0"), ("a", "100 at 200 0")]


def test_a_timer_may_set_others() -> None:
    task = acting("ProcessingTime")
    task.epoch([("a", "set", 17)], at_ms=5)
    # Registered again before it is deleted: it is gone. The other one is past: in the next epoch.
    assert task.epoch(at_ms=20) == [("a", "17 at 20 0")]
    assert task.rows("$procTimers") == [("a", 16)]
    assert task.restarted().epoch(at_ms=21) == [("a", "16 at 21 0")]


def test_timers_of_event_time() -> None:
    task = acting("EventTime")
    assert task.epoch([("a", "set", 100), ("b", "set", 250)], at_ms=7, watermark_ms=99) == []
    assert task.epoch([("a", "tell", 0)], at_ms=8, watermark_ms=100) == [
        ("a", "8 99"),
        ("a", "100 at 8 100"),
    ]
    # A timer that was past when it was set fires with the watermark that its row saw.
    rows = [("a", "set", 50), ("a", "set", 200)]
    assert task.epoch(rows, at_ms=9, watermark_ms=260) == [
        ("a", "50 at 9 100"),
        ("a", "200 at 9 260"),
        ("b", "250 at 9 260"),
    ]
    assert task.rows("$eventTimers") == []


def test_without_time_there_are_no_times() -> None:
    task = acting("None")
    assert task.epoch([("a", "tell", 0)], at_ms=9) == [("a", "-1 -1")]
    assert [table.name for table in task.stage.tables] == []


def test_results_of_many_timers_come_some_at_a_time() -> None:
    task = acting("ProcessingTime")
    count = 5_000
    task.epoch([("a", "set", at + 1) for at in range(count)])
    task.clock.opened_ms = count
    results = list(task.stage(iter(())))
    assert sum(result.num_rows for result in results) == count
    assert max(result.num_rows for result in results) <= count // 2
    found = [row for result in results for row in result.column(1).to_pylist()]
    assert [int(told.partition(" ")[0]) for told in found] == [at + 1 for at in range(count)]


@pytest.mark.parametrize("do", ["set", "delete"])
@pytest.mark.parametrize("at", [2**63, -(2**63) - 1])
def test_a_time_that_no_timer_can_have(do: str, at: int) -> None:
    task = acting("ProcessingTime")
    step = processor_step(Beyond(do, at), ACTS, TOLD, time_mode="ProcessingTime")
    with pytest.raises(TransformError, match=f"Beyond failed.*Value out of range: {at}"):
        Task(step).epoch([("a", "", 0)])
    task.epoch([("a", "set", 2**63 - 1), ("a", "set", -(2**63))], at_ms=-(2**63))
    assert task.rows("$procTimers") == [("a", 2**63 - 1)]


class Beyond(StatefulProcessor):
    def __init__(self, do: str, at: int) -> None:
        self.do, self.at = do, at

    def init(self, handle: Any) -> None:
        self.handle = handle

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        (self.handle.registerTimer if self.do == "set" else self.handle.deleteTimer)(self.at)
        return iter(())


class Lasting(StatefulProcessor):
    """A value that lives for as long as can be told."""

    def init(self, handle: Any) -> None:
        self.last = handle.getValueState("last", "n long", 2**63 - 1)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        yield Row(k=key[0], told=str(self.last.get()))
        self.last.update((1,))


def test_a_value_that_lives_for_ever() -> None:
    task = Task(processor_step(Lasting(), ACTS, TOLD, time_mode="ProcessingTime"))
    assert task.epoch([("a", "", 0)], at_ms=1_700_000_000_000) == [("a", "None")]
    task = task.restarted()
    assert task.epoch([("a", "", 0)], at_ms=1_800_000_000_000) == [("a", "(1,)")]


class Living(StatefulProcessor):
    """Values that live for 100 ms."""

    def init(self, handle: Any) -> None:
        self.last = handle.getValueState("last", "n long", 100)
        self.items = handle.getListState("items", "n long", 100)
        self.entries = handle.getMapState("entries", "n long", "n long", 100)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for row in rows:
            if row.do == "put":
                self.last.update((row.at,))
                self.items.appendValue((row.at,))
                self.entries.updateValue((row.at,), (row.at,))
            else:
                items = [n for (n,) in self.items.get()]
                keys = sorted(n for ((n,), _) in self.entries.iterator())
                exist = [each.exists() for each in (self.last, self.items, self.entries)]
                told = f"{self.last.get()} {items} {keys}"
                assert exist == [self.last.get() is not None, bool(items), bool(keys)]
                yield Row(k=key[0], told=told)


def test_values_live_for_a_time() -> None:
    task = Task(processor_step(Living(), ACTS, TOLD, time_mode="ProcessingTime"))
    task.epoch([("a", "put", 1)], at_ms=1000)
    task.epoch([("a", "put", 2)], at_ms=1050)
    look = [("a", "look", 0)]
    assert task.epoch(look, at_ms=1099) == [("a", "(2,) [1, 2] [1, 2]")]
    task = task.restarted()
    # It is gone when its time has come; and so is its row, at the end of that epoch.
    assert task.epoch(look, at_ms=1100) == [("a", "(2,) [2] [2]")]
    assert task.rows("items") == [("a", 1, {"n": 2}, 1150)]
    assert task.rows("entries") == [("a", {"n": 2}, {"n": 2}, 1150)]
    assert task.rows("last") == [("a", {"n": 2}, 1150)]
    task.epoch([("a", "put", 3)], at_ms=1149)
    assert task.epoch(look, at_ms=1160) == [("a", "(3,) [3] [3]")]
    task = task.restarted(whole=True)
    assert task.epoch(at_ms=1249) == []
    assert all(task.rows(name) == [] for name in ("items", "entries", "last"))
    assert task.epoch(look, at_ms=1250) == [("a", "None [] []")]


class Late(StatefulProcessor):
    def init(self, handle: Any) -> None:
        pass

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for row in rows:
            yield Row(k=key[0], t=row.t)


def at(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, timezone.utc)


@pytest.mark.parametrize(("time_mode", "late"), [("EventTime", 2), ("ProcessingTime", 0)])
def test_late_rows(time_mode: str, late: int) -> None:
    columns = "k string, t timestamp"
    task = Task(processor_step(Late(), columns, columns, time_mode=time_mode, event_time=1))
    task.epoch([("a", at(100))], watermark_ms=90_000)
    rows = [("a", at(89)), ("a", at(91)), ("a", None), ("a", at(90))]
    found = task.epoch(rows)
    assert len(found) == len(rows) - late
    assert task.clock.late == ({"custom": late} if late else {})
    assert ("a", at(91)) in found


def test_results_have_to_be_behind_the_watermark() -> None:
    columns = "k string, t timestamp"
    step = processor_step(Late(), columns, columns, time_mode="ProcessingTime", emitted_time=1)
    task = Task(step)
    task.epoch([("a", at(100))], watermark_ms=90_000)
    task.epoch([("a", at(91)), ("a", None)])
    with pytest.raises(TransformError, match="EMITTING_ROWS_OLDER_THAN_WATERMARK_NOT_ALLOWED"):
        task.epoch([("a", at(90))])
