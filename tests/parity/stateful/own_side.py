"""The same query here, without Spark's tasks: pipelines, exchange, stages and watermark by hand.

Each step is an epoch of its own, and two without rows follow, in which it moves the watermark, and
the watermark closes what it passes. Between two steps all state is written out and loaded anew,
among another number of tasks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

import pyarrow as pa

from engine.coordinator.watermarks import Watermarks
from engine.exchange.key_groups import groups_of
from engine.exchange.partitioning import Partitioner
from engine.pipeline.pipeline import Pipeline, Watermark
from engine.pipeline.stateful import Exchanged
from engine.state.contract import GROUP, EventClock
from engine.task.intake import SIDE
from engine.task.transform import Transform, compile_steps
from tests.parity.stateful.steps import Step

_GROUPS = 32
_ROWS = 5
"""Of a batch."""


class OwnQuery:
    """One query, and what it remembers."""

    def __init__(self, pipelines: tuple[Pipeline, ...], tasks: int = 2) -> None:
        self._pipelines = pipelines
        steps = (step for pipeline in pipelines for step in pipeline.steps)
        delays = {step.number: step.delay_ms for step in steps if isinstance(step, Watermark)}
        self._watermarks = Watermarks([delays[number] for number in sorted(delays)])
        self._stages = [self._made(pipeline, tasks) for pipeline in pipelines]

    def step(self, step: Step) -> Iterator[pa.Table]:
        """The rows of each epoch that has some."""
        given = {"events": step.events, "others": step.others}
        for tables in (given, {}, {}):
            rows = self._epoch(tables)
            if rows.num_rows:
                yield rows

    def rescale(self, tasks: int) -> None:
        """Go on with so many tasks in each stage."""
        stages = []
        for pipeline, before in zip(self._pipelines, self._stages, strict=True):
            stage = self._made(pipeline, tasks)
            for owner, (transform, clock) in enumerate(stage):
                clock.watermark_ms = before[0][1].watermark_ms
                owned = groups_of(owner, len(stage), _GROUPS)
                for place, kept in enumerate(transform.stateful):
                    tables: dict[str, list[pa.Table]] = defaultdict(list)
                    for old, _ in before:
                        for name, rows in old.stateful[place].changes(whole=True).items():
                            groups = rows.column(GROUP.name).to_pylist()
                            is_owned = [group in owned or len(stage) == 1 for group in groups]
                            tables[name].append(rows.filter(pa.array(is_owned, pa.bool_())))
                    kept.restore({name: pa.concat_tables(parts) for name, parts in tables.items()})
            stages.append(stage)
        self._stages = stages

    def _made(self, pipeline: Pipeline, tasks: int) -> list[tuple[Transform, EventClock]]:
        if not isinstance(pipeline.source, Exchanged):
            tasks = 1
        elif any(not self._pipelines[sender].exchange.keys for side in pipeline.source.senders for sender in side):  # type: ignore[union-attr]
            tasks = 1
        made = []
        for _ in range(tasks):
            clock = EventClock(watermark_ms=self._watermarks.current_ms - pipeline.watermark_lag_ms)
            made.append((compile_steps(pipeline, clock=clock, groups=_GROUPS), clock))
        return made

    def _epoch(self, tables: Mapping[str, pa.Table]) -> pa.Table:
        sent: dict[int, dict[int, list[pa.RecordBatch]]] = defaultdict(lambda: defaultdict(list))
        out: list[pa.RecordBatch] = []
        next_ms, seen = self._watermarks.current_ms, []
        for number, (pipeline, stage) in enumerate(
            zip(self._pipelines, self._stages, strict=True)
        ):
            splitter = None
            if pipeline.exchange is not None:
                receivers = len(self._stages[pipeline.exchange.stage])
                splitter = Partitioner(pipeline.exchange.keys, receivers, _GROUPS)
            for task, (transform, clock) in enumerate(stage):
                clock.next_watermark_ms = next_ms - pipeline.watermark_lag_ms
                taken = _read(pipeline, tables) if number not in sent else sent[number][task]
                if isinstance(pipeline.source, Exchanged) and number not in sent:
                    taken = []
                for batch in transform.stream(iter(taken)):
                    if splitter is None or pipeline.exchange is None:
                        out.append(batch)
                        continue
                    target = self._pipelines[pipeline.exchange.stage]
                    for receiver, part in splitter.split(batch):
                        if isinstance(target.source, Exchanged) and len(target.source.sides) > 1:
                            side = {SIDE: b"%d" % pipeline.exchange.side}
                            part = part.replace_schema_metadata(side)
                        sent[pipeline.exchange.stage][receiver].append(part)
                seen.append(transform.event_times_us())
                clock.watermark_ms = clock.next_watermark_ms
        self._watermarks.take(seen)
        schema = next(each.schema for each in self._pipelines if each.exchange is None)
        return pa.Table.from_batches(out, schema)


def _read(pipeline: Pipeline, tables: Mapping[str, pa.Table]) -> list[pa.RecordBatch]:
    assert not isinstance(pipeline.source, Exchanged), "what is read, and not sent"
    name = pipeline.source.options["path"].rpartition("/")[2]
    if name not in tables:
        return []
    table = tables[name].cast(pipeline.source.schema)
    return table.combine_chunks().to_batches(max_chunksize=_ROWS)
