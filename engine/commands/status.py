"""``status`` and ``epochs``: look into a checkpoint, of this engine or of Spark itself."""

from __future__ import annotations

import json
from argparse import Namespace
from typing import Any

from engine.base.clock import SystemClock
from engine.base.text_tables import count
from engine.checkpoint.checkpoint import Checkpoint, CheckpointStatus
from engine.checkpoint.fingerprint_file import read_fingerprint
from engine.checkpoint.rewound import is_rewind
from engine.checkpoint.standing_by import StandingBy, standing_by
from engine.checkpoint.storage.contract import Storage
from engine.checkpoint.watermark import event_watermark_ms
from engine.commands.epoch_rows import epoch_rows
from engine.commands.result import Result, format_pairs, format_table, format_time
from engine.commands.show_errors import entry_of
from engine.errors import ConfigError
from engine.progress.report import busy_share


def open_checkpoint(location: str | Storage) -> Checkpoint:
    """Open a checkpoint that has been used.

    :param location: a path, a URL, or an open storage.
    :raises ConfigError: there is none.
    """
    checkpoint = Checkpoint(location)
    if not checkpoint.exists():
        raise ConfigError(
            f"There is no checkpoint at {checkpoint.url}.",
            hint="Check the location; a query creates it when it first runs.",
        )
    return checkpoint


def status(args: Namespace) -> Result:
    """Who runs the query, in which state, and how far it has come."""
    checkpoint = open_checkpoint(args.checkpoint)
    found = checkpoint.status()
    watermark_ms = event_watermark_ms(checkpoint)
    last = next(reversed(checkpoint.progress.read()), None)
    waiting = standing_by(checkpoint.storage)
    text = format_pairs(
        {
            "query": found.id,
            "state": found.state,
            "message": found.message,
            "error": found.error,
            "restarts": found.restarts or None,
            "last error": found.last_error,
            "what to do": _advice(found),
            "failing since": format_time(found.failing_since_ms),
            "next attempt": format_time(found.next_attempt_at_ms),
            "epoch": found.epoch,
            "offsets": json.dumps(found.offsets),
            "watermark": None if watermark_ms is None else _watermark(watermark_ms),
            "remembers": _kept(last or {}),
            "busy": _busy(last or {}),
            **_who(found, is_rewind(checkpoint.storage, found.generation)),
            "standby": _standbys(waiting),
        }
    )
    data = {
        **found.to_dict(),
        "watermark_ms": watermark_ms,
        "watermark_lag_ms": None if watermark_ms is None else _behind_ms(watermark_ms),
        "last_progress": last,
        "fingerprint": read_fingerprint(checkpoint.storage),
        "standbys": [each.to_dict() for each in waiting],
        "pins": [pin.to_dict() for pin in checkpoint.pinned_epochs()],
    }
    return Result(data, text)


def _advice(found: CheckpointStatus) -> str | None:
    """The command that tells more of an error."""
    entry = entry_of(found.error_class)
    return None if entry is None else f"continuous errors {entry.name}"


def _who(found: CheckpointStatus, rewound: bool) -> dict[str, object]:
    """The run; behind a rewind there is none yet, and the process has nothing to do with one."""
    process = None if found.pid is None else f"{found.pid} on {found.host}"
    heartbeat = format_time(found.heartbeat_at_ms)
    if rewound:
        return {"generation": found.generation, "rewound": f"{heartbeat}, by process {process}"}
    return {
        "run": found.run_id,
        "generation": found.generation,
        "process": process,
        "application": found.application,
        "Spark UI": found.application_url,
        "started": format_time(found.started_at_ms),
        "heartbeat": heartbeat,
    }


def _standbys(waiting: list[StandingBy]) -> str | None:
    told = [
        f"process {one.pid} on {one.host}, since {format_time(one.since_ms)}" for one in waiting
    ]
    return "; ".join(told) or None


def _watermark(watermark_ms: int) -> str:
    lag_s = _behind_ms(watermark_ms) / 1000
    where = f"{lag_s:,.1f} s behind" if lag_s >= 0 else f"{-lag_s:,.1f} s ahead of"
    return f"{format_time(watermark_ms)}, {where} the clock"


def _behind_ms(watermark_ms: int) -> int:
    return SystemClock().now_ms() - watermark_ms


def _kept(report: dict[str, Any]) -> str | None:
    """What the steps that keep state have, as of a report."""
    told = [
        f"{each['operatorName']}: {count(each['numRowsTotal'], 'row')}, "
        f"{each['numRowsDroppedByWatermark']:,} late in the epoch"
        for each in report.get("stateOperators") or ()
        if "operatorName" in each
    ]
    return "; ".join(told) or None


def _busy(report: dict[str, Any]) -> str | None:
    """What the tasks of each stream and each stage did, as of a report."""
    told = [
        f"{stage['name']}: {count(stage['tasks'], 'task')}, {share:.0%}"
        for stage in report.get("stages") or ()
        if (share := busy_share(stage)) is not None
    ]
    return "; ".join(told) or None


def epochs(args: Namespace) -> Result:
    """The committed epochs that retention has kept: when, how much, up to where."""
    checkpoint = open_checkpoint(args.checkpoint)
    kept = checkpoint.epochs()
    shown = epoch_rows(checkpoint, kept[-args.last :])
    text = format_table(
        ["epoch", "committed at", "rows", "p50 ms", "p99 ms", "offsets"],
        [[*list(row.values())[:-1], json.dumps(row["offsets"])] for row in shown],
    )
    first, last = (kept[0], kept[-1]) if kept else (None, None)
    reach = f"is kept, {first}." if first == last else f"are kept, {first} to {last}."
    summary = f"{count(len(kept), 'committed epoch')} {reach}" if kept else ""
    return Result(
        {"first": first, "last": last, "kept": len(kept), "epochs": shown},
        f"{text}\n\n{summary}" if kept else "No epoch is committed yet.",
    )
