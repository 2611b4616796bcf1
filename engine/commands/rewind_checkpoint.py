"""``rewind``, ``pin``, ``unpin`` and ``pins``: go back to an epoch, and keep one to go back to."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from engine.checkpoint.checkpoint import Checkpoint
from engine.commands.named_sink import named_sink
from engine.commands.result import Result, format_table, format_time
from engine.commands.status import open_checkpoint
from engine.pipeline.given_sink import given_sink
from engine.sinks.reopen import recorded_sink, reopen_sink


def rewind(args: Namespace) -> Result:
    """Take a query that does not run back to the end of an epoch."""
    checkpoint = open_checkpoint(args.checkpoint)
    report = checkpoint.rewind(
        args.to_epoch,
        to_pin=args.to_pin,
        sink=_sink(checkpoint, args.spec),
        accept_repeats=args.accept_repeats,
    )
    sink = (
        "The sink has taken back what came later."
        if report.taken_back
        else "The sink keeps what came later, and gets it again."
    )
    return Result(
        report.to_dict(),
        f"Rewound from epoch {report.from_epoch} to {report.to_epoch}; the next start goes on at "
        f"{report.to_epoch + 1}. {sink} The later entries of the logs are in {report.aside}.",
    )


def pin(args: Namespace) -> Result:
    """Keep a committed epoch under a name."""
    checkpoint = open_checkpoint(args.checkpoint)
    pinned = checkpoint.pin(args.name, args.epoch, sink=_sink(checkpoint, args.spec))
    return Result(pinned.to_dict(), f"Epoch {pinned.epoch} is pinned as {pinned.name}.")


def unpin(args: Namespace) -> Result:
    """Forget a pin."""
    checkpoint = open_checkpoint(args.checkpoint)
    checkpoint.unpin(args.name)
    return Result({"name": args.name}, f"The pin {args.name} is removed.")


def pins(args: Namespace) -> Result:
    """The pins of a checkpoint."""
    found = open_checkpoint(args.checkpoint).pinned_epochs()
    rows = [[each.name, each.epoch, format_time(each.pinned_at_ms)] for each in found]
    text = format_table(["name", "epoch", "pinned at"], rows) if found else "No epoch is pinned."
    return Result({"pins": [each.to_dict() for each in found]}, text)


def _sink(checkpoint: Checkpoint, spec_file: str | None) -> Any:
    """The sink that the specification names, else the one that the query had at its last start;
    None if neither can be told, or it cannot take rows back."""
    if spec_file is None:
        return recorded_sink(checkpoint)
    name, options = named_sink(
        spec_file, "Rewind from Python: Checkpoint(location).rewind(epoch, sink=<stream writer>)."
    )
    return reopen_sink(name, given_sink(checkpoint, name, options))
