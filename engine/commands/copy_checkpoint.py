"""``copy``: fork a checkpoint, so that another query goes on from where this one is."""

from __future__ import annotations

from argparse import Namespace

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.copies import copy_checkpoint
from engine.checkpoint.whose_state import is_batch
from engine.commands.result import Result, format_bytes
from engine.commands.status import open_checkpoint

_OF_FILES = (
    " If Spark runs it and writes to a folder of files, that must have come to this epoch: take "
    "it, or a copy of it, back by continuous rewind {report.target} --to-epoch {report.to_epoch} "
    "--spec SPEC."
)


def copy(args: Namespace) -> Result:
    """Copy up to a committed epoch, while the query runs or not."""
    target = Checkpoint(args.target)
    report = copy_checkpoint(open_checkpoint(args.checkpoint), target, args.to_epoch)
    of_files = _OF_FILES if is_batch(target, report.to_epoch) else ""
    return Result(
        report.to_dict(),
        f"Copied epochs {report.from_epoch} to {report.to_epoch} to {report.target}, "
        f"{format_bytes(report.bytes)}. A query that starts there is {report.query_id} and goes on "
        f"at epoch {report.to_epoch + 1}. Not copied: {report.left_behind}."
        + of_files.format(report=report),
    )
