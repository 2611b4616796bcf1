"""A message that a writer has from another module."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.datasource import WriterCommitMessage


@dataclass
class Counted(WriterCommitMessage):
    task: int
    rows: list[int]
