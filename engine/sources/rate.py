"""``rate``: so many rows per second, each with a timestamp and a counter. Spark's test source.

Partition i of n yields the values i, i+n, i+2n, ... Its row k (from 1) is due k periods after the
stream was created, a period being n / rowsPerSecond seconds. That time is the row's timestamp.

=================  ==================  =========================================================
option             default
=================  ==================  =========================================================
rowsPerSecond      1                   of all partitions together
numPartitions      parallelism         the offsets of a checkpoint fix it
rampUpTime                             taken and ignored, as in Spark's continuous mode
=================  ==================  =========================================================

An offset has, per partition, the value and the time of the last row that was **read**::

    {"0":{"value":22,"runTimeMs":1795174660561},"1":{"value":23,"runTimeMs":1795174660561}}

Both engines continue each other's checkpoints. They differ in one thing: Spark cuts the period to
whole milliseconds, so 600 rows/s on one partition become 1,000, and more than 1,000 have no pace at
all; here the period is exact. A restart produces the rows of the pause at once, as in Spark.

Source: Spark's RateStreamContinuousStream.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from threading import Event
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource

from engine.base.connector_options import DEFAULT_PARALLELISM, Options
from engine.base.text_tables import are, count
from engine.errors import SourceError
from engine.expressions.types import TIMESTAMP
from engine.sources.contract import DataSourceContinuousReader, Offset, PartitionReader
from engine.sources.micro_batch import MicroBatchReader

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

BATCH_ROWS: Final = 65_536
"""So many rows at most are returned at once."""
_STEPS: Final = np.arange(BATCH_ROWS, dtype=np.int64)


class RateDataSource(DataSource):
    """Registers with Spark as ``arrow_rate``: the name ``rate`` is taken by Spark's own."""

    def __init__(self, options: Mapping[str, str]) -> None:
        taken = Options("source rate", options)
        self._rows_per_second = taken.integer("rowsPerSecond", 1, minimum=1)
        parallelism = taken.integer(DEFAULT_PARALLELISM, 2, minimum=1)
        self._partitions = taken.integer("numPartitions", parallelism, minimum=1, maximum=1_000_000)
        taken.text("rampUpTime")
        taken.refuse_others()

    @classmethod
    def name(cls) -> str:
        return "arrow_rate"

    def schema(self) -> str:
        return "timestamp TIMESTAMP, value BIGINT"

    def continuousReader(self, schema: StructType) -> RateReader:
        """The rows for as long as the query lives."""
        return RateReader(self._rows_per_second, self._partitions)

    def streamReader(self, schema: StructType) -> MicroBatchReader:
        return MicroBatchReader(self.continuousReader(schema), schema)


@dataclass(frozen=True)
class RatePartition:
    """Where a partition's next row comes after.

    :param value: of the last row that was read; ``index - partitions`` before the first.
    :param run_time_ms: when that row was due, rounded down.
    """

    index: int
    value: int
    run_time_ms: int


class RateReader(DataSourceContinuousReader):
    """The driver's side."""

    tuningOptions = ("rowsPerSecond", "rampUpTime")

    def __init__(self, rows_per_second: int, partitions: int) -> None:
        self.pace = Pace(rows_per_second, partitions)
        self._created_ms = time.time_ns() // 1_000_000

    def initialOffset(self) -> Offset:
        n = self.pace.partitions
        return self.mergeOffsets([{str(i): _position(i - n, self._created_ms)} for i in range(n)])

    def partitions(self, start: Offset) -> Sequence[RatePartition]:
        n = self.pace.partitions
        found = [
            RatePartition(index, position["value"], position["runTimeMs"])
            for index, position in sorted(_positions(start).items())
        ]
        if len(found) != n:
            raise SourceError(
                f"The previous run contained {count(len(found), 'partition')}, but "
                f"{count(n, 'partition')} {are(n)} currently configured. The "
                "numPartitions option cannot be changed.",
                hint=f'Set option("numPartitions", {len(found)}).',
            )
        for each in found:
            if each.value % n != each.index % n or each.value < each.index - n:
                raise SourceError(
                    f"The offset {start!r} is not one of a rate source with "
                    f"{count(n, 'partition')}: partition {each.index} cannot have "
                    f"produced the value {each.value}."
                )
        return found

    def open(self, partition: RatePartition, until: Offset | None = None) -> RatePartitionReader:
        if until is None:
            return RatePartitionReader(self.pace, partition)
        return RatePartitionReader(
            self.pace, partition, _positions(until)[partition.index]["value"]
        )

    def mergeOffsets(self, offsets: Sequence[Offset]) -> Offset:
        return dict(chain.from_iterable(each.items() for each in offsets))

    def latestOffset(self, start: Offset) -> Offset:
        """Where the rows end that are due by now (for micro-batches)."""
        now_us = time.time_ns() // 1_000  # of all partitions: rows are due in turn
        parts = [RatePartitionReader(self.pace, each) for each in self.partitions(start)]
        return self.mergeOffsets([each.skip_due(now_us) for each in parts])


