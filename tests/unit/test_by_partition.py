"""A stage for each partition of a task, in the place of one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from engine.expressions.registry import Context
from engine.pipeline.pipeline import IDLE
from engine.pipeline.stateful import UPDATE, Aggregate, Deduplicate, GroupRows, StatefulStep
from engine.state.contract import GROUP, EventClock, StatefulStage
from engine.task.by_partition import ReadPartitions, stage_by_partition
from engine.task.stateful_stages import stateful_stage
from tests.gathered import changes_of

SCHEMA = pa.schema([("key", pa.string())])
COUNTS = pa.schema([("key", pa.string()), ("count", pa.int64())])
UNIQUE = Deduplicate("unique", (0,), SCHEMA)
COUNT = GroupRows("counts", (0,), (Aggregate("Count", (), pa.int64()),), COUNTS, UPDATE)


class Task:
    """Reads some partitions; what it reads is told as ``(partition, keys)``, or as :data:`IDLE`."""

    def __init__(self, step: StatefulStep, owned: range, silent: frozenset[int] = frozenset()):
        self._partition = -1
        self._clock = EventClock()

        def make(step: StatefulStep, context: Context) -> StatefulStage:
            return stateful_stage(step, context, self._clock, 8, range(8))

        reads = ReadPartitions(owned, lambda: self._partition, silent)
        self.stage = stage_by_partition(step, Context(), make, reads)

    def epoch(self, *read: Any) -> list[Any]:
        """What comes of it, each batch as rows."""

        def batches() -> Iterator[pa.RecordBatch]:
            for each in read:
                if each is IDLE:
                    yield IDLE
                else:
                    self._partition, keys = each
                    yield pa.RecordBatch.from_pydict({"key": list(keys)}, schema=SCHEMA)

        found = [each if each is IDLE else each.to_pylist() for each in self.stage(batches())]
        return [each if each is IDLE else [tuple(row.values()) for row in each] for each in found]


def test_each_partition_is_for_itself_and_rows_come_at_once() -> None:
    task = Task(COUNT, range(2, 5))
    given = (2, "ab"), IDLE, (4, "a"), (2, "a"), (3, "c")
    told = [[("a", 1), ("b", 1)], IDLE, [("a", 1)], [("a", 2)], [("c", 1)]]
    assert task.epoch(*given) == told
    assert task.epoch((4, "a")) == [[("a", 2)]]
    assert task.epoch() == []
    assert task.stage.row_count == 4
    (rows,) = changes_of(task.stage, whole=True).values()
    assert rows.schema == task.stage.tables[0].stored
    kept = zip(rows[GROUP.name].to_pylist(), rows["key"].to_pylist(), strict=True)
    assert [*kept] == [(2, "a"), (2, "b"), (3, "c"), (4, "a")]


def test_state_goes_with_its_partition() -> None:
    first = Task(UNIQUE, range(3))
    first.epoch((0, "a"), (1, "b"), (2, "c"))
    (rows,) = changes_of(first.stage, whole=False).values()
    assert changes_of(first.stage, whole=False) == {}
    for owned in (range(1), range(1, 3), range(3)):
        task = Task(UNIQUE, owned)
        name = task.stage.tables[0].name
        mine = [group in owned for group in rows[GROUP.name].to_pylist()]
        task.stage.restore({name: rows.filter(pa.array(mine))})
        assert task.stage.row_count == len(owned)
        assert task.epoch(*((at, "abc"[at]) for at in owned)) == []
        assert task.epoch((owned.start, "new")) == [[("n",), ("e",), ("w",)]]


def test_of_a_silent_partition_nothing_is_told() -> None:
    for owned in (range(1), range(2)):
        task = Task(UNIQUE, owned, frozenset({0}))
        assert task.epoch((0, "a"), IDLE) == [IDLE]
        assert task.stage.row_count == 1
    assert task.epoch((1, "a")) == [[("a",)]]
