"""Grouping over epochs, against dictionaries."""

from __future__ import annotations

import math
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.expressions.registry import Context
from engine.expressions.tree import Expr
from engine.pipeline.pipeline import IDLE
from engine.pipeline.stateful import Aggregate, GroupRows, PartGroup
from engine.state.aggregates.distinct_counts import register_bits
from engine.state.aggregates.functions import state_fields
from engine.state.contract import EventClock, StatefulStage
from engine.task import folds, partial_grouping
from engine.task.grouping import grouping_stage
from engine.task.partial_grouping import PartialGrouping
from tests.gathered import changes_of
from tests.unit.stateful_stages import GROUPS, Tasks, column

TIME = pa.timestamp("us", "UTC")
WINDOW = pa.struct([("start", TIME), ("end", TIME)])
ROWS = pa.schema([("window", WINDOW), ("key", pa.string()), ("value", pa.int64())])
AGGREGATES = (
    Aggregate("Count", (), pa.int64()),
    Aggregate("Sum", (column(ROWS, "value"),), pa.int64(), "ANSI"),
    Aggregate("Last", (column(ROWS, "value"),), pa.int64()),
    Aggregate(
        "Count", (), pa.int64(), condition=Expr("IsNotNull", (column(ROWS, "value"),), pa.bool_())
    ),
)
RESULTS = pa.schema(
    [
        *list(ROWS)[:2],
        ("count", pa.int64()),
        ("sum", pa.int64()),
        ("last", pa.int64()),
        ("known", pa.int64()),
    ]
)
NAMES = RESULTS.names[2:]
PARTIAL = pa.schema(
    [
        *list(ROWS)[:2],
        *(f for a, name in zip(AGGREGATES, NAMES, strict=True) for f in state_fields(a, name)),
    ]
)
Row = tuple[int | None, str | None, int | None]
EPOCHS = st.lists(
    st.tuples(
        st.lists(
            st.lists(
                st.tuples(
                    st.none() | st.integers(0, 4),
                    st.none() | st.sampled_from(["", "a", "ä", "\0", "long " * 9]),
                    st.none() | st.integers(-5, 5),
                ),
                max_size=12,
            ),
            max_size=3,
        ),
        st.integers(0, 2),  # how far the watermark comes
        st.none() | st.integers(1, 4),  # a restart with so many tasks
    ),
    max_size=6,
)


def step(mode: str, is_partial: bool = False) -> GroupRows:
    return GroupRows("g", (0, 1), AGGREGATES, RESULTS, mode, 0, is_partial)


def batch_of(rows: list[Row]) -> pa.RecordBatch:
    """Windows of ten seconds."""
    return pa.RecordBatch.from_pylist(
        [
            {
                "window": None
                if number is None
                else {"start": number * 10_000_000, "end": (number + 1) * 10_000_000},
                "key": key,
                "value": value,
            }
            for number, key, value in rows
        ],
        schema=ROWS,
    )