def _position(value: int, run_time_ms: int) -> dict[str, int]:
    return {"value": value, "runTimeMs": run_time_ms}


def _positions(offset: Offset) -> dict[int, dict[str, int]]:
    if isinstance(offset, (int, str)):
        raise SourceError(
            f"The offset {offset!r} was written by Spark's micro-batch rate source, which counts "
            "seconds: a continuous query cannot go on from it.",
            hint="Use a new checkpoint location.",
        )
    try:
        return {
            int(index): _position(int(position["value"]), int(position["runTimeMs"]))
            for index, position in offset.items()
        }
    except (AttributeError, KeyError, TypeError, ValueError) as exc:
        raise SourceError(
            f"The offset {offset!r} is not one of a rate source.",
            hint='It looks like {"0":{"value":-1,"runTimeMs":1795174660561}}.',
        ) from exc


class Pace:
    """When which row is due. In whole numbers throughout, so that a row has the same timestamp
    whenever and in whatever batch it is produced."""

    def __init__(self, rows_per_second: int, partitions: int) -> None:
        self.partitions = partitions
        # Row k of a partition is due k * numerator // denominator microseconds after the creation.
        divisor = int(np.gcd(partitions * 1_000_000, rows_per_second))
        self._numerator = partitions * 1_000_000 // divisor
        self._denominator = rows_per_second // divisor

    def due_us(self, row: int) -> int:
        """Microseconds from the creation to row ``row``, which counts from 1."""
        return row * self._numerator // self._denominator

    def rows_due(self, elapsed_us: int) -> int:
        """How many rows are due so long after the creation: the last ``row`` for which
        ``due_us(row) <= elapsed_us``."""
        return ((elapsed_us + 1) * self._denominator - 1) // self._numerator

    def due_us_of(self, first_row: int, rows: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        """:meth:`due_us` of ``rows`` rows from ``first_row`` on."""
        base, rest = divmod(first_row * self._numerator, self._denominator)
        times = _STEPS[:rows] * self._numerator
        if self._denominator > 1:
            times += rest
            times //= self._denominator
        times += base
        return times


class RatePartitionReader(PartitionReader):
    """The executor's side. ``until`` is the last value to return."""

    interruptible = True

    def __init__(self, pace: Pace, partition: RatePartition, until: int | None = None) -> None:
        self._pace = pace
        self._index = partition.index
        self._read = (partition.value - partition.index) // pace.partitions + 1  # rows before this
        # The creation is a whole millisecond, so it follows from the time of any row.
        self._created_us = (partition.run_time_ms - pace.due_us(self._read) // 1_000) * 1_000
        self._until_row = None if until is None else (until - self._index) // pace.partitions + 1
        self._woken = Event()
        self._is_behind = False

    def read(self, timeout_s: float) -> pa.RecordBatch | None:
        if self.exhausted:
            return None
        due_us = self._created_us + self._pace.due_us(self._read + 1)
        now_us = time.time_ns() // 1_000
        if now_us < due_us:
            wait_us = due_us - now_us
            if wait_us > timeout_s * 1e6:
                if timeout_s > 0:  # to wait for no time costs ten times what the rest does
                    self._woken.wait(timeout_s)
                self._woken.clear()
                return None
            if self._woken.wait(wait_us / 1e6):
                self._woken.clear()
                return None
            now_us = max(time.time_ns() // 1_000, due_us)
        due = self._pace.rows_due(now_us - self._created_us) - self._read
        rows, self._is_behind = min(due, BATCH_ROWS), due > BATCH_ROWS
        if self._until_row is not None:
            rows = min(rows, self._until_row - self._read)
        return self._produce(rows)

    def _produce(self, rows: int) -> pa.RecordBatch:
        first, n = self._read + 1, self._pace.partitions
        timestamps = self._pace.due_us_of(first, rows)
        timestamps += self._created_us
        values = _STEPS[:rows] * n
        values += (first - 1) * n + self._index
        self._read += rows
        return pa.RecordBatch.from_arrays(
            [
                pa.Array.from_buffers(TIMESTAMP, rows, [None, pa.py_buffer(timestamps)]),
                pa.Array.from_buffers(pa.int64(), rows, [None, pa.py_buffer(values)]),
            ],
            schema=_SCHEMA,
        )

    @property
    def offset(self) -> Offset:
        value = (self._read - 1) * self._pace.partitions + self._index
        due_us = self._created_us + self._pace.due_us(self._read)
        return {str(self._index): _position(value, due_us // 1_000)}

    @property
    def exhausted(self) -> bool:
        return self._until_row is not None and self._read >= self._until_row

    @property
    def caught_up(self) -> bool:
        return not self._is_behind

    def skip_due(self, now_us: int) -> Offset:
        """The offset behind all rows that are due by then."""
        due = self._pace.rows_due(now_us - self._created_us)
        self._read = max(self._read, due)
        return self.offset

    def interrupt(self) -> None:
        self._woken.set()

    def close(self) -> None:
        self._woken.set()


_SCHEMA: Final = pa.schema([("timestamp", TIMESTAMP), ("value", pa.int64())])
