"""Random stories of a processor with all kinds of state, restarts and changing numbers of tasks,
against a model that keeps everything in dictionaries."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

from tests.custom_states import GROUPS, Task, groups_of, processor_step

TTL_MS = 30
COLUMNS = "k string, do string, v long"
RETURNED = "k string, shown string"


class Everything(StatefulProcessor):
    def init(self, handle: Any) -> None:
        self.handle = handle
        self.states = {
            "value": handle.getValueState("value", "v long"),
            "items": handle.getListState("items", "v long"),
            "entries": handle.getMapState("entries", "m long", "v long"),
            "short value": handle.getValueState("short_value", "v long", TTL_MS),
            "short items": handle.getListState("short_items", "v long", TTL_MS),
            "short entries": handle.getMapState("short_entries", "m long", "v long", TTL_MS),
        }

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for row in rows:
            self.do(row.do, row.v, timerValues.getCurrentProcessingTimeInMs())
        yield Row(k=key[0], shown=self.shown())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:
        yield Row(k=key[0], shown=f"timer {expiredTimerInfo.getExpiryTimeInMs()}")

    def do(self, act: str, v: int, now: int) -> None:
        what, _, how = act.rpartition(" ")
        state: Any = self.states.get(what)
        if how == "update":
            state.update((v,))
        elif how == "append":
            state.appendValue((v,))
        elif how == "put":
            state.put([(v,), (v + 1,)])
        elif how == "enter":
            state.updateValue((v % 3,), (v,))
        elif how == "leave":
            state.removeKey((v % 3,))
        elif how == "clear":
            state.clear()
        elif how == "timer":
            self.handle.registerTimer(now + v)
        elif how == "delete":
            self.handle.deleteTimer(v)

    def shown(self) -> str:
        found = []
        for name, state in self.states.items():
            if name.endswith("value"):
                found.append(state.get())
            elif name.endswith("items"):
                found.append(list(state.get()))
            else:
                found.append(sorted(state.iterator()))
        return repr((found, list(self.handle.listTimers())))


class Model:
    """What the processor should see."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, str], tuple[int, float]] = {}
        self.items: dict[tuple[str, str], list[tuple[int, float]]] = {}
        self.entries: dict[tuple[str, str], dict[int, tuple[int, float]]] = {}
        self.timers: set[tuple[int, str]] = set()

    def do(self, key: str, act: str, v: int, now: int) -> None:
        what, _, how = act.rpartition(" ")
        place, until = (key, what), now + TTL_MS if what.startswith("short") else float("inf")
        if how == "update":
            self.values[place] = v, until
        elif how == "append":
            self.items.setdefault(place, []).append((v, until))
        elif how == "put":
            self.items[place] = [(v, until), (v + 1, until)]
        elif how == "enter":
            self.entries.setdefault(place, {})[v % 3] = v, until
        elif how == "leave":
            self.entries.get(place, {}).pop(v % 3, None)
        elif how == "clear":
            for each in (self.values, self.items, self.entries):
                each.pop(place, None)  # type: ignore[attr-defined]
        elif how == "timer":
            self.timers.add((now + v, key))
        elif how == "delete":
            self.timers.discard((v, key))

    def shown(self, key: str, now: int) -> str:
        found: list[Any] = []
        for short in ("", "short "):
            value, until = self.values.get((key, f"{short}value"), (0, 0))
            found.append((value,) if until > now else None)
            items = self.items.get((key, f"{short}items"), [])
            found.append([(v,) for v, until in items if until > now])
            entries = self.entries.get((key, f"{short}entries"), {})
            found.append(sorted(((m,), (v,)) for m, (v, until) in entries.items() if until > now))
        return repr((found, sorted(at for at, each in self.timers if each == key)))

    def fire(self, now: int) -> list[tuple[str, str]]:
        due = {each for each in self.timers if each[0] <= now}
        self.timers -= due
        return [(key, f"timer {at}") for at, key in due]


_ACTS = [
    f"{short}{what} {how}"
    for short in ("", "short ")
    for what, hows in (
        ("value", ("update", "clear")),
        ("items", ("append", "put", "clear")),
        ("entries", ("enter", "leave", "clear")),
    )
    for how in hows
]
_ROWS = st.tuples(
    st.sampled_from("abcd"),
    st.sampled_from([*_ACTS, "timer", "delete", "look"]),
    st.integers(0, 40),
)
EPOCH = st.tuples(
    st.lists(_ROWS, max_size=6),
    st.integers(0, 25),  # ms since the last one
    st.sampled_from([None, None, 1, 2, 3]),  # restarted with so many tasks
    st.booleans(),
)


@settings(max_examples=80, deadline=None)
@given(st.lists(EPOCH, max_size=12))
def test_a_story(epochs: list[Any]) -> None:
    tell(epochs)


def tell(epochs: list[Any]) -> None:
    """Play a story, and compare what the processor says."""
    step = processor_step(Everything(), COLUMNS, RETURNED, time_mode="ProcessingTime")
    tasks, model, now = _tasks(step, 1, {}), Model(), 0
    for rows, passed, restart, whole in epochs:
        now += passed
        if restart is not None:
            tasks = _tasks(step, restart, _kept(tasks, whole))
        expected = []
        for key in dict.fromkeys(row[0] for row in rows):
            for _, act, v in (row for row in rows if row[0] == key):
                model.do(key, act, v, now)
            expected.append((key, model.shown(key, now)))
        expected += model.fire(now)
        found = []
        for task in tasks:
            mine = [row for row in rows if _group(row[0]) in task.owned]
            found += task.epoch(mine, at_ms=now) if mine else task.epoch(at_ms=now)
        assert sorted(found) == sorted(expected)


def _tasks(step: Any, count: int, state: dict[str, dict[str, Any]]) -> list[Task]:
    bounds = [GROUPS * index // count for index in range(count + 1)]
    return [
        Task(
            step,
            range(start, end),
            state={
                name: {p: r for p, r in rows.items() if start <= r["#group"] < end}
                for name, rows in state.items()
            },
        )
        for start, end in pairwise(bounds)
    ]


def _kept(tasks: list[Task], whole: bool) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for task in tasks:
        for name, rows in task.restarted(whole=whole).state.items():
            found.setdefault(name, {}).update(rows)
    return found


def _group(key: str) -> int:
    return int(groups_of([pa.array([key])], 1)[0])