def seconds(row: dict[str, Any]) -> tuple[Any, ...]:
    window, *others = row.values()
    return (None if window is None else int(window["start"].timestamp()) // 10, *others)


class Model:
    """What Spark does."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.groups: dict[tuple[Any, ...], list[Row]] = {}
        self.watermark = self.late = 0

    def result(self, key: tuple[Any, ...]) -> tuple[Any, ...]:
        values = [value for _, _, value in self.groups[key]]
        known = [value for value in values if value is not None]
        return (*key, len(values), sum(known) if known else None, values[-1], len(known))

    def epoch(self, batches: list[list[Row]], watermark: int) -> list[tuple[Any, ...]]:
        told = []
        for rows in batches:
            touched = []
            for row in rows:
                end = math.inf if row[0] is None else row[0] * 10 + 10
                if self.mode != "complete" and end <= self.watermark:
                    self.late += 1
                    continue
                self.groups.setdefault(row[:2], []).append(row)
                touched.append(row[:2])
            if self.mode == "update":
                told += [self.result(key) for key in dict.fromkeys(touched)]
        self.watermark = watermark
        if self.mode == "complete":
            return [self.result(key) for key in self.groups] if any(batches) else []
        for key in [k for k in self.groups if k[0] is not None and k[0] * 10 + 10 <= watermark]:
            if self.mode == "append":
                told.append(self.result(key))
            del self.groups[key]
        return told


def make(mode: str, is_partial: bool = False) -> Any:
    def stage(clock: EventClock) -> StatefulStage:
        return grouping_stage(step(mode, is_partial), clock, Context(), GROUPS)

    return stage


@pytest.mark.parametrize("mode", ["append", "update", "complete"])
@settings(deadline=None, max_examples=50)
@given(epochs=EPOCHS)
def test_as_the_model(mode: str, epochs: list[Any]) -> None:
    tasks, model = Tasks(make(mode), (0, 1), 2), Model(mode)
    watermark = 0
    for batches, step_s, restart in epochs:
        watermark += step_s * 10
        told = tasks.epoch([batch_of(rows) for rows in batches], watermark * 1000)
        assert sorted(map(seconds, told), key=repr) == sorted(
            model.epoch(batches, watermark), key=repr
        )
        if restart is not None:
            tasks.restart(restart)
    assert tasks.clock.late.get("g", 0) == model.late
    tasks.whole()


@pytest.mark.parametrize("mode", ["append", "complete"])
@pytest.mark.parametrize("tried_from", [0, 10**9])
@settings(deadline=None, max_examples=50)
@given(epochs=EPOCHS)
def test_in_front_of_the_exchange_rows_may_be_folded(
    mode: str, tried_from: int, epochs: list[Any]
) -> None:
    part = PartialGrouping(PartGroup((0, 1), AGGREGATES, PARTIAL), Context())
    tasks, model = Tasks(make(mode, is_partial=True), (0, 1), 2), Model(mode)
    watermark = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partial_grouping, "ROWS_MIN", tried_from)
        for batches, step_s, _ in epochs:
            watermark += step_s * 10
            folded = list(part(iter([batch_of(rows) for rows in batches])))
            told = tasks.epoch(folded, watermark * 1000)
            assert sorted(map(seconds, told), key=repr) == sorted(
                model.epoch(batches, watermark), key=repr
            )


def test_large_batches_are_folded_while_it_pays() -> None:
    part = PartialGrouping(PartGroup((0, 1), AGGREGATES, PARTIAL), Context())
    few = batch_of([(number % 2, "k", 1) for number in range(5_000)])
    many = batch_of([(0, str(number), 1) for number in range(5_000)])
    small = few.slice(0, 10)

    def rows(batch: pa.RecordBatch) -> int:
        (result,) = part(iter([batch]))
        assert sum(result.column(2).to_pylist()) == batch.num_rows
        return int(result.num_rows)

    assert rows(few) == rows(few) == 2
    assert rows(small) == 10
    assert [rows(many) for _ in range(8)] == [5_000] * 8
    tries = [rows(few) for _ in range(200)]
    assert tries[-1] == 2
    assert tries.count(5_000) < 64
    assert list(part(iter([IDLE]))) == [IDLE]


def test_states_that_are_wide_leave_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folds, "BYTES", 4_000 << register_bits(0.05))
    value = (column(ROWS, "value"),)
    params = {"relative_sd": 0.05, "threshold": 400.0}
    distinct = Aggregate("HyperLogLogPlusPlus", value, pa.int64(), params=params)
    schema = pa.schema([*list(ROWS)[:2], ("registers", pa.binary())])
    part = PartialGrouping(PartGroup((0, 1), (distinct,), schema), Context())
    many = batch_of([(0, str(number), 1) for number in range(9_000)])
    for _ in range(2):  # the second one is not tried
        told = list(part(iter([many, IDLE])))
        assert told.pop() is IDLE
        assert [batch.num_rows for batch in told] == [4_000, 4_000, 1_000]
        keys = [key for batch in told for key in batch.column("key").to_pylist()]
        assert keys == many.column("key").to_pylist()
    assert part._keys.room <= 16_384, "of each key ever seen there would be a state"
    assert [batch.num_rows for batch in part(iter([many.slice(0, 0)]))] == [0]


KEYS: list[tuple[pa.DataType, list[Any], list[Any]]] = [
    (pa.float64(), [0.0, -0.0, math.nan, -math.nan, None, 1.0], [0.0, math.nan, None, 1.0]),
    (pa.decimal128(20, 2), [Decimal("1.10"), None], [Decimal("1.10"), None]),
    (
        pa.struct([("a", pa.float32()), ("b", pa.string())]),
        [{"a": -0.0, "b": None}, {"a": 0.0, "b": None}, None, {"a": None, "b": None}],
        [{"a": 0.0, "b": None}, None, {"a": None, "b": None}],
    ),
    (pa.list_(pa.string()), [["a"], [], [None], None, ["a"]], [["a"], [], [None], None]),
    (pa.date32(), [0, None, 3], [datetime(1970, 1, 1).date(), None, datetime(1970, 1, 4).date()]),
    (pa.bool_(), [True, False, None], [True, False, None]),
    (pa.binary(), [b"\xff", b"", None], [b"\xff", b"", None]),
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "values", "kept"), KEYS, ids=lambda each: str(each)[:20])
def test_keys_of_any_type(dtype: pa.DataType, values: list[Any], kept: list[Any]) -> None:
    schema = pa.schema([("k", dtype), ("n", pa.int64())])
    grouped = GroupRows("g", (0,), AGGREGATES[:1], schema, "complete")
    tasks = Tasks(lambda clock: grouping_stage(grouped, clock, Context(), GROUPS), (0,), 3)
    batch = pa.RecordBatch.from_arrays([pa.array(values, dtype)], names=["k"])
    for epoch in (1, 2, 3):
        told = tasks.epoch([batch])
        assert sorted(repr(row["k"]) for row in told) == sorted(map(repr, kept))
        assert sum(row["n"] for row in told) == epoch * len(values)
        tasks.restart(epoch)
    tasks.whole()


@pytest.mark.parametrize("mode", ["update", "complete"])
def test_without_keys_there_is_one_group_which_the_first_epoch_tells_of(mode: str) -> None:
    schema = pa.schema([("n", pa.int64()), ("s", pa.int64())])
    total = Aggregate("Sum", (column(ROWS, "value"),), pa.int64())
    grouped = GroupRows("g", (), (AGGREGATES[0], total), schema, mode)
    tasks = Tasks(lambda clock: grouping_stage(grouped, clock, Context(), GROUPS), ())
    assert tasks.epoch([]) == [{"n": 0, "s": None}]
    tasks.restart(1)
    assert tasks.epoch([]) == []
    batch = batch_of([(0, "a", 5), (0, "b", 6)])
    assert tasks.epoch([batch, batch])[-1] == {"n": 4, "s": 22}
    tasks.restart(1)
    assert tasks.epoch([batch])[-1] == {"n": 6, "s": 33}
    tasks.whole()


def test_times_as_keys_close_as_well() -> None:
    schema = pa.schema([("t", TIME), ("n", pa.int64())])
    grouped = GroupRows("g", (0,), AGGREGATES[:1], schema, "append", 0)
    tasks = Tasks(lambda clock: grouping_stage(grouped, clock, Context(), GROUPS), (0,))
    batch = pa.RecordBatch.from_pydict({"t": pa.array([1_000_000, 2_000_001, None], TIME)})
    assert tasks.epoch([batch], 1_000) == [
        {"t": datetime(1970, 1, 1, 0, 0, 1, tzinfo=timezone.utc), "n": 1}
    ]
    assert [row["n"] for row in tasks.epoch([batch], 10_000)] == [2]
    assert tasks.clock.late == {"g": 1}
    tasks.restart(2)
    assert tasks.epoch([], 20_000) == []
    assert len(tasks.stored["groups"]) == 1  # NULL stays for ever


def test_idle_passes() -> None:
    stage = make("update")(EventClock())
    assert list(stage(iter([IDLE, batch_of([]), IDLE]))) == [IDLE, IDLE]


def test_a_snapshot_is_of_its_epoch() -> None:
    """What comes later does not show in it."""
    tasks = Tasks(make("update"), (0, 1))
    tasks.epoch([batch_of([(0, "a", 1)])])
    (stage,) = tasks.stages
    table = changes_of(stage, whole=True)["groups"]
    before = table.to_pylist()
    tasks.epoch([batch_of([(0, "a", 1), (0, "b", 2)])])
    assert table.to_pylist() == before
