"""Rows that travel to the driver in the writers' commit messages.

For sinks whose work is done there. The rows of an epoch are held in memory, sent over the network,
and stored in the checkpoint; there they go when the epoch after the next is committed, not only
after ``minEpochsToRetain``. So the option ``maxShippedBytesPerEpoch`` limits what an epoch ships,
:data:`SHIPPED_BYTES_MAX` unless told otherwise. Each task has an equal share of it: once it has
that, it reads no more until the epoch ends. So a source that is faster than the driver is read at
the driver's pace, as with any slow sink.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from engine.base.connector_options import Options
from engine.errors import ConfigError
from engine.expressions.hidden_nulls import fitted
from engine.expressions.types import sql_name
from engine.sinks.adapter import own_messages
from engine.sinks.contract import TaskWriter, WriterContext

SHIPPED_BYTES_MAX: Final = 256 << 20
OPTION: Final = "maxShippedBytesPerEpoch"


@dataclass(frozen=True)
class ShippedRows(WriterCommitMessage):
    """:param stream: an Arrow IPC stream; empty if there are no rows."""

    stream: bytes = b""

    def note(self, name: str) -> str | None:
        """What the task's side has noted beside the rows; None if it is not there."""
        if not self.stream:
            return None
        noted = (pa.ipc.open_stream(self.stream).schema.metadata or {}).get(name.encode())
        return None if noted is None else noted.decode()


SHIPPED: Final[Mapping[str, type]] = {"shipped": ShippedRows}
"""How the checkpoint names it."""


def shipped_bytes_max(options: Options) -> int:
    """The limit that the options of a sink set.

    :raises ConfigError: it is no number of bytes.
    """
    return options.integer(OPTION, SHIPPED_BYTES_MAX, minimum=1)


class RowShipper(TaskWriter):
    """The executor's side of such a sink.

    :param sink: whose rows they are, for errors.
    :param bytes_max: so much an epoch may ship, all tasks together.
    :param rows: so many of an epoch are shipped, the first ones; None: all.
    :param notes: by name; they stay beside the rows, whoever commits them.
    :param takes_empty: see :class:`TaskWriter`.
    """

    def __init__(
        self,
        sink: str,
        bytes_max: int,
        rows: int | None = None,
        notes: Mapping[str, str] | None = None,
        *,
        takes_empty: bool = False,
    ) -> None:
        self.takes_empty = takes_empty
        self._sink, self._bytes_max, self._rows = sink, bytes_max, rows
        self._notes = dict(notes or {})
        self._share = bytes_max
        self._bytes = 0

    def open(self, context: WriterContext) -> None:
        self._share = max(1, self._bytes_max // context.tasks)

    def full(self) -> bool:
        return self._bytes >= self._share

    def write(self, epoch: int, batches: Iterator[pa.RecordBatch]) -> ShippedRows:
        """:raises ConfigError: what was read at once is more than an epoch may ship."""
        gathered: list[pa.RecordBatch] = []
        self._bytes = 0
        for batch in batches if self._rows is None else _first(batches, self._rows):
            self._bytes += batch.nbytes
            # Below its share it was asked whether it is full: the rest came of a single read.
            if self._bytes > self._share + self._bytes_max:
                raise self._too_much()
            gathered.append(batch)
        if not gathered:
            return ShippedRows()
        table = pa.Table.from_batches(gathered)
        if table.num_columns:  # else Arrow forgets how many rows there are
            table = table.combine_chunks()
        schema = table.schema.with_metadata(self._notes) if self._notes else table.schema
        output = pa.BufferOutputStream()
        with pa.ipc.new_stream(output, schema) as stream:
            stream.write_table(table)
        return ShippedRows(output.getvalue().to_pybytes())

    def _too_much(self) -> ConfigError:
        return ConfigError(
            f"The sink {self._sink} works on the driver, and {OPTION} is {self._bytes_max}: what a "
            "task has read at once became more bytes of rows than that, which no epoch may send.",
            hint=f"Set option {OPTION} higher, if the driver has the memory; have the source "
            "return smaller batches; or use a sink that writes on the executors.",
        )


class ShippingWriter(DataSourceStreamArrowWriter):
    """The driver's side of such a sink, without its ``commit``."""

    messageTypes = SHIPPED
    shipsRows = True
    tuningOptions: tuple[str, ...] = (OPTION,)

    def __init__(self, shipper: RowShipper) -> None:
        self._shipper = shipper

    def taskWriter(self) -> RowShipper:
        """The only part that travels to the executors."""
        return self._shipper

    def write(self, iterator: Iterator[pa.RecordBatch]) -> ShippedRows:
        return self._shipper.write(0, iterator)  # as PySpark wants it; a task has its own


def _first(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """The first rows; the rest is consumed."""
    for batch in batches:
        if rows > 0:
            yield batch.slice(0, rows)
            rows -= batch.num_rows


def unpack(
    messages: Sequence[WriterCommitMessage | None],
    schema: pa.Schema,
    needed: Collection[str] = (),
) -> list[pa.Table]:
    """The rows of each partition that has any, in partition order, with exactly this schema.

    They may be of an earlier start, whose query had other columns: these are taken by name, what
    there was none of is NULL, and what there is no more is left out.

    :param needed: columns that must not be left empty so.
    :raises ConfigError: the rows cannot have this schema.
    """
    return [
        _fitted(_read(each.stream), schema, needed)
        for each in own_messages(messages, ShippedRows)
        if each.stream
    ]


def one_table(tables: Iterable[pa.Table], schema: pa.Schema) -> pa.Table:
    """All rows, in order. Arrow's own function counts none where there are no columns.

    :param schema: of each.
    """
    return pa.Table.from_batches([part for each in tables for part in each.to_batches()], schema)


def _read(stream: bytes) -> pa.Table:
    reader = pa.ipc.open_stream(stream)
    return pa.Table.from_batches(list(reader), reader.schema)  # read_all() counts as above


def _fitted(rows: pa.Table, schema: pa.Schema, needed: Collection[str]) -> pa.Table:
    if not len(schema):
        return rows.select([])
    names = rows.schema.names
    if names == schema.names:
        places: list[int | None] = [*range(len(names))]
    elif len({*names}) < len(names) or len({*schema.names}) < len(schema.names):
        raise _unfit(f"the columns {', '.join(names)}, and the query has {', '.join(schema.names)}")
    else:
        places = [names.index(name) if name in names else None for name in schema.names]
    columns = []
    for place, field in zip(places, schema, strict=True):
        if place is None:
            if field.name in needed:
                raise _unfit(f"no column {field.name}, which the sink cannot do without")
            columns.append(pa.nulls(rows.num_rows, field.type))
            continue
        column = rows.column(place)
        try:
            columns.append(fitted(column, field.type))
        except pa.ArrowException as exc:
            raise _unfit(
                f"{field.name} as {sql_name(column.type)}, and the query has it as "
                f"{sql_name(field.type)}: {exc}"
            ) from exc
    return pa.Table.from_arrays(columns, schema=schema)


def _unfit(what: str) -> ConfigError:
    return ConfigError(
        f"The epoch was prepared by an earlier start, whose rows have {what}.",
        hint="Start the query once more as it was, drain it, and then change it.",
    )
