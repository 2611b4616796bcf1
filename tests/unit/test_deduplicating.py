"""Deduplication against a dictionary, with a restart after any epoch."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.exchange.key_groups import groups_of
from engine.exchange.partitioning import groups_of_rows
from engine.pipeline.pipeline import IDLE
from engine.pipeline.stateful import Deduplicate
from engine.state.contract import EventClock
from engine.task.deduplicating import DeduplicateStage
from tests.gathered import changes_of

GROUPS = 8
STAMP = pa.timestamp("us", "UTC")
SCHEMA = pa.schema(
    [("name", pa.string()), ("at", STAMP), ("score", pa.float64()), ("n", pa.int64())]
)
START = datetime(1970, 1, 1, tzinfo=timezone.utc)
Row = tuple[str | None, int | None, float | None]

KINDS = {
    "with event time": Deduplicate("dedup", (0, 1), SCHEMA, event_time=1),
    "within the watermark": Deduplicate("dedup", (0, 2), SCHEMA, event_time=1, within_us=2_000_000),
    "for ever": Deduplicate("dedup", (0,), SCHEMA),
    "for ever, without late rows": Deduplicate("dedup", (2,), SCHEMA, event_time=1),
    "of the event time alone": Deduplicate("dedup", (1,), SCHEMA, event_time=1),
}


def batch_of(rows: list[Row], first: int = 0) -> pa.RecordBatch:
    """:param first: numbers tell the rows."""
    columns = [
        [name for name, _, _ in rows],
        [None if at is None else START + timedelta(milliseconds=at) for _, at, _ in rows],
        [score for _, _, score in rows],
        list(range(first, first + len(rows))),
    ]
    arrays = [pa.array(c, t) for c, t in zip(columns, SCHEMA.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


class Model:
    """One row after the other."""

    def __init__(self, step: Deduplicate) -> None:
        self.step = step
        self.seen: dict[tuple[Any, ...], float] = {}
        self.late = 0

    def row(self, row: Row, watermark_ms: int) -> bool:
        at = row[1]
        if self.step.event_time is not None and at is not None and at <= watermark_ms:
            self.late += 1
            return False
        key = tuple(map(same, (row[key] for key in self.step.keys)))
        if key in self.seen:
            return False
        until = math.inf
        if self.step.within_us is not None:
            until = (at or 0) + self.step.within_us / 1000
        elif self.step.event_time in self.step.keys and at is not None:
            until = at
        self.seen[key] = until
        return True

    def close(self, watermark_ms: int) -> None:
        self.seen = {key: until for key, until in self.seen.items() if until > watermark_ms}


def same(value: Any) -> Any:
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


rows_ = st.lists(
    st.tuples(
        st.sampled_from([None, "", "a", "b" * 20]),
        st.sampled_from([None, 0, 1, 1_000, 2_000, 5_000, 9_000]),
        st.sampled_from([None, 0.0, -0.0, math.nan, 1.5]),
    ),
    max_size=8,
)
epochs_ = st.lists(
    st.tuples(
        st.lists(rows_, max_size=3), st.integers(0, 2_500), st.sampled_from([None, None, 1, 2, 3])
    ),
    max_size=10,
)


@pytest.mark.parametrize("kind", KINDS)
@given(history=epochs_)
@settings(max_examples=60, deadline=None)
def test_the_first_row_of_each_key(
    kind: str, history: list[tuple[list[list[Row]], int, int | None]]
) -> None:
    step = KINDS[kind]
    model, clock, tasks, number = Model(step), EventClock(), 1, 0
    stages = [DeduplicateStage(step, clock, GROUPS)]
    states: list[Any] = [None]
    for batches, moves_ms, then in history:
        expected: list[int] = []
        inputs: list[list[pa.RecordBatch]] = [[] for _ in stages]
        for rows in batches:
            for at, row in enumerate(rows):
                if model.row(row, clock.watermark_ms):
                    expected.append(number + at)
            whole = batch_of(rows, number)
            number += len(rows)
            groups = groups_of_rows([whole.column(key) for key in step.keys], len(rows), GROUPS)
            for task, into in enumerate(inputs):
                owned = groups_of(task, tasks, GROUPS)
                part = whole.filter(pa.array([int(group) in owned for group in groups], pa.bool_()))
                into += [part, IDLE]
        clock.next_watermark_ms = clock.watermark_ms + moves_ms
        got: list[int] = []
        for stage, into in zip(stages, inputs, strict=True):
            for result in stage(iter(into)):
                if result is not IDLE:
                    assert result.schema == SCHEMA
                    assert result.num_rows
                    got += result.column(3).to_pylist()
        assert sorted(got) == expected
        model.close(clock.next_watermark_ms)
        clock.watermark_ms = clock.next_watermark_ms
        for task, stage in enumerate(stages):
            found = changes_of(stage, whole=states[task] is None)
            table = found.get("keys", stage.tables[0].stored.empty_table())
            assert table.schema == stage.tables[0].stored
            groups_seen = set(table.column(0).to_pylist())
            assert groups_seen <= set(groups_of(task, tasks, GROUPS))
            states[task] = (
                table if states[task] is None else pa.concat_tables([states[task], table])
            )
        if then is not None:
            everything = alive(step, pa.concat_tables(states), clock.watermark_ms)
            assert everything.num_rows == len(model.seen)
            tasks, stages, states = then, [], [None] * then
            for task in range(tasks):
                owned = groups_of(task, tasks, GROUPS)
                mask = [group in owned for group in everything.column(0).to_pylist()]
                stages.append(DeduplicateStage(step, clock, GROUPS))
                stages[-1].restore({"keys": everything.filter(pa.array(mask, pa.bool_()))})
                assert changes_of(stages[-1], whole=False) == {}
    assert clock.late.get("dedup", 0) == model.late


def alive(step: Deduplicate, table: pa.Table, watermark_ms: int) -> pa.Table:
    """What :mod:`engine.state.merging` and the watermark leave, one row after the other."""
    last: dict[tuple[Any, ...], int] = {}
    keys = len(step.keys)
    rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    for place, row in enumerate(rows):
        last[tuple(map(same, row[2 : 2 + keys]))] = place
    stay = [
        place
        for place in last.values()
        if len(rows[place]) == 2 + keys
        or rows[place][-1] is None
        or rows[place][-1] > watermark_ms * 1000
    ]
    return table.take(pa.array(stay, pa.int64()))


def test_windows_as_event_time() -> None:
    window = pa.struct([("start", STAMP), ("end", STAMP)])
    schema = pa.schema([("window", window), ("n", pa.int64())])
    step = Deduplicate("dedup", (0,), schema, event_time=0)
    clock = EventClock(watermark_ms=1_000)
    stage = DeduplicateStage(step, clock, GROUPS)

    def run(*ends_ms: int | None) -> list[int | None]:
        windows = [
            None if end is None else {"start": START, "end": START + timedelta(milliseconds=end)}
            for end in ends_ms
        ]
        batch = pa.record_batch(
            [pa.array(windows, window), pa.array(range(len(ends_ms)), pa.int64())], schema=schema
        )
        return [n for result in stage(iter([batch])) for n in result.column(1).to_pylist()]

    clock.next_watermark_ms = 1_000
    assert run(1_000, 1_001, 2_000, 1_001, None, None) == [1, 2, 4]
    clock.next_watermark_ms = 2_000
    assert run(2_000, None) == []
    clock.watermark_ms = 2_000
    assert run(2_000, 2_001, None) == [1]
    (table,) = changes_of(stage, whole=True).values()
    assert set(table.column("#expires").to_pylist()) == {None, 2_001_000}
    assert clock.late == {"dedup": 2}


def test_many_keys_come_and_go() -> None:
    step = KINDS["with event time"]
    clock = EventClock()
    stage = DeduplicateStage(step, clock, GROUPS)

    def epochs() -> Iterator[int]:
        for epoch in range(1, 30):
            clock.next_watermark_ms = (epoch - 3) * 1_000
            rows: list[Row] = [(f"user {n}", epoch * 1_000 - n % 7, None) for n in range(500)]
            yield sum(result.num_rows for result in stage(iter([batch_of(rows), batch_of(rows)])))
            clock.watermark_ms = clock.next_watermark_ms

    assert list(epochs()) == [500] * 29
    assert 500 <= changes_of(stage, whole=True)["keys"].num_rows <= 2_000
    assert stage._keys.room <= 8_192
