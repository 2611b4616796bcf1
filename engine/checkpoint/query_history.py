"""The history of a query as it is read: by two reads, whether it runs or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from engine.checkpoint.folder import CheckpointFolder
from engine.history.folding import History
from engine.history.measures import committed_at_ms, measured
from engine.history.stored import StoredHistory
from engine.history.view import HistoryView, view


def history(checkpoint: CheckpointFolder, since_ms: int | None = None) -> HistoryView:
    """What was measured of a query, up to the second: what is kept, and the progress reports that
    have come since it was written. Of these the latencies are estimates until then; where epochs
    are shorter than 100 ms, only the last hundred are among them.

    :param since_ms: only points that end later, and marks from then on; milliseconds since 1970.
        None: all, a week at most.
    :returns: without points if there is no history.
    :raises CheckpointCorruptError: the history is damaged.
    :raises CheckpointVersionError: a newer engine has written it.
    :raises CheckpointError: it cannot be read.
    """
    return seen_since(read_history(checkpoint), since_ms)


def read_history(checkpoint: CheckpointFolder) -> History:
    """The same before it is cut and drawn; raises the same."""
    stored = checkpoint.history.read()
    for report in _since(stored, checkpoint.progress.read()):
        with suppress(ValueError):  # somebody else's
            stored.history.add(measured(report))
    return stored.history


def seen_since(found: History, since_ms: int | None) -> HistoryView:
    """Draw what has come since then, see :func:`history`."""
    after_ms = -1 if since_ms is None else since_ms
    return view(
        [point for point in found.points() if point.end_ms > after_ms],
        [mark for mark in found.marks if mark.at_ms >= after_ms],
    )


def _since(
    stored: StoredHistory, reports: Sequence[Mapping[str, Any]]
) -> Sequence[Mapping[str, Any]]:
    """The reports that are not in the history yet."""
    runs = [(report.get("runId"), report.get("batchId")) for report in reports]
    if stored.last in runs:
        return reports[runs.index(stored.last) + 1 :]
    newest_ms = max((each.measures.at_ms for each in stored.history.points()), default=-1)
    found = []
    for report in reports:
        with suppress(ValueError):
            if committed_at_ms(report) > newest_ms:
                found.append(report)
    return found
