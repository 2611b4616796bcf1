"""``prune``: remove what no restart can need, from one checkpoint or from many."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from engine.base.daemon_threads import together
from engine.base.options import parse_interval_ms
from engine.base.text_tables import count
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.find import find_checkpoints, is_pattern
from engine.checkpoint.retention import prune as prune_checkpoint
from engine.commands.named_sink import named_sink
from engine.commands.result import DONE, FAILED, Result, format_bytes
from engine.commands.status import open_checkpoint
from engine.errors import ConfigError, ContinuousError
from engine.pipeline.given_sink import given_sink
from engine.sinks.files.file_sink_upkeep import prune_sink
from engine.spark.failure import describe_error

_AT_ONCE: Final = 8
"""So many checkpoints are pruned at the same time."""


def prune(args: Namespace) -> Result:
    """Prune each checkpoint; one that cannot be does not keep the others from it."""
    for given, name in ((args.sink_path, "--sink-path"), (args.spec, "--spec")):
        if given is not None:
            _check_one_sink(args, name)
    if not is_pattern(args.checkpoint):
        return _prune_one(args.checkpoint, args)
    found = find_checkpoints(args.checkpoint)
    if not found:
        raise ConfigError(f"No checkpoint matches {args.checkpoint}.")
    pruned = together([partial(_try_one, location, args) for location in found], _AT_ONCE)
    results = dict(zip(found, pruned, strict=True))
    return Result(
        {"checkpoints": {location: result.data for location, result in results.items()}},
        "\n".join(f"{location}: {result.text}" for location, result in results.items()),
        max(result.exit_code for result in results.values()),
    )


def _check_one_sink(args: Namespace, name: str) -> None:
    if not args.compact_sink and args.remove_orphans is None:
        raise ConfigError(f"{name} is for --compact-sink or --remove-orphans: give one of them.")
    if is_pattern(args.checkpoint):
        raise ConfigError(
            f"{args.checkpoint} may match many checkpoints, and there is one {name}.",
            hint="Leave it out: a checkpoint of this engine tells its own sink.",
        )


def _try_one(location: str, args: Namespace) -> Result:
    try:
        return _prune_one(location, args)
    except ContinuousError as error:
        text = describe_error(error)
        return Result({"error": text}, text, FAILED)


def _prune_one(location: str, args: Namespace) -> Result:
    checkpoint = open_checkpoint(location)
    report = prune_checkpoint(
        checkpoint,
        keep_epochs=args.keep_epochs,
        keep_for_s=_seconds(args.keep_for, "--keep-for"),
        keep_bytes=args.keep_bytes,
        dry_run=args.dry_run,
    )
    verb = "Would remove" if report.dry_run else "Removed"
    text = (
        f"{verb} {count(report.removed_epochs, 'epoch')}: "
        f"{count(report.removed_files, 'file')}, {format_bytes(report.removed_bytes)}."
    )
    if report.kept_from is not None:
        text += f" Kept from epoch {report.kept_from}."
    data: dict[str, Any] = report.to_dict()
    if args.compact_sink or args.remove_orphans is not None:
        sink = prune_sink(
            checkpoint,
            args.sink_path,
            sink=None if args.spec is None else _sink(checkpoint, args.spec),
            compact=args.compact_sink,
            orphans_older_than_s=_seconds(args.remove_orphans, "--remove-orphans"),
            dry_run=args.dry_run,
        )
        data["sink"] = None if sink is None else sink.to_dict()
        text += (
            " The query's sink writes no files."
            if sink is None
            else f" {verb} {count(sink.removed_entries, 'entry')} of the sink's log and "
            f"{count(sink.removed_files, 'data file')} of no epoch, "
            f"{format_bytes(sink.removed_bytes)}."
        )
    return Result(data, text, DONE)


def _sink(checkpoint: Checkpoint, spec_file: str) -> tuple[str, Mapping[str, str]]:
    name, options = named_sink(spec_file, "Use --sink-path.")
    return name, given_sink(checkpoint, name, options)


def _seconds(duration: str | None, name: str) -> float | None:
    return None if duration is None else parse_interval_ms(duration, name) / 1000
