"""``inspect``: all that a checkpoint tells, on one page."""

from __future__ import annotations

import json
from argparse import Namespace

from engine.base.listing import runs_of
from engine.checkpoint.inspection import HistorySummary, Inspection, inspect_checkpoint
from engine.commands.result import Result, format_bytes, format_pairs, format_table, format_time
from engine.commands.status import open_checkpoint


def inspect(args: Namespace) -> Result:
    """Status, logs with their gaps, the last epochs, pins, and what is wrong."""
    found = inspect_checkpoint(open_checkpoint(args.checkpoint), args.last)
    return Result(found.to_dict(), describe(found))


def describe(found: Inspection) -> str:
    """A page of text for people."""
    status, progress = found.status or {}, found.last_progress or {}
    copied = found.copied_from
    parts = [
        format_pairs(
            {
                "checkpoint": found.location,
                "query": status.get("id"),
                "written by": found.written_by,
                "state": status.get("state"),
                "run": status.get("run_id"),
                "generation": status.get("generation"),
                "error": status.get("error"),
                "epoch": status.get("epoch"),
                "open epochs": runs_of(found.open_epochs) if found.open_epochs else None,
                "last progress": progress.get("timestamp"),
                "history": _history(found.history),
                "copied from": copied and f"{copied['source']}, epoch {copied['to_epoch']}",
            }
        ),
        format_table(
            ["log", "entries", "size", "first", "last", "gaps"],
            [
                [
                    name,
                    log.entries,
                    format_bytes(log.bytes),
                    log.first,
                    log.last,
                    ", ".join(log.gaps) or "none",
                ]
                for name, log in found.logs.items()
            ],
        ),
    ]
    if found.epochs:
        rows = [
            [
                each["epoch"],
                format_time(each["committed_at_ms"]),
                each["rows"],
                json.dumps(each["offsets"]),
            ]
            for each in found.epochs
        ]
        parts.append(format_table(["epoch", "committed at", "rows", "offsets"], rows))
    if found.pins:
        pins = [
            [each["name"], each["epoch"], format_time(each["pinned_at_ms"])] for each in found.pins
        ]
        parts.append(format_table(["pin", "epoch", "pinned at"], pins))
    if found.history is not None and found.history.marks:
        marks = [
            [format_time(each["at_ms"]), each["kind"], each["reason"]]
            for each in found.history.marks
        ]
        parts.append(format_table(["at", "what happened", "why"], marks))
    parts += [f"Problem: {problem}" for problem in found.problems]
    return "\n\n".join(parts)


def _history(found: HistorySummary | None) -> str | None:
    if found is None or not found.points:
        return None
    return f"{format_time(found.first_ms)} to {format_time(found.last_ms)}, {found.points:,} points"
