"""Runs an epoch again that a query has committed, and keeps what came of it.

It is what a restart does with an epoch whose end is logged, and on the same road: an
:class:`~engine.execution.attempt.Attempt` recovers, and runs exactly that epoch. It finds the
checkpoint as it was when the epoch was open, on a storage that keeps in memory what is written; in
the sink's place there is one that only looks; and sources are not told what is committed. The tasks
are threads of this process.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, Final

import pyarrow as pa

from engine.base.clock import SystemClock
from engine.base.options import EngineOptions
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.query_state import QueryState
from engine.checkpoint.storage.contract import Storage
from engine.checkpoint.storage.overlay_storage import OverlayStorage
from engine.coordinator.coordinator import Phase
from engine.coordinator.epoch_runner import CommittedEpoch
from engine.errors import ContinuousError
from engine.execution.attempt import Attempt
from engine.execution.definition import QueryDefinition, StreamBinding
from engine.execution.ending import EndRequest
from engine.execution.health import Stall
from engine.execution.launcher import ThreadLauncher
from engine.execution.query_start import QueryStart
from engine.execution.sharing import TaskSharing
from engine.execution.wanted_epochs import WantedEpochs
from engine.pipeline.pipeline import Pipeline, Step, Tap
from engine.progress.report import EpochTimes
from engine.sinks.contract import DriverSink, SinkBinding, TaskWriter
from engine.wire.messages import EpochCommitMessage

_KEPT: Final = ("metadata", "sources/", "state/")
"""What of a checkpoint does not tell which epoch it is at."""


class Rows:
    """Rows that pass a place, from several tasks.

    :param keeps: how many of them; None: all.
    :ivar count: how many have passed.
    """

    def __init__(self, keeps: int | None) -> None:
        self._keeps, self._lock = keeps, Lock()
        self._batches: list[pa.RecordBatch] = []
        self.count = 0

    def __call__(self, batch: pa.RecordBatch) -> None:
        with self._lock:
            left = batch.num_rows if self._keeps is None else max(0, self._keeps - self.count)
            if batch.num_rows and left:
                # A copy: of a slice, or a view of the reader's buffer, the whole would stay.
                self._batches.append(pa.concat_batches([batch.slice(0, left)]))
            self.count += batch.num_rows

    def table(self, schema: pa.Schema) -> pa.Table:
        """What was kept, if all of it has these columns."""
        return pa.Table.from_batches(self._batches, schema=schema)

    def tables(self) -> list[pa.Table]:
        """What was kept, in the order in which it came; a table for each set of columns, as the two
        sides of a join have them."""
        found: dict[tuple[str, ...], list[pa.RecordBatch]] = {}
        for batch in self._batches:
            plain = batch.replace_schema_metadata(None)
            found.setdefault(tuple(map(str, plain.schema)), []).append(plain)
        return [pa.Table.from_batches(batches) for batches in found.values()]


@dataclass(frozen=True)
class ReplayedPipeline:
    """What the tasks of one pipeline of the query did.

    :param came_in: rows that were read, or that other tasks have sent.
    :param made: what each step made of them.
    :param bad_records: that were left out, and ``late_rows`` behind the watermark.
    """

    pipeline: Pipeline
    came_in: Rows
    made: tuple[Rows, ...]
    bad_records: int
    late_rows: int


@dataclass(frozen=True)
class ReplayedEpoch:
    """What came of an epoch.

    :param starts: where it begins, per stream, and ``ends`` where it ends.
    :param watermark_ms: during it.
    :param rows_read: of all streams; with those that are bad.
    :param went_out: what the sink would have got.
    """

    epoch: int
    starts: tuple[Any, ...]
    ends: tuple[Any, ...]
    watermark_ms: int
    pipelines: tuple[ReplayedPipeline, ...]
    rows_read: int
    went_out: Rows

    @property
    def out(self) -> pa.Table:
        """The rows of :attr:`went_out` that were kept."""
        written = next(each.pipeline for each in self.pipelines if each.pipeline.exchange is None)
        return self.went_out.table(written.schema)


def checkpoint_before(storage: Storage, epoch: int) -> Checkpoint:
    """A checkpoint as it was when this epoch was logged, and not committed; all that is written to
    it is forgotten."""

    def is_shown(name: str) -> bool:
        folder, _, entry = name.partition("/")
        if folder in ("offsets", "commits") and entry.isdecimal():
            return int(entry) < epoch + (folder == "offsets")
        return name.startswith(_KEPT)

    return Checkpoint(OverlayStorage(storage, is_shown))


def replay(
    streams: Sequence[StreamBinding],
    stages: Sequence[Pipeline],
    checkpoint: Checkpoint,
    epoch: int,
    options: EngineOptions,
    *,
    watermark_policy: str,
    shuffle_partitions: int,
    rows: int,
    keeps_all: bool,
) -> ReplayedEpoch:
    """Run the epoch again.

    :param checkpoint: of :func:`checkpoint_before`.
    :param rows: of each step so many are kept; of what goes out all, if ``keeps_all``.
    :raises ContinuousError: it could not be run.
    """
    taps = [_Taps(each, rows) for each in (*(stream.pipeline for stream in streams), *stages)]
    out = Rows(None if keeps_all else rows)
    definition = QueryDefinition(
        name=None,
        streams=tuple(
            replace(stream, pipeline=tap.tapped) for stream, tap in zip(streams, taps, strict=False)
        ),
        stages=tuple(tap.tapped for tap in taps[len(streams) :]),
        sink=SinkBinding(DriverSink(_nothing, _nothing), _Looking(out), "nothing"),
        checkpoint=checkpoint,
        epoch_interval_ms=0,
        # Whatever ports the query itself listens on, and however it is fenced.
        options=replace(options, coordinator_port="0", coordinator_tls=False),
        watermark_policy=watermark_policy,
        shuffle_partitions=shuffle_partitions,
        tells_sources=False,
        logs_failures=False,
    )
    heard = _run(definition)
    return ReplayedEpoch(
        epoch,
        heard.starts,
        heard.ends,
        heard.watermark_ms,
        tuple(tap.told(parts) for tap, parts in zip(taps, heard.reports, strict=True)),
        sum(p.counters.rows_read for parts in heard.reports[: len(streams)] for p in parts),
        out,
    )


def _run(definition: QueryDefinition) -> _Listener:
    clock, listener, run_id = SystemClock(), _Listener(), str(uuid.uuid4())
    start = QueryStart(
        definition.checkpoint.create_or_read_query_id(run_id),
        run_id,
        ThreadLauncher(),
        clock,
        listener=listener,
        sharing=TaskSharing(definition.options.partitions_per_task),
        ending=EndRequest(clock),
        wanted=WantedEpochs(),
    )
    attempt = Attempt(definition, start, clock.monotonic_s())
    error: ContinuousError | None = None
    try:
        error = attempt.replay()
        listener.starts = attempt.starts
    except ContinuousError as exc:
        error = exc
    finally:
        attempt.release(QueryState.STOPPED, None)
        start.leaving.await_gone()
        definition.stop_sources()
    if error is not None:
        raise error
    return listener


class _Taps:
    """A pipeline that is looked into: in front of its first step, and behind each."""

    def __init__(self, pipeline: Pipeline, rows: int) -> None:
        self._pipeline = pipeline
        self._places = [Rows(rows) for _ in range(len(pipeline.steps) + 1)]
        taps = [Tap(place) for place in self._places]
        taps[-1] = replace(taps[-1], schema=pipeline.schema)
        steps: list[Step] = [taps[0]]
        for step, tap in zip(pipeline.steps, taps[1:], strict=True):
            steps += [step, tap]
        self.tapped = replace(pipeline, steps=tuple(steps))

    def told(self, reports: Sequence[EpochCommitMessage]) -> ReplayedPipeline:
        counters = [report.counters for report in reports]
        return ReplayedPipeline(
            self._pipeline,
            self._places[0],
            tuple(self._places[1:]),
            sum(each.bad_records for each in counters),
            sum(sum(each.late_rows.values()) for each in counters),
        )


class _Looking(TaskWriter):
    """The sink: takes the rows, and puts them nowhere."""

    def __init__(self, rows: Callable[[pa.RecordBatch], None]) -> None:
        self._rows = rows

    def write(self, epoch: int, batches: Iterator[pa.RecordBatch]) -> None:
        for batch in batches:
            self._rows(batch)


def _nothing(messages: Sequence[Any], epoch: int) -> None:
    """The sink's commit, and its abort."""


class _Listener:
    """Hears what the tasks have counted."""

    def __init__(self) -> None:
        self.starts: tuple[Any, ...] = ()
        self.ends: tuple[Any, ...] = ()
        self.watermark_ms = 0
        self.reports: Sequence[Sequence[EpochCommitMessage]] = ()

    def on_committed(
        self,
        committed: CommittedEpoch,
        reports: Sequence[Sequence[EpochCommitMessage]],
        times: EpochTimes,
    ) -> None:
        self.ends, self.watermark_ms, self.reports = (
            committed.offsets,
            committed.watermark_ms,
            reports,
        )

    def look(self) -> Mapping[str, Any]:
        return {}

    def on_recovered(self, committed_epoch: int) -> None: ...
    def on_phase(self, phase: Phase, *, reconfiguring: bool) -> None: ...
    def on_idle(self) -> None: ...
    def on_waiting(self, what: str | None) -> None: ...
    def on_stall(self, stall: Stall | None) -> None: ...
