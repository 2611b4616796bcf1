"""What a task looks at before its rows are on their way: whatever the database would refuse, or
change, fails the task, so that nothing is prepared that no commit could finish."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import SinkCommitRejectedError
from engine.sinks.lakes.nulls import check_nulls
from engine.sinks.shipped import RowShipper, ShippedRows
from engine.sinks.sqlalchemy.database import OWNER

_FIRST_DAY: Final = -719_162
_LAST_DAY: Final = 2_932_896
"""0001-01-01 and 9999-12-31, in days since 1970: beyond them Python has no dates."""
_DAY_US: Final = 86_400_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Limits:
    """
    :param table: for errors.
    :param key: columns that must not be null even of a row that is to go.
    :param required: the others that must not.
    :param deletes: the column that tells which rows go.
    :param lengths: so many characters, or bytes, of a column at most.
    :param sizes: so many bytes of a column at most, of texts in UTF-8.
    :param times: the first and the last instant of a column, in microseconds.
    :param takes_nan: NaN is kept as it is, and ``takes_infinity``.
    """

    table: str
    key: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    deletes: str | None = None
    lengths: Mapping[str, int] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    times: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    takes_nan: bool = True
    takes_infinity: bool = True

    def check(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """:raises SinkCommitRejectedError: a row cannot be written."""
        check_nulls(batch, self.key, OWNER, self.table)
        kept = batch
        if self.deletes is not None:
            kept = batch.filter(pc.invert(pc.fill_null(batch.column(self.deletes), False)))
        check_nulls(kept, self.required, OWNER, self.table)
        for name, length in self.lengths.items():
            column = batch.column(name)
            measure = pc.utf8_length if pa.types.is_string(column.type) else pc.binary_length
            longest = pc.max(measure(column)).as_py() or 0
            if longest > length:
                raise self._refused(name, f"is {longest} long, and the column takes {length}")
        for name, size in self.sizes.items():
            largest = pc.max(pc.binary_length(batch.column(name))).as_py() or 0
            if largest > size:
                raise self._refused(name, f"has {largest} bytes, and the column takes {size}")
        for name, bounds in self.times.items():
            self._check_time(name, batch.column(name), *bounds)
        for field_ in batch.schema:
            self._check_values(field_.name, batch.column(field_.name))
        return batch

    def _check_values(self, name: str, column: pa.Array) -> None:
        if pa.types.is_floating(column.type):
            if not self.takes_nan and pc.any(pc.is_nan(column)).as_py():
                raise self._refused(name, "is NaN, which the database does not have")
            if not self.takes_infinity and pc.any(pc.is_inf(column)).as_py():
                raise self._refused(name, "is infinite, which the database does not have")
        elif pa.types.is_date(column.type) or pa.types.is_timestamp(column.type):
            is_date = pa.types.is_date(column.type)
            unit = 1 if is_date else _DAY_US
            numbers = (
                column.cast(pa.int32()).cast(pa.int64()) if is_date else column.cast(pa.int64())
            )
            found: dict[str, Any] = pc.min_max(numbers).as_py()
            low, high = found["min"], found["max"]
            if low is None:
                return
            if low < _FIRST_DAY * unit or high >= (_LAST_DAY + 1) * unit:
                raise self._refused(name, "is before the year 1 or behind 9999")
        elif pa.types.is_string(column.type) and pc.any(pc.match_substring(column, "\0")).as_py():
            raise self._refused(name, "has a zero byte, which databases cut or refuse")

    def _check_time(self, name: str, column: pa.Array, first: int, last: int) -> None:
        found: dict[str, Any] = pc.min_max(column.cast(pa.int64())).as_py()
        for at in (found["min"], found["max"]):
            if at is not None and not first <= at <= last:
                ends = " and ".join(
                    f"{_EPOCH + timedelta(microseconds=us)}" for us in (first, last)
                )
                raise self._refused(name, f"is not between {ends}: the column holds no other time")

    def _refused(self, name: str, what: str) -> SinkCommitRejectedError:
        return SinkCommitRejectedError(
            f"{OWNER}: a row cannot be written to the table {self.table}: its {name} {what}.",
            hint="Leave such rows out or mend them in the query, or change the table.",
        )


class CheckingShipper(RowShipper):
    """Ships rows that the table takes.

    :ivar limits: known before tasks are started.
    """

    limits: Limits | None = None

    def write(self, epoch: int, batches: Iterator[pa.RecordBatch]) -> ShippedRows:
        assert self.limits is not None, "fenceTasks() comes first"
        return super().write(epoch, map(self.limits.check, batches))
