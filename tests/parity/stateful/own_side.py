"""The same query here, without Spark's tasks: pipelines, exchange, stages and watermark by hand.

Each step is an epoch of its own, and two without rows follow, in which it moves the watermark, and
the watermark closes what it passes. Between two steps all state is written out and loaded anew,
among another number of tasks.

Where keys stay in the partitions of a stream, each row is in that which its keys tell.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from engine.coordinator.watermarks import MIN, Watermarks
from engine.exchange.key_groups import groups_of
from engine.exchange.partitioning import Partitioner
from engine.pipeline.pipeline import Pipeline, Watermark
from engine.pipeline.stateful import SIDE, Exchanged
from engine.state.contract import GROUP, EventClock
from engine.task.by_partition import ReadPartitions
from engine.task.transform import Transform, compile_steps
from tests.gathered import changes_of
from tests.parity.stateful.in_partitions import PARTITIONS, partitioned
from tests.parity.stateful.steps import Step

_GROUPS = 32
_BEGAN_MS = 1_800_000_000_000
_ROWS = 5
"""Of a batch."""


@dataclass
class _Task:
    """One of a pipeline, which owns some key groups.

    :ivar inbox: what was sent to it in the present epoch.
    :ivar reads: the partition that it reads, if it keeps state where it reads.
    """

    transform: Transform
    clock: EventClock
    owned: range
    inbox: list[pa.RecordBatch] = field(default_factory=list)
    reads: list[int] = field(default_factory=lambda: [0])


class OwnQuery:
    """One query, and what it remembers.

    :param tasks: of each stage, at first.
    :param policy: see :class:`Watermarks`.
    """

    def __init__(self, pipelines: tuple[Pipeline, ...], tasks: int = 2, policy: str = MIN) -> None:
        self._pipelines = pipelines
        steps = (step for pipeline in pipelines for step in pipeline.steps)
        delays = {step.number: step.delay_ms for step in steps if isinstance(step, Watermark)}
        self._watermarks = Watermarks([delays[number] for number in sorted(delays)], policy)
        self._without_keys = {
            each.exchange.stage
            for each in pipelines
            if each.exchange is not None and not each.exchange.keys
        }
        self._epochs = 0
        self._tasks = [self._made(number, tasks) for number in range(len(pipelines))]

    def step(self, step: Step) -> Iterator[pa.Table]:
        """The rows of each epoch that has some."""
        for tables in ({"events": step.events, "others": step.others}, {}, {}):
            rows = self._epoch(tables)
            if rows.num_rows:
                yield rows

    def rescale(self, tasks: int) -> None:
        """Go on with so many tasks in each stage."""
        for number, before in enumerate(self._tasks):
            self._tasks[number] = made = self._made(number, tasks)
            for place in range(len(before[0].transform.stateful)):
                kept: dict[str, list[pa.Table]] = defaultdict(list)
                for old in before:
                    for name, rows in changes_of(old.transform.stateful[place], whole=True).items():
                        kept[name].append(rows)
                for task in made:
                    mine = {name: _owned(parts, task.owned) for name, parts in kept.items()}
                    task.transform.stateful[place].restore(mine, of_several=len(before) > 1)

    def _made(self, number: int, tasks: int) -> list[_Task]:
        pipeline = self._pipelines[number]
        stays = pipeline.stage is None and pipeline.kept is not None
        if number in self._without_keys or (pipeline.stage is None and not stays):
            tasks = 1
        made = []
        for place in range(tasks):
            clock = EventClock.starting(
                self._watermarks.current_ms,
                opened_ms=self._opened_ms,
                lag_ms=pipeline.watermark_lag_ms,
            )
            owned, at = groups_of(place, tasks, PARTITIONS if stays else _GROUPS), [0]
            reads = ReadPartitions(owned, partial(at.__getitem__, 0)) if stays else None
            transform = compile_steps(
                pipeline, clock=clock, groups=_GROUPS, owned=owned, reads=reads
            )
            made.append(_Task(transform, clock, owned, reads=at))
        return made

    def _epoch(self, tables: Mapping[str, pa.Table]) -> pa.Table:
        out: list[pa.RecordBatch] = []
        self._epochs += 1
        current_ms, seen = self._watermarks.current_ms, []
        for pipeline, tasks in zip(self._pipelines, self._tasks, strict=True):
            is_filled = any(task.inbox for task in tasks)
            for task in tasks:
                read = iter(task.inbox)
                if pipeline.stage is None:
                    read = iter(_read(pipeline, tables))
                    if pipeline.kept is not None:
                        read = _of_partitions(pipeline, [*read], task)
                task.inbox = []
                task.clock.end(
                    next_watermark_ms=current_ms,
                    next_opened_ms=self._opened_ms,
                    final=False,
                    filled=is_filled,
                )
                for batch in task.transform.stream(read):
                    if pipeline.exchange is None:
                        out.append(batch)
                    else:
                        self._send(pipeline, batch)
                seen.append(task.transform.event_times_us())
                task.clock.go_on()
        self._watermarks.take(seen)
        schema = next(each.schema for each in self._pipelines if each.exchange is None)
        return pa.Table.from_batches(out, schema)

    @property
    def _opened_ms(self) -> int:
        """An epoch takes a second."""
        return _BEGAN_MS + self._epochs * 1000

    def _send(self, pipeline: Pipeline, batch: pa.RecordBatch) -> None:
        exchange = pipeline.exchange
        assert exchange is not None
        source, receivers = self._pipelines[exchange.stage].source, self._tasks[exchange.stage]
        assert isinstance(source, Exchanged)
        for place, part in Partitioner(exchange.keys, len(receivers), _GROUPS).split(batch):
            if len(source.sides) > 1:
                part = part.replace_schema_metadata({SIDE: b"%d" % exchange.side})
            receivers[place].inbox.append(part)


def _of_partitions(
    pipeline: Pipeline, rows: list[pa.RecordBatch], task: _Task
) -> Iterator[pa.RecordBatch]:
    """Those of a task, from one partition after the other."""
    placed = partitioned(pipeline, rows)
    for partition in task.owned:
        task.reads[0] = partition
        yield from placed[partition]


def _owned(parts: list[pa.Table], groups: range) -> pa.Table:
    rows = pa.concat_tables(parts)
    is_owned = [group in groups for group in rows.column(GROUP.name).to_pylist()]
    return rows.filter(pa.array(is_owned, pa.bool_()))


def _read(pipeline: Pipeline, tables: Mapping[str, pa.Table]) -> list[pa.RecordBatch]:
    """The rows of the folder that a pipeline reads."""
    assert not isinstance(pipeline.source, Exchanged)
    name = pipeline.source.options["path"].rpartition("/")[2]
    if name not in tables:
        return []
    return tables[name].cast(pipeline.source.schema).to_batches(max_chunksize=_ROWS)
