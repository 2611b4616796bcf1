"""Processors of :mod:`tests.parity.stateful.custom_queries`."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark import cloudpickle
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor


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


class MinuteTimes(Minutes):
    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:
        for row in Minutes.handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
            # A minute behind its end: the watermark has come to that.
            until = pd.Timestamp(row.at + 60_000, unit="ms", tz="UTC").to_pydatetime()
            yield Row(k=row.k, n=row.n, until=until)


# A worker of Spark's cannot import this file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])
