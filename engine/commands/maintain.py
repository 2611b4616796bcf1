"""``maintain``: keep the table fit that a query writes to, while it runs or not."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import Any

from engine.base.options import parse_interval_ms
from engine.base.text_tables import count
from engine.checkpoint.checkpoint import Checkpoint
from engine.commands.named_sink import named_sink
from engine.commands.result import Result, format_bytes
from engine.commands.status import open_checkpoint
from engine.pipeline.given_sink import given_sink
from engine.sinks.lakes.maintenance import maintain as maintain_table
from engine.sinks.lakes.upkeep import MaintenanceReport, Orders, Upkeep
from engine.sinks.maintain import pinned_epochs, recorded_table, table_of


def maintain(args: Namespace) -> Result:
    """Compact, expire and vacuum; all three if none is named."""
    checkpoints = [open_checkpoint(each) for each in args.checkpoints]
    steps = {name: getattr(args, name) for name in ("compact", "expire", "vacuum")}
    if not any(steps.values()):
        steps = dict.fromkeys(steps, True)
    orders = Orders(
        **steps,
        retain_s=_seconds(args.retain, "--retain"),
        rewindable_s=_seconds(args.rewindable, "--rewindable"),
        pinned=pinned_epochs(checkpoints),
        file_bytes=args.file_bytes,
        dry_run=args.dry_run,
    )
    table = _named(args.spec, checkpoints) if args.spec else recorded_table(checkpoints[0])
    report = maintain_table(table, orders)
    return Result(report.to_dict(), describe(report))


def describe(report: MaintenanceReport) -> str:
    """In a few sentences."""
    would = "would be " if report.dry_run else ""
    are = "would be" if report.dry_run else "are"
    text = [
        f"{report.table}: {report.compacted_files:,} of {report.files_before:,} files {are} "
        f"compacted into {report.compacted_into:,}"
    ]
    if report.left_files:
        text.append(f"{report.left_files:,} small ones are left to the next time")
    if report.expired is not None:
        text.append(f"{report.expired:,} old states {would}forgotten")
    text.append(
        f"{count(report.removed_files, 'file')} that nobody needs {would}removed, "
        f"{format_bytes(report.removed_bytes)}"
    )
    if not report.dry_run:
        text.append(f"the table has {report.files_after:,}, {format_bytes(report.bytes_after)}")
    return "; ".join(text) + "."


def _named(spec_file: str, checkpoints: Sequence[Checkpoint]) -> Upkeep[Any, Any]:
    name, options = named_sink(
        spec_file, "Leave --spec out: the checkpoint tells which table it is."
    )
    for each in checkpoints:
        options = given_sink(each, name, options)
    return table_of(name, options)


def _seconds(duration: str | None, name: str) -> float | None:
    return None if duration is None else parse_interval_ms(duration, name) / 1000
