"""Columns of a table that must not be null."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from engine.errors import SinkCommitRejectedError


def check_nulls(batch: pa.RecordBatch, required: Iterable[str], owner: str, where: str) -> None:
    """:param required: names of such columns.
    :param owner: of the sink; ``where``: the table; both for the error.
    :raises SinkCommitRejectedError: a row has a null in one."""
    for name in required:
        if batch.column(name).null_count:
            raise SinkCommitRejectedError(
                f"{owner}: a row has no {name}, which must not be null in the table {where}.",
                hint=f"Leave such rows out (where {name} is not null), or give them a value.",
            )
