"""``noop``: takes the rows and forgets them. For measuring."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage

from engine.base.connector_options import Options

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class NoMessage(WriterCommitMessage):
    """Of a writer that leaves nothing to be done on the driver."""


NO_MESSAGE: Final[Mapping[str, type]] = {"empty": NoMessage}
"""How the checkpoint names it."""


class NoopDataSource(DataSource):
    """Has no options."""

    def __init__(self, options: Mapping[str, str]) -> None:
        Options("sink noop", options).refuse_others()

    @classmethod
    def name(cls) -> str:
        return "continuous_noop"

    def streamWriter(self, schema: StructType, overwrite: bool) -> NoopWriter:
        return NoopWriter()


class NoopWriter(DataSourceStreamArrowWriter):
    messageTypes = NO_MESSAGE

    def write(self, iterator: Iterator[pa.RecordBatch]) -> NoMessage:
        deque(iterator, maxlen=0)
        return NoMessage()

    def rewind(self, epoch: int) -> None:
        """Nothing is there to be taken back."""
