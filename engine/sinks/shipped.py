"""Rows that travel to the driver in the writers' commit messages.

For sinks whose work is done there. The rows of one partition and epoch may take
:data:`SHIPPED_BYTES_MAX`: they are held in memory, sent over the network, and stored in the
checkpoint until the epoch is committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from engine.errors import SinkError
from engine.sinks.adapter import own_messages

SHIPPED_BYTES_MAX: Final = 256 << 20


@dataclass(frozen=True)
class ShippedRows(WriterCommitMessage):
    """:param stream: an Arrow IPC stream; empty if there are no rows."""

    stream: bytes = b""


SHIPPED: Final[Mapping[str, type]] = {"shipped": ShippedRows}
"""How the checkpoint names it."""


def ship(batches: Iterable[pa.RecordBatch]) -> ShippedRows:
    """All rows of an epoch.

    :raises SinkError: they are more than can be shipped.
    """
    gathered: list[pa.RecordBatch] = []
    total_bytes = 0
    for batch in batches:
        gathered.append(batch)
        total_bytes += batch.nbytes
        if total_bytes > SHIPPED_BYTES_MAX:
            raise SinkError(
                f"The rows of one partition and epoch are over {SHIPPED_BYTES_MAX >> 20} MiB, too "
                "much to send them to the driver.",
                hint="Use shorter epochs, more partitions, or a sink that writes on the executors.",
            )
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
