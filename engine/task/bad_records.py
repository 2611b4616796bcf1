"""What a task does with records that cannot be parsed, or that the query fails on: the option
``onBadRecord``."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from engine.base.json_text import excerpt
from engine.base.options import DEAD_LETTER, FAIL
from engine.base.sift import sift
from engine.errors import BadRecordError, ContinuousError, TransformError
from engine.progress.counters import EpochCounters
from engine.redaction.logs import redact, shown
from engine.sinks.letters import SCHEMA
from engine.sources.contract import Offset
from engine.task.intake import Origin
from engine.task.records import as_json
from engine.task.steps import Steps

logger = logging.getLogger(__name__)
LOGGED_MAX = 5
"""So many bad records of an epoch are logged."""


class BadRecords:
    """The bad records of one task.

    :param policy: a value of the option ``onBadRecord``.
    :param origin: tells where the record comes from that is being looked at, and the reader's
        offset behind its batch.
    """

    def __init__(self, policy: str, origin: Callable[[], Origin]) -> None:
        self.tolerates = policy != FAIL
        self._keeps = policy == DEAD_LETTER
        self._origin = origin
        self._epoch = -1
        self._counters = EpochCounters()
        self._letters: list[dict[str, Any]] = []

    def begin(self, epoch: int, counters: EpochCounters) -> None:
        """From here on, bad records belong to this epoch."""
        self._epoch, self._counters, self._letters = epoch, counters, []

    def letters(self) -> pa.RecordBatch:
        """The dead letters of the epoch so far."""
        return pa.RecordBatch.from_pylist(self._letters, schema=SCHEMA)

    def unreadable(self, error: BadRecordError) -> None:
        """Take a record that the source cannot parse (the reader's ``on_bad_record``)."""
        self._take(error.record, self._told(error.offset), str(error), rows_read=1)

    def sift(self, steps: Steps, batch: pa.RecordBatch) -> list[pa.RecordBatch | None]:
        """After ``steps`` have failed: leave out the rows that they fail on.

        :return: what becomes of the others.
        :raises TransformError: the policy is to fail; names the first bad row.
        """
        good, bad = sift(
            batch.num_rows,
            lambda start, stop: steps(batch.slice(start, stop - start)),
            (Exception,),
            bad_max=None if self.tolerates else 1,
        )
        behind = self._origin().offset
        offset = self._told(behind)  # once: all letters share it
        for position, error in bad:
            if not self.tolerates:
                raise self._failure(as_json(batch, position), error) from error
            record = as_json(batch, position) if self._keeps else None
            self._take(record, offset, f"{type(error).__name__}: {error}", rows_read=0)
        return good

    def _told(self, offset: Offset) -> str | None:
        """An offset as a letter tells it."""
        return None if offset is None or not self._keeps else excerpt(offset)

    def _take(self, record: str | None, offset: str | None, error: str, *, rows_read: int) -> None:
        self._counters.rows_read += rows_read
        self._counters.bad_records += 1
        if self._counters.bad_records <= LOGGED_MAX:
            logger.warning("bad record in epoch %d: %s", self._epoch, redact(error))
        if self._keeps:
            origin = self._origin()
            self._letters.append(
                {
                    "epoch": self._epoch,
                    "partition": origin.partition,
                    "source": origin.source,
                    "offset": offset,
                    "record": record,
                    "error": error,
                }
            )

    def _failure(self, record: str, error: Exception) -> ContinuousError:
        reason = str(error) if isinstance(error, TransformError) else f"{_name(error)}: {error}"
        source, partition, behind = self._origin()
        if partition is None:  # which record of the source it was made of nobody knows
            whose, told = source.capitalize(), ""
        else:
            whose = f"Partition {partition} of {source}"
            told = f", which stands before the offset {shown(excerpt(behind))},"
        return TransformError(
            f"{whose} failed in the query's expressions: {reason} The record{told} is "
            f"{shown(record)}.",
            hint='Correct it, or set option onBadRecord to "skip" or "dead-letter".',
            partition=partition,
            epoch=self._epoch,
        )


def _name(error: Exception) -> str:
    return type(error).__name__
