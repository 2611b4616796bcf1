"""Queries with the user's own functions and classes, for both engines.

Their input has the columns of :data:`EVENTS`. What they return does not depend on how rows come
together in micro-batches or in epochs: in update mode the last row of each key is a function of all
of its rows, in append mode each row is a function of itself, or of all rows up to a watermark.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd
from pyspark import cloudpickle
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

EVENTS: Final = "k STRING, g INT, v DOUBLE, n BIGINT, t TIMESTAMP"
"""Key, another key, two values, and the event time."""
_NEVER: Final = "1 second"


@dataclass(frozen=True)
class CustomQuery:
    """One query.

    :param build: from the stream to the query.
    :param output_mode: ``update`` or ``append``.
    :param keys: of its results: in update mode the last row of each counts.
    :param goes_by_clock: see :func:`tests.parity.stateful.spark_side.run_in_spark`.
    """

    build: Callable[[DataFrame], DataFrame]
    output_mode: str = "update"
    keys: tuple[str, ...] = ("k",)
    goes_by_clock: bool = False


# -- transformWithState --------------------------------------------------------------------------


class CountRows(StatefulProcessor):
    def init(self, handle: Any) -> None:
        self.count = handle.getValueState("count", "n BIGINT")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        total = (self.count.get() or (0,))[0] + sum(1 for _ in rows)
        self.count.update((total,))
        yield Row(k=key[0], n=total)


class CountFrames(CountRows):
    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        total = (self.count.get() or (0,))[0] + sum(len(frame) for frame in rows)
        self.count.update((total,))
        yield pd.DataFrame({"k": [key[0]], "n": [total]})


class CountByTwo(CountRows):
    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for row in super().handleInputRows(key, rows, timerValues):
            yield Row(k=key[0], g=key[1], n=row.n)


class Statistics(StatefulProcessor):
    """Several fields of several types, some of them NULL."""

    def init(self, handle: Any) -> None:
        self.seen = handle.getValueState(
            "seen", "rows BIGINT, total DOUBLE, first TIMESTAMP, last DATE, texts ARRAY<STRING>"
        )

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        count, total, first, _, texts = self.seen.get() or (0, None, None, None, [])
        for row in rows:
            count += 1
            if row.v is not None and math.isfinite(row.v):
                total = (total or 0.0) + round(row.v)
            if row.t is not None:
                moment = row.t.astimezone().replace(tzinfo=None)
                first = moment if first is None else min(first, moment)
            texts = sorted({*texts, str(row.g)})
        last = None if first is None else first.date()
        self.seen.update((count, total, first, last, texts))
        yield Row(k=key[0], rows=count, total=total, day=str(last), texts=texts)


class Ranking(StatefulProcessor):
    """The three highest numbers, in a list."""

    def init(self, handle: Any) -> None:
        self.best = handle.getListState("best", "n BIGINT")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        numbers = [n for (n,) in self.best.get()] + [row.n for row in rows if row.n is not None]
        if numbers:
            self.best.put([(n,) for n in sorted(numbers, reverse=True)[:3]])
        yield Row(k=key[0], best=[n for (n,) in self.best.get()])


class Collected(StatefulProcessor):
    """All numbers, appended to a list."""

    def init(self, handle: Any) -> None:
        self.numbers = handle.getListState("numbers", "n BIGINT, text STRING")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for row in rows:
            self.numbers.appendValue((row.n, f"{row.g}"))
        found = sorted(self.numbers.get(), key=repr)
        yield Row(k=key[0], size=len(found), shown=repr(found[:3]), exists=self.numbers.exists())


class Words(StatefulProcessor):
    """How often each of another key was seen, in a map."""

    def init(self, handle: Any) -> None:
        self.counts = handle.getMapState("counts", "g INT", "n BIGINT")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for row in rows:
            if row.g is not None and row.g < 0:
                self.counts.removeKey((-row.g,))
            elif row.g is not None:
                found = self.counts.getValue((row.g,))
                self.counts.updateValue((row.g,), ((found.n if found else 0) + 1,))
        pairs = sorted((g, n) for (g,), (n,) in self.counts.iterator())
        assert [(g,) for g, _ in pairs] == sorted(self.counts.keys())
        yield Row(k=key[0], counts=dict(pairs), known=self.counts.containsKey((1,)))


class NestedKeys(StatefulProcessor):
    """A map with keys of several columns, and nested values."""

    def init(self, handle: Any) -> None:
        self.points = handle.getMapState(
            "points", "g INT, even BOOLEAN", "best STRUCT<n: BIGINT, at: DATE>, by MAP<STRING, INT>"
        )

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for row in rows:
            n = row.n or 0
            place = (row.g, n % 2 == 0)
            (before, _), by = self.points.getValue(place) or ((n, None), {})
            self.points.updateValue(place, ((max(before, n), None), {**by, str(n % 3): n % 3}))
        shown = sorted(repr((k, v[0].n, sorted(v[1]))) for k, v in self.points.iterator())
        yield Row(k=key[0], shown=shown)


class OnlyOnce(StatefulProcessor):
    """The first row of each number; in append mode."""

    def init(self, handle: Any) -> None:
        self.known = handle.getMapState("known", "n BIGINT", "x INT")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for row in rows:
            if row.n is not None and not self.known.containsKey((row.n,)):
                self.known.updateValue((row.n,), (1,))
                yield Row(k=key[0], n=row.n)


class Passing(StatefulProcessor):
    """Without state."""

    def init(self, handle: Any) -> None:
        pass

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for row in rows:
            yield Row(n=row.n, k=key[0], t=row.t)


class PassingFrames(Passing):
    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        for frame in rows:
            yield frame[["n", "k", "t"]]


class Cleared(StatefulProcessor):
    """A value that goes when a row says so."""

    def init(self, handle: Any) -> None:
        self.total = handle.getValueState("total", "n BIGINT")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        numbers = [row.n or 0 for row in rows]
        before = self.total.get()
        total = (before[0] if before else 0) + sum(numbers)
        self.total.update((total,))
        existed = self.total.exists()
        self.total.clear()
        assert existed
        assert not self.total.exists()
        assert self.total.get() is None
        self.total.update((total,))
        yield Row(k=key[0], total=total)


class Sessions(StatefulProcessor):
    """The sum of a key, when an event-time timer behind its last row fires."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.total = handle.getValueState("total", "n BIGINT, until BIGINT")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        total, until = self.total.get() or (0, 0)
        for row in rows:
            total += row.n or 0
            if row.t is not None:
                until = max(until, int(row.t.timestamp() * 1000) + 5000)
        for at in list(self.handle.listTimers()):
            self.handle.deleteTimer(at)
        if until:
            self.handle.registerTimer(until)
        self.total.update((total, until))
        yield from ()

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:
        at = expiredTimerInfo.getExpiryTimeInMs()
        assert at <= timerValues.getCurrentWatermarkInMs()
        total, until = self.total.get()
        assert until == at
        self.total.clear()
        yield Row(k=key[0], total=total, at=at)


