"""The page of one query: all that its checkpoint tells, and what Airflow knows of it."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import cache
from typing import Any

from airflow_provider_continuous.plugins.driver_logs import log_tail
from airflow_provider_continuous.plugins.letters import letters_of
from airflow_provider_continuous.plugins.partitions import offset_of, partitions_of
from airflow_provider_continuous.plugins.picture import picture_of
from airflow_provider_continuous.plugins.series import (
    SHOWN_FIRST,
    WINDOWS,
    Window,
    nothing_drawn,
    series_of,
)
from airflow_provider_continuous.plugins.sizes import SIZES
from airflow_provider_continuous.view.known import KnownQuery
from airflow_provider_continuous.view.overview import look_at
from engine.base.json_text import EXCERPT_CHARACTERS, excerpt
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.fingerprint_file import read_fingerprint
from engine.checkpoint.query_history import read_history, seen_since
from engine.checkpoint.rewound import is_rewind
from engine.checkpoint.standing_by import may_be_asked, standing_by
from engine.checkpoint.summary import rows_written
from engine.commands.show_errors import entry_of
from engine.errors import CheckpointError
from engine.history.measures import is_sparks, rate_of

EPOCHS_SHOWN = 50
AT_ONCE = 8
"""So many entries of the offset log are read at the same time, of epochs without a report."""
_ENTRY_BYTES_MAX = 1 << 16
"""A longer entry of the offset log is not read for the list of epochs: there are many of them."""


def query_details(
    query: KnownQuery,
    *,
    with_records: bool,
    any_letters: bool = False,
    window: Window = SHOWN_FIRST,
    up_to: int | None = None,
) -> dict[str, Any]:
    """Look at one query, with epochs, newest first, its pins, and its charts.

    :param with_records: also its dead letters and its driver's log, which hold what it has read.
    :param any_letters: also those dead letters that are not in the checkpoint's own folders.
    :param window: of the charts, one of :data:`~.series.WINDOWS`.
    :param up_to: the newest epoch to be shown; None: the last one.
    :raises CheckpointError: it cannot be read.
    """
    checkpoint = query.open()
    reports = checkpoint.progress.read()
    last: Mapping[str, Any] = reports[-1] if reports else {}
    by_epoch = {report.get("batchId"): report for report in reports}
    committed = cache(checkpoint.commit_times_ms)  # there may be very many: listed once
    overview = look_at(checkpoint, query.location, committed)
    catalogued = entry_of(overview.status.error_class)
    times_ms = committed()
    kept = list(times_ms)
    shown = kept if up_to is None else kept[: bisect_right(kept, up_to)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        epochs = list(
            pool.map(
                lambda epoch: _epoch(checkpoint, epoch, times_ms[epoch], by_epoch.get(epoch, {})),
                shown[-EPOCHS_SHOWN:],
            )
        )
    told: dict[str, Any] = {"letters": None, "log": None}
    if with_records:
        log = log_tail(checkpoint, overview.status)
        told = {"letters": letters_of(query.location, last, anywhere=any_letters), "log": log}
    return {
        **overview.to_dict(),
        **told,
        "error_means": catalogued.text if catalogued else None,
        "is_rewind": is_rewind(checkpoint.storage, overview.status.generation),
        "owners": [asdict(owner) for owner in query.owners],
        "kept_epochs": len(kept),
        "first_epoch": kept[0] if kept else None,
        "last_epoch": kept[-1] if kept else None,
        "up_to": up_to,
        "epochs": list(reversed(epochs)),
        "standbys": [each.to_dict() for each in standing_by(checkpoint.storage)],
        "may_be_ended": may_be_asked(checkpoint.storage, overview.status.state),
        "pins": [pin.to_dict() for pin in checkpoint.pinned_epochs()],
        "picture": picture_of(_fingerprint(checkpoint), last),
        "partitions": partitions_of(last, checkpoint.committed_offsets),
        "window": window,
        "series": _series(checkpoint, window, overview.status.epoch, last),
        "size": SIZES.of(query.location, query.open),
    }


def _series(
    checkpoint: Checkpoint, window: Window, epoch: int, last: Mapping[str, Any]
) -> dict[str, Any]:
    kept, now_ms = read_history(checkpoint), time.time() * 1000
    ends_ms = [point.end_ms for point in kept.points()]
    drawn = seen_since(kept, round(now_ms - WINDOWS[window] * 1000))
    return {
        **series_of(drawn),
        # Spark tells what its stores take of the memory, not what they write.
        "state_name": "memory used" if last and is_sparks(last) else "snapshot",
        "nothing": nothing_drawn(ends_ms, window, now_ms, epoch),
    }


def _fingerprint(checkpoint: Checkpoint) -> Mapping[str, Any] | None:
    try:
        return read_fingerprint(checkpoint.storage)
    except CheckpointError:
        return None  # the picture is the least of what is wrong then


def _epoch(
    checkpoint: Checkpoint, epoch: int, committed_at_ms: int, report: Mapping[str, Any]
) -> dict[str, Any]:
    latency = (report.get("latencyMs") or {}).get("readToWritten") or {}
    return {
        "epoch": epoch,
        "committed_at_ms": committed_at_ms,
        "rows": report.get("numInputRows"),
        "rows_out": rows_written(report),
        "rows_per_second": rate_of(report),
        "latency_p50_ms": latency.get("p50"),
        "latency_p99_ms": latency.get("p99"),
        "open_ms": report.get("batchDuration"),
        "commit_ms": (report.get("latencyMs") or {}).get("epochEndToCommitted"),
        "bad_records": report.get("numBadRecords"),
        **_ends(checkpoint, epoch, report),
    }


def _ends(checkpoint: Checkpoint, epoch: int, report: Mapping[str, Any]) -> dict[str, Any]:
    """Where an epoch ends: ``ends_at`` for people, ``offsets`` for programs unless it was cut."""
    told = [source.get("endOffset") for source in report.get("sources") or ()]
    # The engine tells an offset as text, which may be cut, Spark as it is.
    text = f"[{','.join(one if isinstance(one, str) else excerpt(one) for one in told)}]"
    if len(text) > EXCERPT_CHARACTERS:
        return {"offsets": None, "ends_at": f"{text[:EXCERPT_CHARACTERS]}..."}
    offsets = _offsets(report)
    if offsets is None:
        size = _entry_bytes(checkpoint, epoch)
        if size > _ENTRY_BYTES_MAX:
            return {"offsets": None, "ends_at": f"Too long to be shown: {size:,} bytes."}
        entry = checkpoint.offsets.get(epoch)
        offsets = entry.offsets if entry else checkpoint.committed_offsets(epoch)
    text = excerpt(offsets)
    return {"offsets": offsets if len(text) <= EXCERPT_CHARACTERS else None, "ends_at": text}


def _offsets(report: Mapping[str, Any]) -> Sequence[Any] | None:
    """Where an epoch ends, as its report tells it; None if that has none, or was cut."""
    try:
        return [offset_of(source["endOffset"]) for source in report.get("sources") or ()] or None
    except (ValueError, KeyError):
        return None


def _entry_bytes(checkpoint: Checkpoint, epoch: int) -> int:
    """How long an epoch's entry in the offset log is; 0 if it is gone."""
    try:
        return checkpoint.storage.info(f"{checkpoint.offsets.name}/{epoch}").size
    except FileNotFoundError:
        return 0
