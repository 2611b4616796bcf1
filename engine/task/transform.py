"""The steps of a pipeline as one function on record batches: the hot loop of a task.

What makes it fast:

- a column that a step passes on is the same Arrow column: nothing is copied;
- behind a filter only those columns are materialised that a later step, or the sink, uses;
- a filter that keeps every row copies nothing.

Most steps make one batch out of one. A function over an iterator may hold batches back, so the
pipeline is cut there into stages: each stage is an iterator over the one before, for one epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa

from engine.exchange.key_groups import KEY_GROUPS
from engine.expressions.registry import Context
from engine.expressions.times import current_time
from engine.pipeline.pipeline import (
    IDLE,
    BatchStream,
    EvalPython,
    MapBatches,
    Pipeline,
    Step,
    Tap,
    TimedStage,
    schema_behind,
)
from engine.pipeline.stateful import PartGroup, StatefulStep
from engine.state.contract import EventClock, StatefulStage
from engine.task.aligned import aligned
from engine.task.by_partition import ReadPartitions, stage_by_partition
from engine.task.column_batches import as_batch
from engine.task.event_times import EventTimes
from engine.task.inputs import Behind
from engine.task.observing import Observation
from engine.task.partial_grouping import PartialGrouping
from engine.task.stateful_stages import stateful_stage
from engine.task.steps import OnFailure, Watching, batch_by_batch, evaluate_arguments

Keep: TypeAlias = Callable[[StatefulStep, Context], StatefulStage]
"""What runs a step that keeps state."""


class Transform:
    """What a task does to the batches that its reader returns.

    Results have exactly ``pipeline.schema``, and those of :meth:`stream` at least one row. Not to
    be used by two threads at once.

    :ivar stateful: the stages that remember something.
    :ivar empty: a batch of no rows.
    :ivar wants_idle: whether a stage wants to hear that nothing has come: then
        :data:`~engine.pipeline.pipeline.IDLE` may stand among the batches.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        on_failure: OnFailure | None,
        partition: int,
        keep: Keep,
    ) -> None:
        self._watching: list[Watching] = []
        self._stages = _stages(pipeline, on_failure, partition, self._watching, keep)
        self.stateful = [each for each in self._stages if isinstance(each, StatefulStage)]
        self.wants_idle = any(_wants_idle(stage) for stage in self._stages)
        self.empty = as_batch([pa.nulls(0, t) for t in pipeline.schema.types], pipeline.schema, 0)

    def stream(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The results of one epoch, each as soon as it is there; they end with the batches.

        :raises TransformError: an expression or a user's function failed on a value.
        """
        for each in self._watching:
            each.begin_epoch()
        batches = _each_at_its_time(batches)
        for stage in self._stages:
            batches = stage(batches)
        return _without_idle(batches) if self.wants_idle else batches

    def observed(self) -> dict[str, tuple[Any, ...]]:
        """Of the epoch so far: see :attr:`engine.progress.counters.EpochCounters.observed`."""
        watching = self._watching
        return {each.name: each.states for each in watching if isinstance(each, Observation)}

    def event_times_us(self) -> dict[int, int]:
        """Of the epoch so far: see
        :attr:`engine.progress.counters.EpochCounters.event_times_us`."""
        return {
            each.number: each.newest_us
            for each in self._watching
            if isinstance(each, EventTimes) and each.newest_us is not None
        }

    def read_from(self, partition: Callable[[], int]) -> None:
        """:param partition: tells which one the batch came from that is at work."""
        for each in self._watching:
            if isinstance(each, EventTimes):
                each.partition = partition

    def held_us(self, behind: Mapping[int, Behind]) -> dict[int, int | None]:
        """Of the epoch so far: see :attr:`engine.progress.counters.EpochCounters.held_us`.

        :param behind: the partitions that have not caught up.
        """
        if not behind:
            return {}
        held = {
            each.number: each.held_us(behind)
            for each in self._watching
            if isinstance(each, EventTimes) and each.partition is not None
        }
        return {
            number: None if None in found else min(found)  # type: ignore[type-var]
            for number, found in held.items()
            if found
        }

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """One batch as an epoch of its own; the result may have no rows."""
        results = list(self.stream(iter((batch,))))
        if len(results) == 1:
            return results[0]
        return pa.concat_batches(results) if results else self.empty


def compile_steps(
    pipeline: Pipeline,
    on_failure: OnFailure | None = None,
    partition: int = 0,
    clock: EventClock | None = None,
    groups: int = KEY_GROUPS,
    owned: range | None = None,
    reads: ReadPartitions | None = None,
) -> Transform:
    """See :class:`Transform`. User's functions are unpickled here.

    :param on_failure: decides about batches that steps fail on, see
        :func:`engine.task.steps.batch_by_batch`. A function over an iterator of batches is not
        asked for: which row it has failed on cannot be told.
    :param partition: the number of the task's first partition among all of the query.
    :param clock: what stages that keep state know of time.
    :param groups: how many key groups the query has.
    :param owned: those of the task; None: all.
    :param reads: where state is kept by the source's partitions: those of the task.
    """
    owned = range(groups) if owned is None else owned
    keep = partial(stateful_stage, clock=clock or EventClock(), groups=groups, owned=owned)
    if reads is not None:
        keep = partial(stage_by_partition, make=keep, reads=reads)
    return Transform(pipeline, on_failure, partition, keep)


def _stages(
    pipeline: Pipeline,
    on_failure: OnFailure | None,
    partition: int,
    watching: list[Watching],
    keep: Keep,
) -> list[BatchStream]:
    context = Context(
        pipeline.session_timezone, partition=partition, exact_math=pipeline.exact_math
    )
    stages: list[BatchStream] = []
    pending: list[Step] = []
    schema = pipeline.source.schema

    def flush() -> None:
        if pending:
            stages.append(batch_by_batch(pending, schema, context, on_failure, watching))
            pending.clear()

    for step in pipeline.steps:
        if isinstance(step, StatefulStep):
            flush()
            stages.append(keep(step, context))
        elif isinstance(step, Tap):
            schema = schema if step.schema is None else step.schema
            flush()
            stages.append(partial(_tapped, step))
        elif isinstance(step, PartGroup):
            flush()
            stages.append(PartialGrouping(step, context))
        elif isinstance(step, MapBatches):
            flush()
            stage = step.start(step)
            stages.append(stage if _wants_idle(stage) else _deaf_to_idle(stage))
        elif isinstance(step, EvalPython) and not step.aligned:
            flush()
            arguments = evaluate_arguments(step.arguments, context)
            function = aligned(arguments, step.start(step), schema_behind(step, schema))
            stages.append(_deaf_to_idle(function))
        else:
            pending.append(step)
        schema = schema_behind(step, schema)
    schema = pipeline.schema  # which may be stricter about nulls
    flush()
    return stages or [lambda batches: _labelled(batches, schema)]


def _each_at_its_time(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """All that the steps make of a batch is made at one moment: when it came."""
    current_time.begin_batch()  # a function may make rows before it gets any
    outside = current_time.outside_of_batches()
    while True:
        with outside:
            batch = next(batches, None)
        if batch is None:
            return
        if batch is not IDLE:
            current_time.begin_batch()
        yield batch


def _labelled(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch if batch.schema == schema else as_batch(batch.columns, schema, batch.num_rows)


def _tapped(step: Tap, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if batch is IDLE:
            yield batch
            continue
        step.show(batch)
        if step.schema is not None and batch.schema != step.schema:
            batch = as_batch(batch.columns, step.schema, batch.num_rows)
        yield batch


def _wants_idle(stage: BatchStream) -> bool:
    return isinstance(stage, TimedStage) and stage.wants_idle


def _deaf_to_idle(stage: BatchStream) -> BatchStream:
    """A function of the user's over an iterator gets batches only; so do the stages behind it."""
    return lambda batches: stage(_without_idle(batches))


def _without_idle(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return (batch for batch in batches if batch is not IDLE)
