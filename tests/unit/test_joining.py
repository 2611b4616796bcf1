"""Joins of two streams against nested loops, with a restart after any epoch."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.checkpoint.storage.contract import Storage
from engine.exchange.hashing import hash_rows
from engine.exchange.key_groups import groups_of
from engine.exchange.partitioning import groups_of_rows
from engine.expressions.registry import Context
from engine.expressions.tree import Expr
from engine.pipeline.pipeline import IDLE
from engine.pipeline.stateful import JoinSide, JoinStreams
from engine.snapshots.handles import SnapshotHandle
from engine.state import joined_rows, pieces, snapshots
from engine.state.contract import EventClock
from engine.state.event_times import NEVER
from engine.state.joined_rows import JoinedRows
from engine.state.restoring import restore
from engine.task import pairs
from engine.task.join_conditions import split
from engine.task.joining import JoinStage
from tests.gathered import changes_of
from tests.unit.shelves import writer

GROUPS = 8
BIGINT = pa.int64()
STAMP = pa.timestamp("us", "UTC")
BOOL = pa.bool_()
START = datetime(1970, 1, 1, tzinfo=timezone.utc)
SCHEMA = pa.schema([("key", pa.string()), ("at", STAMP), ("x", BIGINT), ("n", BIGINT)])
BOTH = pa.schema([*SCHEMA, *SCHEMA])
WIDTH = len(SCHEMA)
KINDS = ("inner", "left", "right", "full", "semi")
NEITHER = (None,) * WIDTH
Row = tuple[str | None, int | None, int | None]
History = list[tuple[list[tuple[int, list[Row]]], int, int | None]]


def column(ordinal: int, dtype: pa.DataType = BIGINT) -> Expr:
    return Expr("Column", (), dtype, True, {"ordinal": ordinal, "name": f"c{ordinal}"})


def number(value: int) -> Expr:
    return Expr("Literal", (), BIGINT, False, {"value": value})


def node(op: str, *children: Expr, dtype: pa.DataType = BOOL, **params: Any) -> Expr:
    return Expr(op, children, dtype, True, params)


def plus(ordinal: int, micros: int) -> Expr:
    """An event time in microseconds, and so many more."""
    micros_of = node("UnixMicros", column(ordinal, STAMP), dtype=BIGINT)
    return node("Add", micros_of, number(micros), dtype=BIGINT, eval_mode="LEGACY")


@dataclass(frozen=True)
class Case:
    """:param bound_ms: times of matching rows differ by this at most; None: by anything.
    :param own: the left's x is positive, the right's is not 2.
    :param less: the left's x is less than the right's.
    """

    kind: str
    bound_ms: int | None = 1_500
    own: bool = False
    less: bool = False

    def step(self) -> JoinStreams:
        conditions = []
        if self.own:
            conditions.append(node("GreaterThan", column(2), number(0)))
            conditions.append(node("Not", node("EqualTo", column(WIDTH + 2), number(2))))
        if self.less:
            conditions.append(node("LessThan", column(2), column(WIDTH + 2)))
        bound = None if self.bound_ms is None else self.bound_ms * 1_000
        if bound is not None:
            for one, other in ((1, WIDTH + 1), (WIDTH + 1, 1)):
                conditions.append(node("LessThanOrEqual", plus(one, 0), plus(other, bound)))
        condition = None
        for each in conditions:
            condition = each if condition is None else node("And", condition, each)
        evicts = None if bound is None else plus(1, bound)
        side = JoinSide(SCHEMA, (0,), 1, evicts)
        schema = SCHEMA if self.kind == "semi" else BOTH
        return JoinStreams("join", self.kind, side, side, condition, schema)

    def may_match(self, side: int, row: Row) -> bool:
        if not self.own:
            return True
        x = row[2]
        return x is not None and (x > 0 if side == 0 else x != 2)

    def matches(self, left: Row, right: Row) -> bool:
        if left[0] is None or left[0] != right[0]:
            return False
        if not (self.may_match(0, left) and self.may_match(1, right)):
            return False
        if self.less and (left[2] is None or right[2] is None or not left[2] < right[2]):
            return False
        if self.bound_ms is None:
            return True
        return left[1] is not None and right[1] is not None and (
            abs(left[1] - right[1]) <= self.bound_ms
        )  # fmt: skip


class Model:
    """Every row that was ever there, compared with every other."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.kept: tuple[list[dict[str, Any]], list[dict[str, Any]]] = ([], [])
        self.late = 0

    def row(self, side: int, row: Row, n: int, watermark_ms: int) -> list[Any]:
        """What a row makes at once: pairs of numbers."""
        case, (_, at, _) = self.case, row
        if at is not None and at <= watermark_ms:
            self.late += 1
            return []
        if not case.may_match(side, row):
            return [self.alone(side, n)] if self.is_outer(side) else []
        found = [
            other
            for other in self.kept[1 - side]
            if case.matches(*((row, other["row"]) if side == 0 else (other["row"], row)))
        ]
        if case.kind == "semi":
            if side == 0:
                if found:
                    return [(n, None)]
                self.keep(side, row, n, False)
                return []
            new = [other for other in found if not other["matched"]]
            for other in new:
                other["matched"] = True
            self.keep(side, row, n, False)
            return [(other["n"], None) for other in new]
        for other in found:
            other["matched"] = True
        self.keep(side, row, n, bool(found))
        return [(n, other["n"]) if side == 0 else (other["n"], n) for other in found]

    def keep(self, side: int, row: Row, n: int, matched: bool) -> None:
        self.kept[side].append({"row": row, "n": n, "matched": matched})

    def close(self, watermark_ms: int) -> list[Any]:
        bound, results = self.case.bound_ms, []
        for side, kept in enumerate(self.kept):
            for each in list(kept):
                at = each["row"][1]
                if bound is not None and at is not None and at + bound <= watermark_ms:
                    kept.remove(each)
                    if self.is_outer(side) and not each["matched"]:
                        results.append(self.alone(side, each["n"]))
        return results

    def is_outer(self, side: int) -> bool:
        return self.case.kind in (("left", "full"), ("right", "full"))[side]

    @staticmethod
    def alone(side: int, n: int) -> Any:
        return (n, None) if side == 0 else (None, n)


