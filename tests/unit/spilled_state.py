"""Run as a process with little memory: stages whose state does not fit it, snapshots, a restart.

    python -m tests.unit.spilled_state FOLDER BUDGET_BYTES

A budget of 0: all state is in memory, which does not do.
"""

from __future__ import annotations

import resource
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.checkpoint.storage.local_storage import LocalStorage
from engine.expressions.registry import Context
from engine.pipeline.stateful import SIDE
from engine.state.arrays import Budget, within
from engine.state.contract import EventClock, StatefulStage
from engine.state.restoring import restore
from engine.state.scratch import Scratch
from engine.state.snapshots import SnapshotWriter
from engine.task.deduplicating import DeduplicateStage
from engine.task.grouping import Grouping
from engine.task.joining import JoinStage
from tests.unit import test_deduplicating, test_grouping_stage, test_joining
from tests.unit.large_state import _data_bytes

KEYS: Final = 320_000
AT_ONCE: Final = 1 << 14
MEMORY: Final = 128 << 20
GROUPS: Final = 8


def stages() -> list[StatefulStage]:
    """One of each kind."""
    clock, context = EventClock(), Context()
    join = test_joining.Case("left", None).step()
    return [
        Grouping(test_grouping_stage.step("update"), clock, context, GROUPS),
        DeduplicateStage(test_deduplicating.KINDS["for ever"], clock, GROUPS),
        JoinStage(join, clock, context, GROUPS),
    ]


def texts(numbers: np.ndarray) -> pa.Array:
    return pc.binary_join_element_wise("k" * 90, pa.array(numbers).cast(pa.string()), "-")


def rows_of(numbers: np.ndarray) -> list[pa.RecordBatch]:
    """A batch for each of the stages, of these keys."""
    keys, count = texts(numbers), len(numbers)
    window = pa.scalar({"start": 0, "end": 10_000_000}, test_grouping_stage.WINDOW)
    grouped = [pa.repeat(window, count), keys, pa.array(numbers)]
    time = pa.nulls(count, test_deduplicating.SCHEMA.types[1])
    unique = [keys, time, pa.array(np.zeros(count)), pa.array(numbers)]
    unique = [a.cast(t) for a, t in zip(unique, test_deduplicating.SCHEMA.types, strict=True)]
    joined = [keys, pa.nulls(count, test_joining.STAMP), pa.array(numbers), pa.array(numbers)]
    schema = test_joining.SCHEMA.with_metadata({SIDE: b"0"})
    return [
        pa.RecordBatch.from_arrays(grouped, schema=test_grouping_stage.ROWS),
        pa.RecordBatch.from_arrays(unique, schema=test_deduplicating.SCHEMA),
        pa.RecordBatch.from_arrays(joined, schema=schema),
    ]


def feed(stages: list[StatefulStage], numbers: Iterator[np.ndarray]) -> list[int]:
    """How many rows each has returned."""
    told = [0] * len(stages)
    for some in numbers:
        for place, (stage, rows) in enumerate(
            zip(stages, rows_of(some)[: len(stages)], strict=True)
        ):
            told[place] += sum(len(batch) for batch in stage(iter([rows])))
    return told


def keys(turn: int) -> Iterator[np.ndarray]:
    """In another order each time."""
    for start in range(0, KEYS, AT_ONCE):
        yield (np.arange(start, min(start + AT_ONCE, KEYS)) * (7 if turn else 1)) % KEYS


def main(folder: str, budget_bytes: int) -> None:
    scratch = Scratch(folder, budget_bytes or None)
    threading.stack_size(1 << 20)
    pa.set_cpu_count(1)
    allowed = _data_bytes() + MEMORY
    resource.setrlimit(resource.RLIMIT_DATA, (allowed, allowed))
    storage = LocalStorage(Path(folder) / "checkpoint")
    with within(Budget(budget_bytes, scratch) if budget_bytes else None):
        kept = stages()
        assert feed(kept, keys(0)) == [KEYS, KEYS, 0]
        assert feed(kept[:2], keys(1)) == [KEYS, 0]
        to = SnapshotWriter(
            storage, query_id="q", stage=1, groups=range(GROUPS), generation=1, scratch=scratch
        )
        handle = to.prepare(0, 0, kept).write()
        assert handle.nbytes > 10 * budget_bytes, "that is a state of several times the budget"
        del kept
        again = stages()
        restore(
            storage, [handle], range(GROUPS), again, query_id="q", watermark_ms=0, scratch=scratch
        )
        assert [stage.row_count for stage in again] == [KEYS] * 3
        assert feed(again[:2], keys(0)) == [KEYS, 0]
        (batch,) = again[0](iter([rows_of(next(keys(0)))[0]]))
        assert set(batch.column("count").to_pylist()) == {4}
        other = pa.RecordBatch.from_arrays(
            rows_of(next(keys(0)))[2].columns,
            schema=test_joining.SCHEMA.with_metadata({SIDE: b"1"}),
        )
        assert sum(len(batch) for batch in again[2](iter([other]))) == AT_ONCE


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
