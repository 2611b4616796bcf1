"""Queries that keep state, over numbered records (:mod:`tests.faults.roads.numbers`).

What such a query has told and what it keeps follow from how far it has read and from its watermark.
So both are compared with a batch computation behind every recovery, at the epoch committed last;
and each start has another number of tasks.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.epoch_state import EpochState
from engine.checkpoint.logs.offset_log import OffsetEntry
from engine.checkpoint.rewindable import RewindableSink
from engine.errors import CheckpointCorruptError
from engine.execution.definition import StreamBinding
from engine.expressions.releases import SPARK_VERSION
from engine.expressions.tree import Expr
from engine.pipeline.pipeline import Pipeline, Project, SourceRelation, Watermark
from engine.pipeline.stateful import Exchange, Exchanged, StatefulStep
from engine.sinks.contract import SinkBinding
from engine.state.restoring import read_tables
from tests.faults.roads.numbers import (
    BACKLOG,
    PARTITIONS,
    RECORDS,
    Ledger,
    NumbersReader,
    feeding,
    plain,
    rows_of,
)
from tests.faults.roads.road import PLACES, Meanwhile, Road, Setup
from tests.faults.roads.state_mutants import EARLY, MUTANTS

BEGAN_S = 10_000
"""Record k happens k seconds behind it."""
DELAY_S = BACKLOG + 100
TASKS_MAX = 4
_RETAINED = 20
"""Epochs: few, so that old snapshots are deleted while others restart."""
_TRIES = 10
LONG, TIME = pa.int64(), pa.timestamp("us", tz="UTC")
Row = tuple[Any, ...]


class StatefulRoad(Road):
    """
    :cvar inputs: so many streams.
    :cvar stays: whether a key is of one partition, and its state kept where that is read.
    """

    places = (*PLACES, "snapshot.before", "snapshot.after")
    mutants: ClassVar = {**EARLY, **MUTANTS}
    inputs: ClassVar[int] = 1
    stays: ClassVar[bool] = False

    # -- what a query is --------------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def columns(cls, source: int) -> tuple[tuple[Expr, ...], pa.Schema, int, tuple[int, ...]]:
        """What becomes of the records of a stream: columns, their names, which is the event time,
        and which are the keys of the exchange."""

    @classmethod
    @abstractmethod
    def step(cls) -> StatefulStep: ...

    @classmethod
    @abstractmethod
    def told(cls, read: Sequence[Sequence[int]], watermark_s: int) -> Iterable[Row]:
        """All rows that a batch computation has.

        :param read: of each stream, and each of its partitions: so many records.
        """

    @classmethod
    @abstractmethod
    def kept(cls, read: Sequence[Sequence[int]], watermark_s: int) -> Iterable[Row]:
        """The same of its state; as :meth:`found` shows it."""

    @classmethod
    @abstractmethod
    def found(cls, row: Mapping[str, Any]) -> Row | None:
        """A row of a snapshot as :meth:`kept` has it; None: it is not compared."""

    @classmethod
    def last(cls, rows: Iterator[list[Any]]) -> Iterable[Row]:
        """What a reader makes of all rows that were told."""
        return map(_flat, rows)

    @classmethod
    def of_partition(cls, key: Expr) -> Expr:
        """Such a key, of each partition another one."""
        return op("Add", op("Multiply", key, literal(PARTITIONS)), PARTITION) if cls.stays else key

    @classmethod
    def in_partition(cls, key: int, partition: int) -> int:
        """The same of a record."""
        return key * PARTITIONS + partition if cls.stays else key

    # -- a road -----------------------------------------------------------------------------------

    @contextmanager
    def serving(self, folder: Path) -> Iterator[None]:
        self._folder = folder
        yield

    def make(self, name: str) -> dict[str, str]:
        ends = ("out", *(f"in{source}" for source in range(self.inputs)))
        where = {end: str(self._folder / name / end) for end in ends}
        for folder in where.values():
            Path(folder).mkdir(parents=True)
        return where

    def feeding(self, setup: Setup) -> AbstractContextManager[None]:
        stack = ExitStack()
        for source in range(self.inputs):
            folder = setup.where[f"in{source}"]
            stack.enter_context(feeding(folder, Checkpoint(setup.checkpoint), source))
        return stack

    def went_in(self, setup: Setup) -> Counter[bytes]:
        return self._expected(_entry(setup))

    def records(self, setup: Setup) -> int:
        return sum(
            sum(each.values()) for each in _entry(setup)[1].offsets if isinstance(each, dict)
        )

    def came_out(self, setup: Setup) -> Counter[bytes]:
        return self._observed(setup, _entry(setup))

    def differs(self, setup: Setup) -> str | None:
        for turn in range(_TRIES):
            try:
                entry = _entry(setup)
                expected, observed = self._expected(entry), self._observed(setup, entry)
                break
            except (CheckpointCorruptError, LookupError):  # the query runs, and prunes
                if turn == _TRIES - 1:
                    raise
        if expected == observed:
            return None
        return f"lost: {_some(expected - observed)}, repeated: {_some(observed - expected)}"

    def _expected(self, at: tuple[int, OffsetEntry]) -> Counter[bytes]:
        read = [list(offset.values()) for offset in at[1].offsets if isinstance(offset, dict)]
        watermark_s = EpochState.of(at[1]).next_watermark_ms // 1000
        newest_s = min(max(stream) for stream in read) - 1 + BEGAN_S
        if watermark_s > max(0, newest_s - DELAY_S):
            return Counter([b"the watermark is %d, of %d" % (watermark_s, newest_s)])
        told, kept = self.told(read, watermark_s), self.kept(read, watermark_s)
        return Counter([*(_text("told", row) for row in told), *(_text("kept", r) for r in kept)])

    def _observed(self, setup: Setup, at: tuple[int, OffsetEntry]) -> Counter[bytes]:
        state, storage = EpochState.of(at[1]), Checkpoint(setup.checkpoint).storage
        groups = range(PARTITIONS if self.stays else state.key_groups or 0)
        told = self.last(Ledger(setup.where["out"]).rows(at[0]))
        observed = Counter(_text("told", row) for row in told)
        tables = read_tables(
            storage, state.handles, groups, query_id=None, watermark_ms=state.next_watermark_ms
        )
        for table in tables.values():
            for values in rows_of(table):
                found = self.found(dict(zip(table.column_names, map(plain, values), strict=True)))
                if found is not None:
                    observed[_text("kept", found)] += 1
        return observed

    @classmethod
    def options(cls, setup: Setup) -> Mapping[str, Any]:
        """Each start has another number of tasks."""
        committed = Checkpoint(setup.checkpoint).commits.latest_id() or 1
        tasks = 1 + committed % TASKS_MAX
        number = {"partitions_per_task": 1 + tasks % 2} if cls.stays else {"reducers": tasks}
        return {**number, "min_epochs_to_retain": _RETAINED}

    def meanwhile(self, setup: Setup, draw: Callable[[], float]) -> Mapping[str, Meanwhile]:
        def rewind() -> None:
            checkpoint = Checkpoint(setup.checkpoint)
            back = 1 + int(draw() * (_RETAINED // 2))
            kept = checkpoint.offsets.ids()[0]
            target = max(checkpoint.committed_epoch() - back, kept)
            sink = RewindableSink(rewind=Ledger(setup.where["out"]).rewind)
            checkpoint.rewind(target, sink=sink, accept_repeats=True)

        return {"away, and rewound": Meanwhile(5, rewind)}

    @classmethod
    def streams(cls, setup: Setup) -> tuple[StreamBinding, ...]:
        return tuple(cls._stream(setup, source) for source in range(cls.inputs))

    @classmethod
    def _stream(cls, setup: Setup, source: int) -> StreamBinding:
        columns, schema, at, keys = cls.columns(source)
        steps = (Project(columns, schema), Watermark(at, DELAY_S * 1000, source))
        relation = SourceRelation("numbers", {}, RECORDS)
        if cls.stays:
            step = cls.step()
            pipeline = Pipeline(relation, (*steps, step), step.schema)
        else:
            exchange = Exchange(cls.inputs, keys, source)
            pipeline = Pipeline(relation, steps, schema, exchange=exchange)
        return StreamBinding(pipeline, NumbersReader(setup.where[f"in{source}"]), "numbers")

    @staticmethod
    def stream(setup: Setup) -> StreamBinding:
        raise NotImplementedError("there are several")

    @classmethod
    def stages(cls, setup: Setup) -> tuple[Pipeline, ...]:
        if cls.stays:
            return ()
        step = cls.step()
        sides = tuple(cls.columns(source)[1] for source in range(cls.inputs))
        senders = tuple((source,) for source in range(cls.inputs))
        return (Pipeline(Exchanged(sides, senders), (step,), step.schema),)

    @staticmethod
    def sink(setup: Setup) -> SinkBinding:
        return Ledger(setup.where["out"]).binding()


def column(ordinal: int, dtype: pa.DataType = LONG) -> Expr:
    return Expr("Column", (), dtype, True, {"ordinal": ordinal, "name": f"c{ordinal}"})


def literal(value: Any, dtype: pa.DataType = LONG) -> Expr:
    return Expr("Literal", (), dtype, False, {"value": value})


def op(name: str, *children: Expr, dtype: pa.DataType = LONG) -> Expr:
    return Expr(name, children, dtype, True, {"eval_mode": "ANSI", SPARK_VERSION: "4.2.0"})


def time_of(seq: Expr, later_s: int = 0) -> Expr:
    return op("SecondsToTimestamp", op("Add", seq, literal(BEGAN_S + later_s)), dtype=TIME)


def floor(seq: Expr, to: int) -> Expr:
    """The multiple in front of it."""
    return op("Subtract", seq, op("Remainder", seq, literal(to)))


PARTITION, SEQ = column(0), column(1)


def _entry(setup: Setup) -> tuple[int, OffsetEntry]:
    checkpoint = Checkpoint(setup.checkpoint)
    epoch = checkpoint.commits.latest_id()
    entry = None if epoch is None else checkpoint.offsets.get(epoch)
    if epoch is None or entry is None:
        raise LookupError(f"epoch {epoch} is not there")
    return epoch, entry


def _flat(row: Iterable[Any]) -> Row:
    found: list[Any] = []
    for value in row:
        found.extend(value if isinstance(value, list) else [value])
    return tuple(found)


def _text(what: str, row: Row) -> bytes:
    return f"{what} {' '.join(map(str, row))}".encode()


def _some(found: Counter[bytes]) -> str:
    return f"{len(found)}: {sorted(found)[:4]}"