def batch_of(side: int, rows: list[Row], first: int) -> pa.RecordBatch:
    columns = [
        [key for key, _, _ in rows],
        [None if at is None else START + timedelta(milliseconds=at) for _, at, _ in rows],
        [x for _, _, x in rows],
        list(range(first, first + len(rows))),
    ]
    arrays = [pa.array(c, t) for c, t in zip(columns, SCHEMA.types, strict=True)]
    schema = SCHEMA.with_metadata({b"side": str(side).encode()})
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def made(step: JoinStreams, results: list[pa.RecordBatch], known: dict[Any, Any]) -> list[Any]:
    """Pairs of numbers; the columns beside them are checked."""
    found = []
    for batch in results:
        if batch is IDLE:
            continue
        assert batch.schema == step.schema
        assert batch.num_rows
        for row in zip(*(c.to_pylist() for c in batch.columns), strict=True):
            left, right = row[:WIDTH], row[WIDTH:] or NEITHER
            for part in (left, right):
                at = part[1] and round((part[1] - START) / timedelta(milliseconds=1))
                assert (part[0], at, part[2]) == known.get(part[3], (None, None, None))
            found.append((left[3], right[3]))
    return found


def in_order(results: list[Any]) -> list[Any]:
    return sorted(results, key=repr)


rows_ = st.lists(
    st.tuples(
        st.sampled_from([None, "a", "a", "b", "c" * 20]),
        st.sampled_from([None, 1, 1_000, 1_700, 2_500, 4_000, 6_000]),
        st.sampled_from([None, 0, 1, 2, 3]),
    ),
    max_size=6,
)
epochs_ = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, 1), rows_), max_size=4),
        st.integers(0, 2_000),
        st.sampled_from([None, None, None, 1, 2, 3]),
    ),
    max_size=8,
)
cases_ = st.builds(
    Case, st.sampled_from(KINDS), st.sampled_from([None, 0, 1_500]), st.booleans(), st.booleans()
)


