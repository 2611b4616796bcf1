"""A state goes on with the aggregate that has made it, though another one has the same columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from engine.checkpoint.storage.local_storage import LocalStorage
from engine.errors import ConfigError
from engine.expressions.registry import Context
from engine.pipeline.stateful import UPDATE, Aggregate, GroupRows
from engine.snapshots.handles import SnapshotHandle
from engine.state.aggregates.bits import Bits
from engine.state.contract import EventClock, StatefulStage
from engine.state.restoring import restore
from engine.state.snapshots import SnapshotWriter
from engine.task.grouping import grouping_stage
from tests.unit.stateful_stages import GROUPS, column

LONG = pa.int64()
LONGS = pa.list_(LONG)
ROWS = pa.schema([("key", LONG), ("value", LONG), ("at", LONG)])
VALUE, AT = column(ROWS, "value"), column(ROWS, "at")


def count_of_distinct(relative_sd: float) -> Aggregate:
    params = {"relative_sd": relative_sd, "threshold": 400.0}
    return Aggregate("HyperLogLogPlusPlus", (VALUE,), LONG, params=params)


BIT_AND, BIT_OR = (Aggregate(name, (VALUE,), LONG) for name in ("BitAndAgg", "BitOrAgg"))


def stage_of(aggregate: Aggregate) -> StatefulStage:
    schema = pa.schema([("key", LONG), ("result", aggregate.dtype)])
    step = GroupRows("g", (0,), (aggregate,), schema, UPDATE)
    return grouping_stage(step, EventClock(), Context(), GROUPS)


def results(stage: StatefulStage, *rows: tuple[int, int, int]) -> list[Any]:
    named = [dict(zip(ROWS.names, row, strict=True)) for row in rows]
    batch = pa.RecordBatch.from_pylist(named, schema=ROWS)
    return [row["result"] for told in stage(iter([batch])) for row in told.to_pylist()]


class Kept:
    """Two epochs of an aggregate."""

    def __init__(self, folder: Path, aggregate: Aggregate) -> None:
        self.storage = LocalStorage(folder)
        self._stage = stage_of(aggregate)
        self._writer = SnapshotWriter(
            self.storage, query_id="query", stage=1, groups=range(GROUPS), generation=1
        )
        self.handle: SnapshotHandle
        self._epoch = -1
        for rows in ([(1, 6, 1), (1, 6, 2)], [(1, 12, 3), (2, 5, 3)]):
            self.epoch(*rows)

    def epoch(self, *rows: tuple[int, int, int]) -> None:
        results(self._stage, *rows)
        self._epoch += 1
        self.handle = self._writer.prepare(self._epoch, 0, [self._stage]).write()

    def restored(self, aggregate: Aggregate) -> StatefulStage:
        stage = stage_of(aggregate)
        restore(
            self.storage, [self.handle], range(GROUPS), [stage], query_id="query", watermark_ms=0
        )
        return stage


@pytest.mark.parametrize(
    ("before", "now", "difference"),
    [
        (
            Aggregate("MinBy", (VALUE, AT), LONG),
            Aggregate("MaxBy", (VALUE, AT), LONG),
            r"result\.value of the table g\.groups .* kind 'MinBy' in .* kind 'MaxBy' in the query",
        ),
        (BIT_AND, BIT_OR, r"result\.bits .* kind 'BitAndAgg' .* kind 'BitOrAgg'"),
        (
            Aggregate("CollectSet", (VALUE,), LONGS),
            Aggregate("CollectList", (VALUE,), LONGS),
            r"result\.values .* kind 'distinct' .* kind 'all'",
        ),
        (
            count_of_distinct(0.05),
            count_of_distinct(0.03),
            r"result\.registers .* kind '512 registers' .* kind '2048 registers'",
        ),
    ],
)
def test_another_aggregate_is_refused(
    tmp_path: Path, before: Aggregate, now: Aggregate, difference: str
) -> None:
    kept = Kept(tmp_path, before)
    with pytest.raises(ConfigError, match=difference):
        kept.restored(now)
    assert results(kept.restored(before), (3, 1, 1))


def test_functions_whose_states_are_the_same_go_on_with_them(tmp_path: Path) -> None:
    double = pa.float64()
    kept = Kept(tmp_path, Aggregate("VariancePop", (VALUE,), double))
    assert results(kept.restored(Aggregate("StddevPop", (VALUE,), double)), (2, 9, 4)) == [2.0]


def test_what_an_earlier_release_has_kept_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr(Bits, "kind", "")
        kept = Kept(tmp_path, BIT_AND)
    again = kept.restored(BIT_AND)
    assert results(again, (1, 12, 4)) == [4]
    kept._stage = again
    kept.epoch((1, 5, 4))  # a file that tells, behind two that do not
    assert results(kept.restored(BIT_AND), (1, 7, 5)) == [4]