class SessionFrames(Sessions):
    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        for frame in rows:
            given = (Row(n=None if n != n else int(n), t=_moment(t)) for n, t in
                     zip(frame["n"], frame["t"], strict=True))  # fmt: skip
            yield from Sessions.handleInputRows(self, key, given, timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:
        for row in Sessions.handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
            yield pd.DataFrame([row.asDict()])


def _moment(t: Any) -> Any:
    return None if t is pd.NaT else t.tz_localize("UTC").to_pydatetime()


class AtOnce(StatefulProcessor):
    """The sum so far, by a timer of processing time that has come when it is set; of two others
    one is deleted, and one is never due."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.total = handle.getValueState("total", "n BIGINT")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        numbers = [row.n or 0 for row in rows]
        self.total.update(((self.total.get() or (0,))[0] + sum(numbers),))
        now = timerValues.getCurrentProcessingTimeInMs()
        for at in (now, now - 1, now + 86_400_000):
            self.handle.registerTimer(at)
        self.handle.deleteTimer(now - 1)
        yield from ()

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:
        assert expiredTimerInfo.getExpiryTimeInMs() <= timerValues.getCurrentProcessingTimeInMs()
        yield Row(k=key[0], n=self.total.get()[0])


class AtOnceFrames(AtOnce):
    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        given = (Row(n=None if n != n else int(n)) for frame in rows for n in frame["n"])
        yield from AtOnce.handleInputRows(self, key, given, timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:
        for row in AtOnce.handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
            yield pd.DataFrame([row.asDict()])


class Living(StatefulProcessor):
    """Variables of all kinds that live for a day."""

    def init(self, handle: Any) -> None:
        self.count = handle.getValueState("count", "n BIGINT", 86_400_000)
        self.numbers = handle.getListState("numbers", "n BIGINT", 86_400_000)
        self.seen = handle.getMapState("seen", "n BIGINT", "x INT", 86_400_000)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        numbers = [row.n or 0 for row in rows]
        self.count.update(((self.count.get() or (0,))[0] + len(numbers),))
        self.numbers.appendList([(n,) for n in numbers])
        for n in numbers:
            self.seen.updateValue((n,), (1,))
        told = sum(n for (n,) in self.numbers.get())
        yield Row(k=key[0], n=self.count.get()[0], total=told, seen=len(list(self.seen.keys())))


class Minutes(StatefulProcessor):
    """A sum for each minute of event time, told when it is over; with the time of the minute."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.minutes = handle.getMapState("minutes", "at BIGINT", "n BIGINT")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for row in rows:
            if row.t is not None:
                at = int(row.t.timestamp()) // 60 * 60_000 + 60_000
                found = self.minutes.getValue((at,))
                self.minutes.updateValue((at,), ((found.n if found else 0) + (row.n or 0),))
                self.handle.registerTimer(at)
        yield from ()

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:
        at = expiredTimerInfo.getExpiryTimeInMs()
        n = self.minutes.getValue((at,)).n
        self.minutes.removeKey((at,))
        yield Row(k=key[0], at=at, n=n)


class Beginning(CountRows):
    """Begins with an initial state."""

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        self.count.update(((self.count.get() or (0,))[0] + initialState.start,))


class BeginningFrames(CountFrames):
    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        start = int(initialState["start"].sum())
        self.count.update(((self.count.get() or (0,))[0] + start,))


def _rows(
    processor: StatefulProcessor,
    returned: str,
    *keys: str,
    mode: str = "update",
    time: str = "None",
) -> Callable[[DataFrame], DataFrame]:
    def build(df: DataFrame) -> DataFrame:
        stream = df.withWatermark("t", _NEVER) if time == "EventTime" else df
        grouped = stream.groupBy(*(keys or ("k",)))
        return grouped.transformWithState(processor, returned, mode, time)

    return build


def _frames(
    processor: StatefulProcessor,
    returned: str,
    *keys: str,
    mode: str = "update",
    time: str = "None",
) -> Callable[[DataFrame], DataFrame]:
    def build(df: DataFrame) -> DataFrame:
        stream = df.withWatermark("t", _NEVER) if time == "EventTime" else df
        grouped = stream.groupBy(*(keys or ("k",)))
        return grouped.transformWithStateInPandas(processor, returned, mode, time)

    return build


def _with_initial_state(df: DataFrame, *, in_pandas: bool) -> DataFrame:
    start = df.sparkSession.createDataFrame(
        [("a", 100), ("b", 200), ("nowhere", 7), ("a", 11)], "name STRING, start BIGINT"
    )
    grouped = df.where("k IS NOT NULL").groupBy("k")
    initial = start.groupBy("name")
    if in_pandas:
        return grouped.transformWithStateInPandas(
            BeginningFrames(), "k STRING, n BIGINT", "update", "None", initial
        )
    return grouped.transformWithState(Beginning(), "k STRING, n BIGINT", "update", "None", initial)


def _chained(df: DataFrame) -> DataFrame:
    """Behind the processor the event time is the column that it returns."""
    minutes = (
        df.withWatermark("t", _NEVER)
        .groupBy("k")
        .transformWithState(
            MinuteTimes(), "k STRING, n BIGINT, until TIMESTAMP", "append", "EventTime",
            eventTimeColumnName="until",
        )
    )  # fmt: skip
    return minutes.groupBy(F.window("until", "1 hour"), "k").agg(
        F.sum("n").alias("n"), F.count("*").alias("minutes")
    )


class MinuteTimes(Minutes):
    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:
        for row in Minutes.handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
            # A minute behind its end: the watermark has come to that.
            until = pd.Timestamp(row.at + 60_000, unit="ms", tz="UTC").to_pydatetime()
            yield Row(k=row.k, n=row.n, until=until)


# -- applyInPandasWithState ----------------------------------------------------------------------


def count(key: Any, frames: Any, state: GroupState) -> Iterator[pd.DataFrame]:
    total = (state.getOption or (0,))[0] + sum(len(frame) for frame in frames)
    state.update((total,))
    yield pd.DataFrame({"k": [key[0]], "n": [total]})


def count_by_two(key: Any, frames: Any, state: GroupState) -> Iterator[pd.DataFrame]:
    total = (state.getOption or (0,))[0] + sum(len(frame) for frame in frames)
    state.update((total,))
    yield pd.DataFrame({"k": [key[0]], "g": [key[1]], "n": [total]})


def extremes(key: Any, frames: Any, state: GroupState) -> Iterator[pd.DataFrame]:
    low, high, last = state.getOption or (None, None, None)
    for frame in frames:
        numbers = [*frame["n"].dropna().astype("int64"), *(n for n in (low, high) if n is not None)]
        times = [*frame["t"].dropna(), *([] if last is None else [pd.Timestamp(last)])]
        low, high = (min(numbers), max(numbers)) if numbers else (None, None)
        last = max(times).to_pydatetime() if times else None
    state.update((low, high, last))
    yield pd.DataFrame({"k": [key[0]], "low": [low], "high": [high], "last": [str(last)]})


def pass_rows(key: Any, frames: Any, state: GroupState) -> Iterator[pd.DataFrame]:
    for frame in frames:
        yield frame[["k", "n", "v"]]


def idle(key: Any, frames: Any, state: GroupState) -> Iterator[pd.DataFrame]:
    """The sum of a key, when the watermark is behind its last row."""
    if state.hasTimedOut:
        (total, _) = state.get
        state.remove()
        yield pd.DataFrame({"k": [key[0]], "total": [total]})
        return
    total, until = state.getOption or (0, 0)
    for frame in frames:
        total += int(frame["n"].fillna(0).sum())
        times = frame["t"].dropna()
        if len(times):
            until = max(until, int(times.max().tz_localize("UTC").timestamp() * 1000) + 5000)
    state.update((total, until))
    state.setTimeoutTimestamp(max(until, state.getCurrentWatermarkMs() + 1))


def soon(key: Any, frames: Any, state: GroupState) -> Iterator[pd.DataFrame]:
    """The sum of a key, a millisecond later."""
    if state.hasTimedOut:
        (total,) = state.get
        state.remove()
        yield pd.DataFrame({"k": [key[0]], "n": [total]})
        return
    (total,) = state.getOption or (0,)
    state.update((total + sum(int(frame["n"].fillna(0).sum()) for frame in frames),))
    state.setTimeoutDuration(1)


def _groups(
    function: Callable[..., Any],
    returned: str,
    state: str,
    *keys: str,
    mode: str = "update",
    timeout: str = GroupStateTimeout.NoTimeout,
) -> Callable[[DataFrame], DataFrame]:
    def build(df: DataFrame) -> DataFrame:
        is_timed = timeout == GroupStateTimeout.EventTimeTimeout
        stream = df.withWatermark("t", _NEVER) if is_timed else df
        grouped = stream.groupBy(*(keys or ("k",)))
        return grouped.applyInPandasWithState(function, returned, state, mode, timeout)

    return build


def _behind_a_projection(df: DataFrame) -> DataFrame:
    even = df.where("n % 2 = 0").select(F.upper("k").alias("k"), (F.col("g") + 1).alias("g"), "n")
    counted = even.groupBy("k").transformWithState(
        CountRows(), "k STRING, n BIGINT", "update", "None"
    )
    return counted.select("k", (F.col("n") * 10).alias("n")).where("k <> ''")


_COUNTS: Final = "k STRING, n BIGINT"
_SESSIONS: Final = "k STRING, total BIGINT, at BIGINT"
_PASSED: Final = "n BIGINT, k STRING, t TIMESTAMP"
QUERIES: Final[Mapping[str, CustomQuery]] = {
    "count in rows": CustomQuery(_rows(CountRows(), _COUNTS)),
    "count in frames": CustomQuery(_frames(CountFrames(), _COUNTS)),
    "count in processing time": CustomQuery(
        _rows(CountRows(), _COUNTS, time="ProcessingTime"), goes_by_clock=True
    ),
    "timers of processing time": CustomQuery(
        _rows(AtOnce(), _COUNTS, mode="append", time="ProcessingTime"),
        "append",
        goes_by_clock=True,
    ),
    "timers of processing time in frames": CustomQuery(
        _frames(AtOnceFrames(), _COUNTS, mode="append", time="ProcessingTime"),
        "append",
        goes_by_clock=True,
    ),
    "variables that live for a day": CustomQuery(
        _rows(Living(), "k STRING, n BIGINT, total BIGINT, seen INT", time="ProcessingTime"),
        goes_by_clock=True,
    ),
    "fields of many types": CustomQuery(
        _rows(Statistics(), "k STRING, rows BIGINT, total DOUBLE, day STRING, texts ARRAY<STRING>")
    ),
    "a list that is replaced": CustomQuery(_rows(Ranking(), "k STRING, best ARRAY<BIGINT>")),
    "a list that grows": CustomQuery(
        _rows(Collected(), "k STRING, size INT, shown STRING, exists BOOLEAN")
    ),
    "a map": CustomQuery(_rows(Words(), "k STRING, counts MAP<INT, BIGINT>, known BOOLEAN")),
    "a map of nested values": CustomQuery(_rows(NestedKeys(), "k STRING, shown ARRAY<STRING>")),
    "a value that is cleared": CustomQuery(_rows(Cleared(), "k STRING, total BIGINT")),
    "the first of each": CustomQuery(
        _rows(OnlyOnce(), _COUNTS, mode="append"), "append", ("k", "n")
    ),
    "without state in rows": CustomQuery(_rows(Passing(), _PASSED, mode="append"), "append"),
    "without state in frames": CustomQuery(
        _frames(PassingFrames(), _PASSED, mode="append"), "append"
    ),
    "by two keys": CustomQuery(
        _rows(CountByTwo(), "k STRING, g INT, n BIGINT", "k", "g"), keys=("k", "g")
    ),
    "by a time": CustomQuery(_rows(CountRows(), "k TIMESTAMP, n BIGINT", "t")),
    "by a number": CustomQuery(_rows(CountRows(), "k INT, n BIGINT", "g")),
    "by a number in frames": CustomQuery(
        lambda df: _frames(CountFrames(), "k INT, n BIGINT", "g")(df.where("g IS NOT NULL"))
    ),
    "timers of event time": CustomQuery(
        _rows(Sessions(), _SESSIONS, mode="append", time="EventTime"), "append"
    ),
    "timers of event time in frames": CustomQuery(
        _frames(SessionFrames(), _SESSIONS, mode="append", time="EventTime"), "append"
    ),
    "several timers of a key": CustomQuery(
        _rows(Minutes(), "k STRING, at BIGINT, n BIGINT", mode="append", time="EventTime"), "append"
    ),
    "an initial state in rows": CustomQuery(lambda df: _with_initial_state(df, in_pandas=False)),
    "an initial state in frames": CustomQuery(lambda df: _with_initial_state(df, in_pandas=True)),
    "chained by its event time": CustomQuery(_chained, "append"),
    "between projections": CustomQuery(_behind_a_projection),
    "groups: count": CustomQuery(_groups(count, _COUNTS, "n BIGINT")),
    "groups: by two keys": CustomQuery(
        lambda df: _groups(count_by_two, "k STRING, g INT, n BIGINT", "n BIGINT", "k", "g")(
            df.where("g IS NOT NULL")
        ),
        keys=("k", "g"),
    ),
    "groups: numbers and times": CustomQuery(
        _groups(
            extremes,
            "k STRING, low BIGINT, high BIGINT, last STRING",
            "low BIGINT, high BIGINT, last TIMESTAMP",
        )
    ),
    "groups: in append mode": CustomQuery(
        _groups(pass_rows, "k STRING, n BIGINT, v DOUBLE", "n BIGINT", mode="append"), "append"
    ),
    "groups: timeouts of event time": CustomQuery(
        _groups(
            idle,
            "k STRING, total BIGINT",
            "total BIGINT, until BIGINT",
            mode="append",
            timeout=GroupStateTimeout.EventTimeTimeout,
        ),
        "append",
    ),
    "groups: with a timeout that is never set": CustomQuery(
        _groups(count, _COUNTS, "n BIGINT", timeout=GroupStateTimeout.ProcessingTimeTimeout),
        goes_by_clock=True,
    ),
    "groups: timeouts of processing time": CustomQuery(
        # Its last step is there to let time pass in Spark.
        lambda df: _groups(
            soon,
            _COUNTS,
            "n BIGINT",
            mode="append",
            timeout=GroupStateTimeout.ProcessingTimeTimeout,
        )(df.where("NOT k <=> 'last'")),
        "append",
        goes_by_clock=True,
    ),
}
# A worker of Spark's cannot import this file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])
