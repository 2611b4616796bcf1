"""What has been committed since a point in a checkpoint, cut into events."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from airflow_provider_continuous.hooks.checkpoint import CheckpointHook
from airflow_provider_continuous.triggers.telling import EVENTS_MAX
from engine.checkpoint.rewind import ASIDE
from engine.checkpoint.rewound import read_rewound

REPORT_WAIT_S = 3.0
"""The progress report follows the commit, at most this late while the query runs."""


@dataclass(frozen=True)
class EpochCursor:
    """The last epoch that was told of.

    :param rewound: generation of the last rewind that was known then, -1 if there was none.
    :param at: when that was, in seconds since 1970.
    """

    query_id: str | None
    rewound: int
    epoch: int
    at: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Chapter:
    """What one look has found.

    :param cursor: where it ends.
    :param next_epoch: there is nothing more before this epoch has committed,
    :param not_before: and nothing before this time, in seconds since 1970.
    """

    events: list[dict[str, Any]]
    cursor: EpochCursor
    next_epoch: int
    not_before: float = 0.0


class EpochHistory:
    """Reads a checkpoint's committed epochs as events, each epoch in one event.

    :param every: an event ends at each epoch whose number plus one is a multiple of this.
    :param at_most_every_s: seconds from one event to the next, at least.
    """

    def __init__(self, hook: CheckpointHook, every: int = 1, at_most_every_s: float = 0.0) -> None:
        self._hook = hook
        self._every = every
        self._at_most_every_s = at_most_every_s

    def read(self, cursor: EpochCursor | None, from_epoch: int | None = None) -> Chapter:
        """Return the events behind a cursor.

        :param cursor: None: begin with ``from_epoch``, or with what commits after this look.
        """
        cursor = self._where(cursor, from_epoch)
        if cursor.at > (now := time.time()):  # the clock was ahead, and was set back
            cursor = replace(cursor, at=now)
        committed = self._hook.committed_epoch()
        due = cursor.at + self._at_most_every_s
        next_epoch = self._end_after(cursor.epoch)
        if next_epoch > committed or time.time() < due:
            return Chapter([], cursor, next_epoch, due)
        events: list[dict[str, Any]] = []
        rows = self._rows()
        for epoch in self._ends(cursor.epoch, committed):
            event = self._event(cursor, epoch, rows)
            if event["rows"] is None and self._is_reported_soon(epoch, rows):
                return Chapter(events, cursor, epoch, time.time() + REPORT_WAIT_S / 6)
            events.append(event)
            cursor = EpochCursor(cursor.query_id, cursor.rewound, epoch, time.time())
        next_epoch = self._end_after(cursor.epoch)
        return Chapter(events, cursor, next_epoch, cursor.at + self._at_most_every_s)

    def goes_on_elsewhere(self, cursor: EpochCursor) -> bool:
        """Whether what was told is not what is committed: it was rewound, or the checkpoint was
        made anew."""
        checkpoint = self._hook.checkpoint
        if self._rewound(cursor)[0] > cursor.rewound:
            return True
        return checkpoint.query_id() not in (None, cursor.query_id)

    def _where(self, cursor: EpochCursor | None, from_epoch: int | None) -> EpochCursor:
        query_id = self._hook.checkpoint.query_id()
        rewound, lowest = self._rewound(cursor)
        if cursor is None:
            begin = self._hook.committed_epoch() if from_epoch is None else from_epoch - 1
            return EpochCursor(query_id, rewound, begin)
        if query_id is None:
            return cursor  # a checkpoint that is not there, or a mount that is not
        if cursor.query_id not in (None, query_id):
            return EpochCursor(query_id, rewound, -1)  # another query, in a checkpoint made anew
        epoch = cursor.epoch if lowest is None else min(cursor.epoch, lowest - 1)
        return EpochCursor(query_id, rewound, epoch, cursor.at)

    def _rewound(self, cursor: EpochCursor | None) -> tuple[int, int | None]:
        """The generation of the last rewind, and the lowest epoch taken back since the cursor."""
        storage = self._hook.checkpoint.storage
        last = read_rewound(storage)
        if last is None:
            return -1, None
        if cursor is None or last.generation <= cursor.rewound:
            return last.generation, None
        taken_back = [last.to_epoch + 1]  # and those of the rewinds before it:
        for name in storage.files_below(ASIDE):  # one look: most generations are no rewind's
            rewind, _, entry = name.partition("/commits/")
            if rewind.isdecimal() and entry.isdecimal() and int(rewind) > cursor.rewound:
                taken_back.append(int(entry))
        return last.generation, min(taken_back)

    def _end_after(self, epoch: int) -> int:
        """The first epoch behind this one at which an event ends."""
        return ((epoch + 1) // self._every + 1) * self._every - 1

    def _ends(self, behind: int, committed: int) -> Iterator[int]:
        first = self._end_after(behind)
        if self._at_most_every_s:
            yield first + (committed - first) // self._every * self._every
        else:
            yield from range(
                first, min(committed + 1, first + EVENTS_MAX * self._every), self._every
            )

    def _event(self, cursor: EpochCursor, epoch: int, rows: dict[int, int]) -> dict[str, Any]:
        first = cursor.epoch + 1
        known = all(number in rows for number in range(first, epoch + 1))
        return {
            "id": f"{cursor.query_id}/{cursor.rewound + 1}/{epoch}",
            "query_id": cursor.query_id,
            "checkpoint_location": self._hook.location.url,
            "first_epoch": first,
            **self._hook.describe_epoch(epoch),
            "rows": sum(rows[number] for number in range(first, epoch + 1)) if known else None,
        }

    def _rows(self) -> dict[int, int]:
        """Epoch → rows written, of those whose progress report tells: Spark's may say -1."""
        return {
            report["batchId"]: report["sink"]["numOutputRows"]
            for report in self._hook.checkpoint.progress.read()
            if report["sink"]["numOutputRows"] >= 0
        }

    def _is_reported_soon(self, epoch: int, rows: dict[int, int]) -> bool:
        if not rows or epoch <= max(rows):
            return False
        committed_ms = self._hook.checkpoint.committed_at_ms(epoch)
        return committed_ms is not None and abs(time.time() - committed_ms / 1000) < REPORT_WAIT_S
