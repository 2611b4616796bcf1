"""Queries with the user's own functions and classes, for both engines.

Their input has the columns of :data:`EVENTS`. What they return does not depend on how rows come
together in micro-batches or in epochs: in update mode the last row of each key is a function of all
of its rows, in append mode each row is a function of itself, or of all rows up to a watermark.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd
from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from tests.parity.stateful.custom_processors import (
    AtOnce,
    AtOnceFrames,
    Beginning,
    BeginningFrames,
    Cleared,
    Collected,
    CountByTwo,
    CountFrames,
    CountRows,
    Living,
    Minutes,
    MinuteTimes,
    NestedKeys,
    OnlyOnce,
    Passing,
    PassingFrames,
    Ranking,
    SessionFrames,
    Sessions,
    Statistics,
    Words,
)

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
