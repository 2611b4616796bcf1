"""A windowed count on threads: records of the feed, by key and by ten seconds of event time.

Record k of partition p is of key ``k % KEYS``, happens k seconds behind :data:`BEGAN_S`, and
counts for the window that begins at the last ten of these seconds, which is closed when the
watermark has passed its begin: the grouping column is a timestamp, as Spark compares those. (What
happened in 1970 is late from the start: the first watermark is 0.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from engine.base.clock import Clock
from engine.base.moments import iso_timestamp
from engine.checkpoint.checkpoint import Checkpoint
from engine.errors import SinkCommitUnknownError
from engine.execution.definition import QueryDefinition, StreamBinding
from engine.execution.execution import ContinuousExecution
from engine.execution.launcher import Launcher, ThreadLauncher
from engine.expressions.releases import SPARK_VERSION
from engine.expressions.tree import Expr
from engine.pipeline.pipeline import Pipeline, Project, SourceRelation, Watermark
from engine.pipeline.stateful import APPEND, Aggregate, Exchange, Exchanged, GroupRows
from engine.query.handle import ContinuousQuery
from engine.sinks.adapter import PlainTaskWriter
from engine.sinks.contract import DriverSink, SinkBinding
from engine.sinks.dead_letters import with_dead_letters
from tests.model import ONE_ATTEMPT, SCHEMA, Feed, ModelReader
from tests.waiting import wait_until

BEGAN_S: Final = 1_000
KEYS: Final = 5
WINDOW_S: Final = 10
DELAY_S: Final = 20
_LONG = pa.int64()
_TIME = pa.timestamp("us", tz="UTC")
_EVENTS = pa.schema([pa.field("key", _LONG), pa.field("time", _TIME), pa.field("at", _TIME)])
COUNTS: Final = pa.schema([pa.field("key", _LONG), pa.field("at", _TIME), pa.field("count", _LONG)])


def _column(ordinal: int, dtype: pa.DataType) -> Expr:
    return Expr("Column", (), dtype, True, {"ordinal": ordinal, "name": f"c{ordinal}"})


def _literal(value: int) -> Expr:
    return Expr("Literal", (), _LONG, False, {"value": value})


def _op(name: str, *children: Expr, dtype: pa.DataType = _LONG) -> Expr:
    return Expr(name, children, dtype, True, {"eval_mode": "ANSI", SPARK_VERSION: "4.2.0"})


def _time(seconds: Expr) -> Expr:
    at = _op("Add", seconds, _literal(BEGAN_S))
    return _op("SecondsToTimestamp", at, dtype=_TIME)


_SEQ: Final = _column(1, _LONG)


def pipelines(output_mode: str = APPEND, bad_seq: int | None = None) -> tuple[Pipeline, Pipeline]:
    """The stream, and the stage that counts.

    :param bad_seq: the stream's expressions fail on this record of each partition.
    """
    key = _op("Remainder", _SEQ, _literal(KEYS))
    if bad_seq is not None:
        key = _op(
            "Add", key, _op("Remainder", _literal(0), _op("Subtract", _SEQ, _literal(bad_seq)))
        )
    project, watermark, group = _steps(key, output_mode)
    relation = SourceRelation("model", {}, SCHEMA)
    stream = Pipeline(relation, (project, watermark), _EVENTS, exchange=Exchange(1, (0, 2)))
    return stream, Pipeline(Exchanged((_EVENTS,), ((0,),)), (group,), COUNTS)


def where_it_is_read(partitions: int, output_mode: str = APPEND) -> Pipeline:
    """The stream, which counts as well: each key is in one of so many partitions, the one that is
    left when it is divided by their number."""
    key = _op("Remainder", _SEQ, _literal(KEYS))
    key = _op(
        "Add", _op("Multiply", key, _literal(partitions)), _op("Cast", _column(0, pa.int32()))
    )
    return Pipeline(SourceRelation("model", {}, SCHEMA), _steps(key, output_mode), COUNTS)


def _steps(key: Expr, output_mode: str) -> tuple[Project, Watermark, GroupRows]:
    begins = _op("Subtract", _SEQ, _op("Remainder", _SEQ, _literal(WINDOW_S)))
    project = Project((key, _time(_SEQ), _time(begins)), _EVENTS)
    count = Aggregate("Count", (_literal(1),), _LONG)
    group = GroupRows("counts", (0, 2), (count,), COUNTS, output_mode, event_time=1)
    return project, Watermark(1, DELAY_S * 1000), group


@dataclass
class CountSink:
    """Keeps the rows of each committed epoch, the time as seconds behind :data:`BEGAN_S`; a second
    commit of an epoch changes nothing."""

    committed: dict[int, list[tuple[int, int, int]]] = field(default_factory=dict)

    def write(self, batches: Iterator[pa.RecordBatch]) -> list[tuple[int, int, int]]:
        return [
            (row["key"], int(row["at"].timestamp()) - BEGAN_S, row["count"])
            for batch in batches
            for row in batch.to_pylist()
        ]

    def commit(self, messages: list[list[tuple[int, int, int]]], epoch: int) -> None:
        self.committed.setdefault(epoch, [row for message in messages for row in message])

    def fail_a_commit(self, when: Callable[[list[Any]], bool] = any) -> list[int]:
        """The first commit of such messages fails, nobody knows how far it has come.

        :returns: gets the epoch.
        """
        commit, failed = self.commit, list[int]()

        def fail_once(messages: list[Any], epoch: int) -> None:
            if when(messages) and not failed:
                failed.append(epoch)
                raise SinkCommitUnknownError("who knows", epoch=epoch)
            commit(messages, epoch)

        self.commit = fail_once  # type: ignore[method-assign]
        return failed

    def abort(self, messages: list[Any], epoch: int) -> None:
        return None

    def rows(self) -> list[tuple[int, int, int]]:
        """All, in the order of epochs."""
        return [row for epoch in sorted(self.committed) for row in self.committed[epoch]]

    def last(self) -> dict[tuple[int, int], int]:
        """The last count of each key and window."""
        return {(key, at): count for key, at, count in self.rows()}


def counted(records: int, partitions: int, *, before_s: float = float("inf")) -> dict[Any, int]:
    """What a batch query counts.

    :param records: of each partition.
    :param before_s: windows that begin before this second, or at it.
    """
    found = Counter((seq % KEYS, seq - seq % WINDOW_S) for seq in range(records))
    return {key: count * partitions for key, count in found.items() if key[1] <= before_s}


class CountStory:
    """One checkpoint, one feed, one sink; as many starts as the test wants.

    :param stays: whether keys stay in their partitions, so that no rows are exchanged.
    """

    def __init__(self, folder: Path, partitions: int = 2, *, stays: bool = False) -> None:
        self.folder, self.partitions, self.stays = folder, partitions, stays
        self.feed = Feed(partitions)
        self.sink = CountSink()
        self.binding: SinkBinding | None = None
        """A sink in the place of that."""
        self.lag_s = 0
        """So far behind the query's watermark is that of the stage that counts."""

    def start(
        self,
        launcher: Launcher | None = None,
        clock: Clock | None = None,
        *,
        output_mode: str = APPEND,
        interval_ms: int = 20,
        bad_seq: int | None = None,
        **options: Any,
    ) -> ContinuousQuery:
        """Start the query; without further options its first failure ends it."""
        stages: tuple[Pipeline, ...] = ()
        if self.stays:
            stream = where_it_is_read(self.partitions, output_mode)
        else:
            stream, stage = pipelines(output_mode, bad_seq)
            stages = (replace(stage, watermark_lag_ms=self.lag_s * 1000),)
        driver = replace(DriverSink.of(self.sink), delivery="exactly once")
        sink = self.binding or SinkBinding(driver, PlainTaskWriter(self.sink.write), "counts")
        engine_options = replace(ONE_ATTEMPT, **options)
        if engine_options.keeps_letters:
            sink = with_dead_letters(sink, engine_options.dead_letter_path)
        made = QueryDefinition(
            name="counts",
            streams=(StreamBinding(stream, ModelReader(self.feed), "model"),),
            stages=stages,
            sink=sink,
            checkpoint=self.checkpoint,
            epoch_interval_ms=interval_ms,
            options=engine_options,
        )
        execution = ContinuousExecution(made, launcher or ThreadLauncher(), clock)
        execution.start()
        return ContinuousQuery(execution, str)

    @property
    def checkpoint(self) -> Checkpoint:
        return Checkpoint(str(self.folder))

    @property
    def records(self) -> int:
        """Of each partition, so far."""
        return self.feed.available[0]

    def counted(self, records: int, *, before_s: float = float("inf")) -> dict[Any, int]:
        """See :func:`counted`."""
        if not self.stays:
            return counted(records, self.partitions, before_s=before_s)
        return {
            (key * self.partitions + partition, at): count
            for (key, at), count in counted(records, 1, before_s=before_s).items()
            for partition in range(self.partitions)
        }

    def closed_before_s(self) -> float:
        """Windows that begin before this second, or at it, are closed when all is committed."""
        return self.records - 1 - DELAY_S - self.lag_s

    def grow(self, query: ContinuousQuery, records: int) -> None:
        """Let so many more appear in every partition: in steps, so that no task reads so far ahead
        of another that the watermark leaves out what the other has not read."""
        step = DELAY_S - WINDOW_S
        for done in range(0, records, step):
            self.feed.add(min(step, records - done))
            wait_until(lambda: self.has_read_all or not query.isActive, "all is committed")

    def bring_late(self, query: ContinuousQuery, records: int) -> None:
        """Let the second of two partitions have all of its records behind a watermark that those of
        the first have made."""
        for partition in range(2):
            with self.feed.changed:
                self.feed.available[partition] = records
                self.feed.changed.notify_all()
            if partition == 0:
                self.await_watermark(query)
        query.processAllAvailable()

    @property
    def has_read_all(self) -> bool:
        """Whether all that is there is committed."""
        wanted = {str(p): count for p, count in enumerate(self.feed.available)}
        return list(self.checkpoint.committed_offsets() or ()) == [wanted]

    def await_watermark(self, query: ContinuousQuery) -> None:
        """Until what is read from now on is judged by the watermark of all that has been read. How
        many epochs that takes depends on how many are under way."""
        at_ms = (BEGAN_S + max(self.feed.available) - 1 - DELAY_S) * 1000
        query.processAllAvailable()
        wait_until(lambda: _watermark(query) == iso_timestamp(at_ms), "the watermark")

    def await_counts(self, query: ContinuousQuery) -> None:
        """Until every window is counted that the watermark closes, or the query has ended."""
        wanted = self.counted(self.records, before_s=self.closed_before_s())
        wait_until(lambda: len(self.sink.last()) >= len(wanted) or not query.isActive, "the counts")


def _watermark(query: ContinuousQuery) -> str | None:
    progress = query.lastProgress
    return None if progress is None else progress["eventTime"].get("watermark")
