"""A windowed count by key, the stage alone: no tasks, no exchange, one core.

- partial: rows per second that are folded in front of the exchange, in batches of 100,000 rows;
- grouped: rows per second through both halves, one after the other;
- small: µs for a batch of 10 rows through the stage in update mode, results included;
- changes, restore, close: ms for the snapshot of 1,000 changed keys, for loading all keys, and for
  returning and forgetting them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from bench.size import sized
from engine.exchange.key_groups import KEY_GROUPS
from engine.expressions.registry import Context
from engine.pipeline.stateful import APPEND, UPDATE, Aggregate, GroupRows, PartGroup
from engine.state.aggregates.functions import state_fields
from engine.state.contract import EventClock, StatefulStage
from engine.task.grouping import grouping_stage
from engine.task.partial_grouping import PartialGrouping

ENGINES = ("10,000 keys", "1,000,000 keys")
BATCHES = sized(40, 15, 2)
ROWS, ROWS_SMALL = 100_000, 10
_TIME = pa.timestamp("us", "UTC")
_WINDOW = pa.struct([("start", _TIME), ("end", _TIME)])
_WINDOW_US = 10_000_000
_COUNT = Aggregate("Count", (), pa.int64())
_KEY = [pa.field("window", _WINDOW), pa.field("key", pa.int64())]
_ROWS = pa.schema(_KEY)
_RESULTS = pa.schema([*_KEY, pa.field("count", pa.int64())])
_PARTIAL = pa.schema([*_KEY, *state_fields(_COUNT, "count")])


def main(engine: str) -> None:
    """Measure one engine in this process and print its figures as JSON."""
    keys = int(engine.split()[0].replace(",", ""))
    random = np.random.default_rng(keys)
    batches = [_batch(random, keys, ROWS) for _ in range(BATCHES)]
    small = [_batch(random, keys, ROWS_SMALL) for _ in range(20 * BATCHES)]
    part = PartialGrouping(PartGroup((0, 1), (_COUNT,), _PARTIAL), Context())
    clock = EventClock()
    counting = stage(clock, APPEND, is_partial=True)
    list(counting(part(iter(batches))))
    partial_s = _seconds(lambda: list(part(iter(batches))))
    grouped_s = _seconds(lambda: list(counting(part(iter(batches)))))
    updating = stage(clock, UPDATE, is_partial=False)
    list(updating(iter(batches)))
    small_s = _seconds(lambda: list(updating(iter(small))))
    _changes(counting)
    list(counting(part(iter([_batch(random, keys, 1_000)]))))
    changes_s = _seconds(lambda: _changes(counting))
    whole = _changes(counting, whole=True)
    restored = stage(clock, APPEND, is_partial=True)
    restore_s = _seconds(lambda: restored.restore(whole))
    clock.next_watermark_ms = 2 * _WINDOW_US // 1000
    close_s = _seconds(lambda: list(restored(iter(()))))
    figures = {
        "partial": BATCHES * ROWS / partial_s,
        "grouped": BATCHES * ROWS / grouped_s,
        "small_us": small_s / len(small) * 1e6,
        "changes_ms": changes_s * 1e3,
        "restore_ms": restore_s * 1e3,
        "close_ms": close_s * 1e3,
    }
    print(json.dumps(figures))


def stage(clock: EventClock, mode: str, *, is_partial: bool) -> StatefulStage:
    """A count by window and key."""
    step = GroupRows("windows", (0, 1), (_COUNT,), _RESULTS, mode, 0, is_partial)
    return grouping_stage(step, clock, Context(), KEY_GROUPS)


def _batch(random: np.random.Generator, keys: int, rows: int) -> pa.RecordBatch:
    """Of two windows."""
    return batch_of(random.integers(0, 2, rows), pa.array(random.integers(0, keys, rows)))


def batch_of(windows: np.ndarray, keys: pa.Array) -> pa.RecordBatch:
    """Rows for a stage that is not partial.

    :param windows: the number of each row's.
    """
    starts = windows * _WINDOW_US
    bounds = [pa.array(starts, _TIME), pa.array(starts + _WINDOW_US, _TIME)]
    window = pa.StructArray.from_arrays(bounds, fields=list(_WINDOW))
    return pa.RecordBatch.from_arrays([window, keys], schema=_ROWS)


def _changes(stage: StatefulStage, *, whole: bool = False) -> dict[str, pa.Table]:
    parts = list(stage.changes(whole=whole))
    return {name: pa.concat_tables([rows for _, rows in parts]) for name, _ in parts[:1]}


def _seconds(work: Callable[[], object]) -> float:
    began_s = time.perf_counter()
    work()
    return time.perf_counter() - began_s
