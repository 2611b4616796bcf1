"""Sessions over epochs, against lists."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.expressions.registry import Context
from engine.pipeline.pipeline import IDLE
from engine.pipeline.stateful import Aggregate, GroupSessions
from engine.state.aggregates.distinct_counts import DistinctCount, register_bits
from engine.state.contract import EventClock, StatefulStage
from engine.task import folds
from engine.task.session_grouping import session_stage
from tests.unit.stateful_stages import GROUPS, Tasks, column

TIME = pa.timestamp("us", "UTC")
SESSION = pa.struct([("start", TIME), ("end", TIME)])
ROWS = pa.schema([("key", pa.string()), ("session", SESSION), ("value", pa.int64())])
VALUE = column(ROWS, "value")
AGGREGATES = (
    Aggregate("Count", (VALUE,), pa.int64()),
    Aggregate("Sum", (VALUE,), pa.int64()),
    Aggregate("CollectList", (VALUE,), pa.list_(pa.field("element", pa.int64(), False))),
)
RESULTS = pa.schema(
    [
        ("session", SESSION),
        ("key", pa.string()),
        ("count", pa.int64()),
        ("sum", pa.int64()),
        ("values", AGGREGATES[2].dtype),
    ]
)
Row = tuple[str | None, int, int, int | None]  # key, start, length, value
EPOCHS = st.lists(
    st.tuples(
        st.lists(
            st.lists(
                st.tuples(
                    st.none() | st.sampled_from(["a", "b"]),
                    st.integers(0, 40),
                    st.sampled_from([1, 3, 3, 3, 10]),
                    st.none() | st.integers(-5, 5),
                ),
                max_size=10,
            ),
            max_size=3,
        ),
        st.integers(0, 15),  # how far the watermark comes
        st.none() | st.integers(1, 3),  # a restart with so many tasks
    ),
    max_size=6,
)


def make(mode: str, has_watermark: bool = True) -> Any:
    step = GroupSessions("s", (0,), 1, AGGREGATES, (1, 0), RESULTS, mode, has_watermark)

    def stage(clock: EventClock) -> StatefulStage:
        return session_stage(step, clock, Context(), GROUPS)

    return stage


def batch_of(rows: list[Row]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [
            {
                "key": key,
                "session": {"start": start * 1_000_000, "end": (start + length) * 1_000_000},
                "value": value,
            }
            for key, start, length, value in rows
        ],
        schema=ROWS,
    )


def plain(row: dict[str, Any]) -> tuple[Any, ...]:
    session = row["session"]
    bounds = int(session["start"].timestamp()), int(session["end"].timestamp())
    return (row["key"], *bounds, row["count"], row["sum"], row["values"])


class Model:
    """What Spark does, a key after the other."""

    def __init__(self, mode: str, has_watermark: bool) -> None:
        self.closes = has_watermark and mode == "append"
        self.mode = mode
        self.sessions: dict[Any, list[tuple[int, int, list[int | None]]]] = {}
        self.watermark = self.late = 0

    def epoch(self, batches: list[list[Row]], watermark: int) -> list[tuple[Any, ...]]:
        for rows in batches:
            for key, start, length, value in rows:
                if self.closes and start + length <= self.watermark:
                    self.late += 1
                    continue
                self.sessions.setdefault(key, []).append((start, start + length, [value]))
            for key in self.sessions:
                self.sessions[key] = self.merged(self.sessions[key])
        told, self.watermark = [], watermark
        for key, sessions in self.sessions.items():
            for start, end, values in list(sessions):
                if self.mode == "complete" and any(batches):
                    told.append(self.result(key, start, end, values))
                if self.closes and end <= watermark:
                    told.append(self.result(key, start, end, values))
                    sessions.remove((start, end, values))
        return told

    @staticmethod
    def merged(
        sessions: list[tuple[int, int, list[int | None]]],
    ) -> list[tuple[int, int, list[int | None]]]:
        result: list[tuple[int, int, list[int | None]]] = []
        for start, end, values in sorted(sessions, key=lambda each: each[0]):
            if result and start <= result[-1][1]:
                last = result.pop()
                result.append((last[0], max(last[1], end), last[2] + values))
            else:
                result.append((start, end, values))
        return result

    @staticmethod
    def result(key: Any, start: int, end: int, values: list[int | None]) -> tuple[Any, ...]:
        known = [value for value in values if value is not None]
        return key, start, end, len(known), sum(known) if known else None, known


@pytest.mark.parametrize(
    ("mode", "has_watermark"), [("append", True), ("complete", True), ("complete", False)]
)
@settings(deadline=None, max_examples=50)
@given(epochs=EPOCHS)
def test_as_the_model(mode: str, has_watermark: bool, epochs: list[Any]) -> None:
    tasks, model = Tasks(make(mode, has_watermark), (0,), 2), Model(mode, has_watermark)
    watermark = 0
    for batches, step_s, restart in epochs:
        watermark += step_s
        told = tasks.epoch([batch_of(rows) for rows in batches], watermark * 1000)
        expected = model.epoch(batches, watermark)
        assert sorted(map(plain, told), key=repr) == sorted(expected, key=repr)
        if restart is not None:
            tasks.restart(restart)
    assert tasks.clock.late.get("s", 0) == model.late
    tasks.whole()


def test_sessions_that_touch_are_one() -> None:
    tasks = Tasks(make("append"), (0,))
    assert tasks.epoch([batch_of([("a", 0, 5, 1), ("a", 5, 5, 2), ("a", 11, 5, 3)])], 0) == []
    assert list(map(plain, tasks.epoch([], 10_000))) == [("a", 0, 10, 2, 3, [1, 2])]
    assert len(tasks.stored["sessions"]) == 1
    tasks.epoch([batch_of([("a", 6, 5, 4)])], 10_000)  # is not late, and joins the third
    assert list(map(plain, tasks.epoch([], 20_000))) == [("a", 6, 16, 2, 7, [4, 3])]
    assert tasks.stored["sessions"] == {}


def test_a_session_that_begins_earlier_now_takes_the_place_of_the_one_before() -> None:
    tasks = Tasks(make("append"), (0,))
    tasks.epoch([batch_of([("a", 10, 5, 1)])])
    tasks.epoch([batch_of([("a", 7, 5, 2)])])
    assert [row["#gone"] for row in tasks.stored["sessions"].values()] == [False]
    (row,) = tasks.stored["sessions"].values()
    assert row["session_start"].timestamp() == 7
    assert row["session_end"].timestamp() == 15


def test_idle_passes() -> None:
    stage = make("append")(EventClock())
    assert list(stage(iter([IDLE, batch_of([]), IDLE]))) == [IDLE, IDLE]


def test_many_keys_come_and_go() -> None:
    tasks = Tasks(make("append"), (0,), 2)
    for epoch in range(20):
        rows: list[Row] = [(str(number), epoch * 10, 3, number) for number in range(700)]
        told = tasks.epoch([batch_of(rows), batch_of(rows)], epoch * 10_000 + 5_000)
        assert sorted(row["sum"] for row in told) == [2 * number for number in range(700)]
    assert tasks.stored["sessions"] == {}


def test_states_that_are_wide_are_not_all_there_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = 10
    monkeypatch.setattr(folds, "BYTES", at_once << register_bits(0.01))
    seen: list[int] = []
    states = DistinctCount.states

    def counted(self: DistinctCount, slots: Any) -> Any:
        seen.append(len(slots))
        return states(self, slots)

    monkeypatch.setattr(DistinctCount, "states", counted)
    params = {"relative_sd": 0.01, "threshold": 400.0}
    distinct = Aggregate("HyperLogLogPlusPlus", (VALUE,), pa.int64(), params=params)
    results = pa.schema([*list(RESULTS)[:2], ("distinct", pa.int64())])
    step = GroupSessions("s", (0,), 1, (distinct,), (1, 0), results, "complete", False)
    stage = session_stage(step, clock := EventClock(), Context(), GROUPS)
    clock.is_filled = True
    told = [*stage(iter([batch_of([("a", n, 3, n) for n in range(95)])]))]
    assert [row["distinct"] for batch in told for row in batch.to_pylist()] == [95]
    assert max(seen) <= at_once + 1  # and the session that they touch
