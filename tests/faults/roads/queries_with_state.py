"""The queries: a windowed count in both output modes, sessions, a deduplication, an outer join of
two streams, and a user's own state; most of them also with keys that stay in their partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql import Row as SparkRow
from pyspark.sql.streaming import StatefulProcessor

from engine.expressions.tree import Expr
from engine.pipeline.stateful import (
    APPEND,
    UPDATE,
    Aggregate,
    Deduplicate,
    GroupRows,
    GroupSessions,
    JoinSide,
    JoinStreams,
    StatefulStep,
)
from tests.custom_states import processor_step
from tests.faults.roads.state_mutants import EARLY, IN_PARTITIONS, MUTANTS
from tests.faults.roads.stateful import (
    BEGAN_S,
    LONG,
    PARTITION,
    SEQ,
    TIME,
    Row,
    StatefulRoad,
    column,
    floor,
    literal,
    op,
    time_of,
)

Read = Sequence[Sequence[int]]
Columns = tuple[tuple[Expr, ...], pa.Schema, int, tuple[int, ...]]
COUNT = Aggregate("Count", (literal(1),), LONG)
KEYS, WINDOW = 7, 50


def _schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema(list(columns.items()))


class AppendedCounts(StatefulRoad):
    """Each window once, when the watermark has passed it."""

    level = "L5 windowed count, append"
    output_mode = APPEND
    mutants: ClassVar = MUTANTS

    @classmethod
    def columns(cls, source: int) -> Columns:
        key, at = op("Remainder", SEQ, literal(KEYS)), time_of(floor(SEQ, WINDOW))
        key = cls.of_partition(key)
        return (key, time_of(SEQ), at), _schema(key=LONG, time=TIME, at=TIME), 1, (0, 2)

    @classmethod
    def step(cls) -> StatefulStep:
        schema = _schema(key=LONG, at=TIME, count=LONG)
        return GroupRows("counts", (0, 2), (COUNT,), schema, cls.output_mode, event_time=1)

    @classmethod
    def counts(cls, read: Read) -> Iterable[Row]:
        """All windows."""
        found = Counter(
            (cls.in_partition(k % KEYS, partition), BEGAN_S + k - k % WINDOW)
            for partition, end in enumerate(read[0])
            for k in range(end)
        )
        return [(*key, count) for key, count in found.items()]

    @classmethod
    def told(cls, read: Read, watermark_s: int) -> Iterable[Row]:
        return [row for row in cls.counts(read) if row[1] <= watermark_s]

    @classmethod
    def kept(cls, read: Read, watermark_s: int) -> Iterable[Row]:
        return [row for row in cls.counts(read) if row[1] > watermark_s]

    @classmethod
    def found(cls, row: Mapping[str, Any]) -> Row | None:
        return tuple(value for name, value in row.items() if not name.startswith("#"))


class UpdatedCounts(AppendedCounts):
    """Each window whenever it has changed: the last one counts."""

    level = "L5 windowed count, update"
    output_mode = UPDATE

    @classmethod
    def told(cls, read: Read, watermark_s: int) -> Iterable[Row]:
        return cls.counts(read)

    @classmethod
    def last(cls, rows: Iterator[list[Any]]) -> Iterable[Row]:
        newest = {(key, at): count for key, at, count in rows}
        return [(*key, count) for key, count in newest.items()]


class Sessions(StatefulRoad):
    """Each key is there for a while, and away for longer."""

    level = "L5 session windows"
    mutants: ClassVar = MUTANTS
    gap_s, visit, keys = 10, 60, 5

    @classmethod
    def columns(cls, source: int) -> Columns:
        visit = op("Remainder", floor(SEQ, cls.visit), literal(cls.keys * cls.visit))
        visit = cls.of_partition(visit)
        session = pa.struct([("start", TIME), ("end", TIME)])
        names = (literal("start", pa.string()), literal("end", pa.string()))
        ends = Expr(
            "CreateNamedStruct",
            (names[0], time_of(SEQ), names[1], time_of(SEQ, cls.gap_s)),
            session,
            False,
        )
        schema = _schema(key=LONG, session=session, time=TIME)
        return (visit, ends, time_of(SEQ)), schema, 2, (0,)

    @classmethod
    def step(cls) -> StatefulStep:
        schema = pa.schema([*list(cls.columns(0)[1])[:2], pa.field("count", LONG)])
        return GroupSessions("sessions", (0,), 1, (COUNT,), (0, 1), schema, APPEND)

    @classmethod
    def sessions(cls, read: Read) -> Iterable[Row]:
        visits: dict[tuple[int, int], list[int]] = {}
        for partition, end in enumerate(read[0]):
            for k in range(end):
                first = k - k % cls.visit
                key = cls.in_partition(first % (cls.keys * cls.visit), partition)
                visits.setdefault((key, first), []).append(k + BEGAN_S)
        for (key, _), times in visits.items():
            yield key, min(times), max(times) + cls.gap_s, len(times)

    @classmethod
    def told(cls, read: Read, watermark_s: int) -> Iterable[Row]:
        return [row for row in cls.sessions(read) if row[2] <= watermark_s]

    @classmethod
    def kept(cls, read: Read, watermark_s: int) -> Iterable[Row]:
        return [row for row in cls.sessions(read) if row[2] > watermark_s]

    @classmethod
    def found(cls, row: Mapping[str, Any]) -> Row | None:
        return tuple(value for name, value in row.items() if not name.startswith("#"))


class Deduplicated(StatefulRoad):
    """Each time comes several times, from both partitions."""

    level = "L5 deduplication"
    times = 3

    @classmethod
    def columns(cls, source: int) -> Columns:
        return (time_of(floor(SEQ, cls.times)),), _schema(at=TIME), 0, (0,)

    @classmethod
    def step(cls) -> StatefulStep:
        return Deduplicate("first", (0,), _schema(at=TIME), event_time=0)

    @classmethod
    def told(cls, read: Read, watermark_s: int) -> Iterable[Row]:
        return [(BEGAN_S + k,) for k in range(0, max(read[0]), cls.times)]

    @classmethod
    def kept(cls, read: Read, watermark_s: int) -> Iterable[Row]:
        return [row for row in cls.told(read, watermark_s) if row[0] > watermark_s]

    @classmethod
    def found(cls, row: Mapping[str, Any]) -> Row | None:
        return (row["at"],)


class Joined(StatefulRoad):
    """Every second record has its like in the other stream; the others leave alone."""

    level = "L5 full outer join"
    inputs = 2
    alone, bound_s = 1_000_000_000, 100

    @classmethod
    def columns(cls, source: int) -> Columns:
        key = op("Add", op("Multiply", SEQ, literal(2)), PARTITION)
        other = op("Multiply", op("Remainder", SEQ, literal(2)), literal(cls.alone * source))
        schema = pa.schema([(f"key{source}", LONG), (f"at{source}", TIME)])
        return (op("Add", key, other), time_of(SEQ)), schema, 1, (0,)

    @classmethod
    def step(cls) -> StatefulStep:
        schemas = [cls.columns(source)[1] for source in range(2)]
        micros = op("UnixMicros", column(1, TIME))
        evicts = op("Add", micros, literal(cls.bound_s * 1_000_000))
        left, right = (JoinSide(schema, (0,), 1, evicts) for schema in schemas)
        both = pa.schema([*schemas[0], *schemas[1]])
        return JoinStreams("join", "full", left, right, None, both)

    @classmethod
    def _rows(cls, read: Read, source: int) -> Iterator[tuple[int, int]]:
        for partition, end in enumerate(read[source]):
            for k in range(end):
                yield 2 * k + partition + cls.alone * source * (k % 2), BEGAN_S + k

    @classmethod
    def told(cls, read: Read, watermark_s: int) -> Iterable[Row]:
        left, right = (dict(cls._rows(read, source)) for source in range(2))
        done_s = watermark_s - cls.bound_s
        for key, at in left.items():
            if key in right:
                yield key, at, key, right[key]
            elif at <= done_s:
                yield key, at, None, None
        for key, at in right.items():
            if key not in left and at <= done_s:
                yield None, None, key, at

    @classmethod
    def kept(cls, read: Read, watermark_s: int) -> Iterable[Row]:
        for source in range(2):
            for key, at in cls._rows(read, source):
                if at + cls.bound_s > watermark_s:
                    yield f"of {source}", key, at

    @classmethod
    def found(cls, row: Mapping[str, Any]) -> Row | None:
        source = 0 if "key0" in row else 1
        return f"of {source}", row[f"key{source}"], row[f"at{source}"]


class Remembering(StatefulProcessor):
    """Of each row: how many there were, how many are in the list, and the sum of the map. A timer
    for every tenth."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.count = handle.getValueState("count", "n long")
        self.items = handle.getListState("items", "v long")
        self.newest = handle.getMapState("newest", "m long", "v long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[SparkRow]:
        for row in rows:
            (before,) = self.count.get() or (0,)
            self.count.update((before + 1,))
            if before % 10 == 0:
                self.items.put([(row.v,)])
                self.handle.registerTimer((row.v + BEGAN_S) * 1000 + 500)
            else:
                self.items.appendValue((row.v,))
            self.newest.updateValue((row.v % 3,), (row.v,))
            items = len(list(self.items.get()))
            total = sum(value for _, (value,) in self.newest.iterator())
            yield SparkRow(k=key[0], shown=f"{before + 1} {items} {total}")

    def handleExpiredTimer(
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[SparkRow]:
        yield SparkRow(k=key[0], shown=f"timer {expiredTimerInfo.getExpiryTimeInMs()}")


class Remembered(StatefulRoad):
    """Value, list and map, and timers of event time. A key is of one partition: the order of its
    rows is known."""

    level = "L5 transformWithState"

    @classmethod
    def columns(cls, source: int) -> Columns:
        key = op("Add", op("Multiply", op("Remainder", SEQ, literal(KEYS)), literal(2)), PARTITION)
        return (key, SEQ, time_of(SEQ)), _schema(k=LONG, v=LONG, at=TIME), 2, (0,)

    @classmethod
    def step(cls) -> StatefulStep:
        return processor_step(
            Remembering(), "k long, v long, at timestamp", "k long, shown string",
            time_mode="EventTime",
        )  # fmt: skip

    @classmethod
    def told(cls, read: Read, watermark_s: int) -> Iterable[Row]:
        for partition, end in enumerate(read[0]):
            for first in range(KEYS):
                key, newest = 2 * first + partition, dict[int, int]()
                for count, v in enumerate(range(first, end, KEYS)):
                    newest[v % 3] = v
                    yield key, f"{count + 1} {count % 10 + 1} {sum(newest.values())}"
                    if count % 10 == 0 and v + BEGAN_S < watermark_s:
                        yield key, f"timer {(v + BEGAN_S) * 1000 + 500}"

    @classmethod
    def kept(cls, read: Read, watermark_s: int) -> Iterable[Row]:
        return ()

    @classmethod
    def found(cls, row: Mapping[str, Any]) -> Row | None:
        return None  # what comes of it is told with the next row of each key


class CountsInPartitions(UpdatedCounts):
    """Each key is of one partition."""

    level = "L5 windowed count, keys in partitions"
    stays = True
    mutants: ClassVar = {**EARLY, **IN_PARTITIONS}


class AppendedInPartitions(AppendedCounts):
    """Likewise."""

    level = "L5 windowed count, append, keys in partitions"
    stays = True
    mutants: ClassVar = IN_PARTITIONS


class SessionsInPartitions(Sessions):
    """Likewise."""

    level = "L5 session windows, keys in partitions"
    stays = True
    mutants: ClassVar = IN_PARTITIONS


class DeduplicatedInPartitions(Deduplicated):
    """Each time comes several times from each partition, and counts in each."""

    level = "L5 deduplication, keys in partitions"
    stays = True
    mutants: ClassVar = {**EARLY, **IN_PARTITIONS}

    @classmethod
    def columns(cls, source: int) -> Columns:
        (at,), _, _, _ = super().columns(source)
        return (PARTITION, at), _schema(partition=LONG, at=TIME), 1, (0, 1)

    @classmethod
    def step(cls) -> StatefulStep:
        return Deduplicate("first", (0, 1), cls.columns(0)[1], event_time=1)

    @classmethod
    def told(cls, read: Read, watermark_s: int) -> Iterable[Row]:
        return [
            (partition, BEGAN_S + k)
            for partition, end in enumerate(read[0])
            for k in range(0, end, cls.times)
        ]

    @classmethod
    def kept(cls, read: Read, watermark_s: int) -> Iterable[Row]:
        return [row for row in cls.told(read, watermark_s) if row[1] > watermark_s]

    @classmethod
    def found(cls, row: Mapping[str, Any]) -> Row | None:
        return row["partition"], row["at"]


class RememberedInPartitions(Remembered):
    """Its keys are of one partition anyhow."""

    level = "L5 transformWithState, keys in partitions"
    stays = True
    mutants: ClassVar = {**EARLY, **IN_PARTITIONS}
