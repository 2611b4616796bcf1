"""Rows that travel to the driver in the writers' commit messages.

For sinks whose work is done there. The rows of an epoch are held in memory, sent over the network,
and stored in the checkpoint; there they go when the epoch after the next is committed, not only
after ``minEpochsToRetain``. So the option ``maxShippedBytesPerEpoch`` limits what each task ships,
:data:`SHIPPED_BYTES_MAX` unless told otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from engine.base.connector_options import Options
from engine.errors import SinkError
from engine.sinks.adapter import own_messages

SHIPPED_BYTES_MAX: Final = 256 << 20
OPTION: Final = "maxShippedBytesPerEpoch"


@dataclass(frozen=True)
class ShippedRows(WriterCommitMessage):
    """:param stream: an Arrow IPC stream; empty if there are no rows."""

    stream: bytes = b""


SHIPPED: Final[Mapping[str, type]] = {"shipped": ShippedRows}
"""How the checkpoint names it."""


def shipped_bytes_max(options: Options) -> int:
    """The limit that the options of a sink set.

    :raises ConfigError: it is no number of bytes.
    """
    return options.integer(OPTION, SHIPPED_BYTES_MAX, minimum=1)


def ship(batches: Iterable[pa.RecordBatch], sink: str, bytes_max: int) -> ShippedRows:
    """All rows of an epoch.

    :param sink: whose they are, for errors.
    :param bytes_max: so much may be shipped.
    :raises SinkError: they are more.
    """
    gathered: list[pa.RecordBatch] = []
    total_bytes = 0
    for batch in batches:
        total_bytes += batch.nbytes
        if total_bytes > bytes_max:
            raise SinkError(
                f"The sink {sink} works on the driver: a task would send it more than {bytes_max} "
                "bytes of rows for one epoch.",
                hint="Use shorter epochs, more partitions, or a sink that writes on the executors; "
                f"or set option {OPTION}, if the driver has the memory.",
            )
        gathered.append(batch)
    if not gathered:
        return ShippedRows()
    table = pa.Table.from_batches(gathered).combine_chunks()
    output = pa.BufferOutputStream()
    with pa.ipc.new_stream(output, table.schema) as stream:
        stream.write_table(table)
    return ShippedRows(output.getvalue().to_pybytes())


def unpack(messages: Sequence[WriterCommitMessage | None], schema: pa.Schema) -> list[pa.Table]:
    """The rows of each partition that has any, in partition order, with exactly this schema."""
    return [
        pa.ipc.open_stream(each.stream).read_all().cast(schema)
        for each in own_messages(messages, ShippedRows)
        if each.stream
    ]
