"""State that is kept where a source's partitions are read: apart for each of them, so that it goes
where its partition goes.

The user has said that the rows of a key are all in one partition (option ``keysStayInPartitions``),
so nothing is exchanged: the task that reads keeps the state. What is a key group elsewhere is here
the position of a partition in its stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from engine.expressions.registry import Context
from engine.pipeline.pipeline import IDLE
from engine.pipeline.stateful import StatefulStep
from engine.state.contract import GROUP, StatefulStage, StateTable


@dataclass(frozen=True)
class ReadPartitions:
    """What a task reads.

    :param owned: the positions of its partitions in their stream.
    :param current: that of the partition which the last batch came from.
    :param silent: those whose rows the sink has already: nothing comes of them. (Nor are they read;
        the state behind an epoch that is run again is that of the first time.)
    """

    owned: range
    current: Callable[[], int]
    silent: frozenset[int] = frozenset()


def stage_by_partition(
    step: StatefulStep,
    context: Context,
    make: Callable[[StatefulStep, Context], StatefulStage],
    reads: ReadPartitions,
) -> StatefulStage:
    """The step, for each partition by itself.

    :param make: the stage of one.
    """
    return StageByPartition([make(step, context) for _ in reads.owned], reads)


class StageByPartition(StatefulStage):
    """A stage for each partition of a task, as one.

    :param stages: one for each of ``reads.owned``.
    """

    def __init__(self, stages: Sequence[StatefulStage], reads: ReadPartitions) -> None:
        self._stages = dict(zip(reads.owned, stages, strict=True))
        self._reads = reads
        first = stages[0]
        self.name, self.dropped, self._tables = first.name, first.dropped, first.tables

    @property
    def tables(self) -> tuple[StateTable, ...]:
        return self._tables

    @property
    def row_count(self) -> int:
        return sum(stage.row_count for stage in self._stages.values())

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if len(self._stages) == 1:
            ((position, stage),) = self._stages.items()
            yield from self._told(position, stage(batches))
            return
        epochs = {position: _Epoch(stage) for position, stage in self._stages.items()}
        for batch in batches:
            if batch is IDLE:
                yield batch
                continue
            position = self._reads.current()
            yield from self._told(position, epochs[position].take(batch))
        for position, epoch in epochs.items():
            yield from self._told(position, epoch.end())

    def restore(self, tables: Mapping[str, pa.Table], *, of_several: bool = False) -> None:
        for position, stage in self._stages.items():
            own = {name: _rows_of(position, rows) for name, rows in tables.items()}
            stage.restore(own, of_several=of_several)

    def changes(self, *, whole: bool) -> Iterator[tuple[str, pa.Table]]:
        for position, stage in self._stages.items():
            for name, rows in stage.changes(whole=whole):
                yield name, _as_of(position, rows)

    def _told(self, position: int, results: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in results:
            if batch is IDLE or position not in self._reads.silent:
                yield batch


class _Epoch:
    """That of one stage, which gets its batches one by one: :data:`IDLE` in between has it return
    to whoever asks."""

    def __init__(self, stage: StatefulStage) -> None:
        self._next = IDLE
        self._has_ended = False
        self._results = stage(self._batches())

    def take(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """What comes of a batch."""
        self._next = batch
        for result in self._results:
            if result is IDLE:
                return
            yield result

    def end(self) -> Iterator[pa.RecordBatch]:
        """What comes when there are no more."""
        self._has_ended = True
        return (result for result in self._results if result is not IDLE)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        while not self._has_ended:
            batch, self._next = self._next, IDLE
            yield batch


def _rows_of(position: int, rows: pa.Table) -> pa.Table:
    return rows.filter(pc.equal(rows.column(GROUP.name), pa.scalar(position, GROUP.type)))


def _as_of(position: int, rows: pa.Table) -> pa.Table:
    """The stage has hashed its keys for the group."""
    group = pa.repeat(pa.scalar(position, GROUP.type), rows.num_rows)
    return rows.set_column(rows.schema.get_field_index(GROUP.name), GROUP, group)
