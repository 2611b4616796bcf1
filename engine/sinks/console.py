"""``console``: the first rows of each epoch on standard output, in the layout of Spark's console.

========  =======  ========================================================================
option    default
========  =======  ========================================================================
numRows   20       so many rows of an epoch
truncate  true     cut values to 20 characters; false; or to so many characters
timeZone  session's  of timestamps
========  =======  ========================================================================
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, WriterCommitMessage

from engine.base.connector_options import SESSION_TIMEZONE, Options
from engine.expressions.schemas import to_arrow
from engine.sinks.shipped import (
    OPTION,
    SHIPPED_BYTES_MAX,
    RowShipper,
    ShippingWriter,
    one_table,
    shipped_bytes_max,
    unpack,
)
from engine.sinks.show import show_text

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_RULE: Final = "-" * 43
_TRUNCATED: Final = 20


class ConsoleDataSource(DataSource):
    """See the module."""

    def __init__(self, options: Mapping[str, str]) -> None:
        taken = Options("sink console", options)
        self._rows = taken.integer("numRows", 20, minimum=1, maximum=1_000_000)
        truncate = (taken.text("truncate") or "true").strip().lower()
        if truncate in ("true", "false"):
            self._width = _TRUNCATED if truncate == "true" else 0
        elif truncate.isascii() and truncate.isdigit():
            self._width = int(truncate)
        else:
            raise taken.wrong("truncate", truncate, "true, false or a number of characters")
        session_timezone = taken.text(SESSION_TIMEZONE) or "UTC"
        self._timezone = taken.text("timeZone") or session_timezone
        self._bytes_max = shipped_bytes_max(taken)
        taken.refuse_others()

    @classmethod
    def name(cls) -> str:
        return "continuous_console"

    def streamWriter(self, schema: StructType, overwrite: bool) -> ConsoleWriter:
        arrow_schema = to_arrow(schema, "sink console")
        return ConsoleWriter(arrow_schema, self._rows, self._width, self._timezone, self._bytes_max)


class ConsoleWriter(ShippingWriter):
    """:param rows: so many are printed.
    :param width: of a value, in characters; 0 for any.
    """

    tuningOptions = ("numRows", "truncate", "timeZone", OPTION)

    def __init__(
        self,
        schema: pa.Schema,
        rows: int,
        width: int,
        session_timezone: str,
        bytes_max: int = SHIPPED_BYTES_MAX,
    ) -> None:
        # One row more than is printed: it tells that there are more.
        super().__init__(RowShipper("console", bytes_max, rows + 1))
        self._schema, self._rows, self._width = schema, rows, width
        self._timezone = session_timezone

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        table = one_table(unpack(messages, self._schema), self._schema)
        text = show_text(table, self._rows, self._width, self._timezone)
        sys.stdout.write(f"{_RULE}\nBatch: {batchId}\n{_RULE}\n{text}\n")
        sys.stdout.flush()