@given(cases_, epochs_, st.sampled_from([2, 8, 1 << 16]), st.sampled_from([1, 7, 1_000_000]))
@settings(max_examples=150, deadline=None)
def test_any_streams(
    case: Case,
    history: History,
    run_rows: int,
    pairs_max: int,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(joined_rows, "RUN_ROWS_MAX", run_rows)
        patch.setattr(pairs, "PAIRS_MAX", pairs_max)
        check(case, history)


def check(case: Case, history: History) -> None:
    step, model, clock = case.step(), Model(case), EventClock()
    tasks, n, known = 1, 0, dict[Any, Any]()
    stages = [JoinStage(step, clock, Context(), GROUPS)]
    states: list[Any] = [None]
    for batches, moves_ms, then in history:
        expected: list[Any] = []
        inputs: list[list[pa.RecordBatch]] = [[] for _ in stages]
        for side, rows in batches:
            whole = batch_of(side, rows, n)
            for row in rows:
                expected += model.row(side, row, n, clock.watermark_ms)
                known[n] = row
                n += 1
            groups = groups_of_rows([whole.column(0)], len(rows), GROUPS)
            for task, into in enumerate(inputs):
                owned = groups_of(task, tasks, GROUPS)
                mask = pa.array([int(group) in owned for group in groups], pa.bool_())
                into += [whole.filter(mask), IDLE]
        clock.next_watermark_ms = clock.watermark_ms + moves_ms
        expected += model.close(clock.next_watermark_ms)
        results = [
            each for stage, into in zip(stages, inputs, strict=True) for each in stage(iter(into))
        ]
        assert in_order(made(step, results, known)) == in_order(expected)
        clock.watermark_ms = clock.next_watermark_ms
        for task, stage in enumerate(stages):
            states[task] = snapshot(stage, states[task], task, tasks)
        if then is not None:
            tables = {
                name: pa.concat_tables(
                    [merged(state[name], clock.watermark_ms) for state in states]
                )
                for name in ("left", "right")
            }
            several = tasks > 1
            tasks, stages, states = then, [], [None] * then
            for task in range(tasks):
                owned = groups_of(task, tasks, GROUPS)
                stages.append(JoinStage(step, clock, Context(), GROUPS))
                stages[-1].restore(
                    {
                        name: table.filter(
                            pa.array([g in owned for g in table.column(0).to_pylist()], pa.bool_())
                        )
                        for name, table in tables.items()
                    },
                    of_several=several,
                )
    assert clock.late.get("join", 0) == model.late


def test_late_rows_of_both_sides_are_kept_where_they_are_to_be() -> None:
    clock = EventClock(5_000, keeps_late=True)
    stage = JoinStage(Case("full").step(), clock, Context(), GROUPS)
    batches = [
        batch_of(0, [("a", 4_000, 1), ("a", 6_000, 2)], 0),
        batch_of(1, [("b", 5_000, 3), ("a", None, 4)], 2),
    ]
    list(stage(iter(batches)))
    assert clock.late == {"join": 2}
    assert [(e.stage, e.watermark_ms) for e in clock.late_rows] == [("join", 5_000)] * 2
    (left,), (right,) = (e.rows.to_pylist() for e in clock.late_rows)
    assert (left[SCHEMA.names[0]], right[SCHEMA.names[0]]) == ("a", "b")
    clock.go_on()
    assert clock.late_rows == []


def snapshot(stage: JoinStage, before: Any, task: int, tasks: int) -> dict[str, pa.Table]:
    told = changes_of(stage, whole=before is None)
    found = {each.name: told.get(each.name, each.stored.empty_table()) for each in stage.tables}
    for table in stage.tables:
        assert found[table.name].schema == table.stored
        assert set(found[table.name].column(0).to_pylist()) <= set(groups_of(task, tasks, GROUPS))
    if before is None:
        return found
    return {name: pa.concat_tables([before[name], found[name]]) for name in found}


def merged(table: pa.Table, watermark_ms: int) -> pa.Table:
    rows = table.select([2, 3]).to_pylist()
    last = {row["#row"]: place for place, row in enumerate(rows)}
    stay = [
        place
        for place in last.values()
        if rows[place]["#expires"] is None or rows[place]["#expires"] > watermark_ms * 1000
    ]
    return table.take(pa.array(stay, pa.int64()))


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_that_many_rows_have(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "PAIRS_MAX", 1_000)
    draw = random.Random(7)
    rows: list[Row] = [("a", draw.randrange(1, 900), draw.randrange(4)) for _ in range(120)]
    batches = [(draw.randrange(2), rows[start : start + 20]) for start in range(0, 120, 20)]
    check(Case(kind, 100, True, True), [(batches, 0, None), (batches, 500, 2), ([], 5_000, None)])


def test_the_condition_is_split_as_spark_does_it() -> None:
    left, right = node("IsNull", column(1)), node("IsNull", column(5))
    both = node("LessThan", column(1), column(5))
    drawn = node("LessThan", node("Rand", dtype=pa.float64()), column(2))
    one = node("EqualTo", number(1), number(1))

    def all_of(*conditions: Expr) -> Expr:
        found, *others = conditions
        for each in others:
            found = node("And", found, each)
        return found

    assert split(None, 4) == (None, None, None)
    assert split(all_of(both, right, left), 4) == (left, right, both)
    assert split(one, 4) == (one, one, None)
    assert split(all_of(left, drawn, right), 4) == (left, None, all_of(drawn, right))


def test_rows_leave_with_their_run() -> None:
    waiting = JoinedRows()
    for step in range(1_000):
        keys = pa.array([f"{step} {n}" for n in range(10)])
        rows = pa.record_batch([keys], ["key"])
        waiting.add(hash_rows([keys], 10), rows, np.full(10, step), np.zeros(10, np.bool_))
        gone = list(waiting.expire(step - 100))
        assert sum(map(len, gone)) == (10 if step >= 100 else 0)
        assert len(waiting.runs) <= 16
        assert sum(len(run) for run in waiting.runs) <= 2 * 1_010
    assert sum(len(places) for _, places in waiting.taken(whole=True)) == 1_000
    assert sum(len(places) for _, places in waiting.taken(whole=False)) == 0


@pytest.mark.parametrize("stay", [0, 7])
def test_what_stays_of_long_runs_is_few_runs(stay: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joined_rows, "RUN_ROWS_MAX", 64)
    waiting = JoinedRows()
    for step in range(1_000):
        keys = pa.array([f"{step} {n}" for n in range(64)])
        rows = pa.record_batch([keys], ["key"])
        expires = np.array([NEVER, *[step] * 63])
        waiting.add(hash_rows([keys], 64), rows, expires, np.zeros(64, np.bool_))
        gone = list(waiting.expire(step - stay))
        assert sum(map(len, gone)) == (63 if step >= stay else 0)
        assert len(waiting.runs) <= step // 64 + stay + 8
    assert len(waiting) == 1_000 + 63 * stay
    keys = pa.array([f"{step} 0" for step in range(1_000)])
    found = sum(int(counts.sum()) for _, _, counts in waiting.find(hash_rows([keys], 1_000)))
    assert found == 1_000


def test_an_outer_row_without_a_key_is_returned_when_it_expires() -> None:
    case = Case("full")
    history: History = [
        ([(0, [(None, 1_000, 1)]), (1, [(None, 1_000, 1)])], 1_000, 2),
        ([], 5_000, None),
    ]  # fmt: skip
    check(case, history)
    check(replace(case, kind="inner"), history)


def test_a_run_goes_whole_whatever_has_left_it_before() -> None:
    waiting = JoinedRows()
    keys = pa.array(["a", "b", "c", "d"])
    rows = pa.record_batch([keys], ["key"])
    expires = np.array([1, 5, 5, 7])
    waiting.add(hash_rows([keys], 4), rows, expires, np.array([False, True, False, False]))
    gone = [[batch.column(0).to_pylist() for batch in waiting.expire(at)] for at in (0, 1, 5, 7, 9)]
    assert gone == [[], [["a"]], [["c"]], [["d"]], []]
    assert waiting.runs == []
    waiting.add(hash_rows([keys], 4), rows, np.full(4, 9), np.ones(4, np.bool_))
    assert list(waiting.expire(9)) == []  # all have had a match
    assert waiting.runs == []
    assert list(waiting.find(hash_rows([keys], 4))) == []


def test_a_number_that_a_restart_gives_again_meets_no_row_of_another_key_group(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "WHOLE_ROWS_MIN", 100)
    monkeypatch.setattr(snapshots, "FILES_MAX", 7)
    monkeypatch.setattr(snapshots, "CHANGES_SHARE_MAX", 100.0)
    keys = {int(groups_of_rows([pa.array([k])], 1, GROUPS)[0]): k for k in map(str, range(200))}
    low, high = keys[0], keys[GROUPS - 1]
    step, watermark_ms = Case("inner").step(), 0

    def started(generation: int) -> tuple[JoinStage, Any]:
        stage, chain = JoinStage(step, EventClock(watermark_ms), Context(), GROUPS), None
        if handles:
            chain = restore(
                storage,
                handles[-1:],
                range(GROUPS),
                [stage],
                query_id="query",
                watermark_ms=watermark_ms,
            )
        return stage, writer(storage, range(GROUPS), chain, generation=generation)

    def run(stage: JoinStage, to: Any, *rows: Row) -> None:
        clock = stage._clock
        clock.watermark_ms = clock.next_watermark_ms = watermark_ms
        assert list(stage(iter([batch_of(0, list(rows), len(handles))]))) == []
        handles.append(to.prepare(len(handles), watermark_ms, [stage]).write())

    handles: list[SnapshotHandle] = []
    stage, to = started(1)
    run(stage, to, (low, None, 1))
    run(stage, to, (high, 1_000, 1))
    watermark_ms = 6_000  # closes the last row
    stage, to = started(2)
    run(stage, to, (low, 7_000, 1))
    monkeypatch.setattr(pieces, "PIECE_BYTES", 12_000)
    for at in range(8_000, 12_000, 1_000):
        run(stage, to, (low, at, 1))
    assert len(storage.files_below("state")) > 8, "changes were put together, by key groups"
    run(stage, to, (low, 12_000, 1))
    monkeypatch.setattr(pieces, "PIECE_BYTES", 1 << 20)
    again, _ = started(3)
    assert again.row_count == stage.row_count == 7
