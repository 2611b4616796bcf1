"""``drain``, ``stop`` and ``prune``: act on a checkpoint, wherever its query runs."""

from __future__ import annotations

import os
import socket
from argparse import Namespace

from engine.checkpoint.checkpoint import Checkpoint, CheckpointStatus
from engine.checkpoint.requests import RequestKind
from engine.checkpoint.retention import prune as prune_checkpoint
from engine.clock import Clock, SystemClock
from engine.commands.inspect import open_checkpoint
from engine.commands.result import DONE, FAILED, Result, format_bytes
from engine.config import parse_interval_ms
from engine.states import QueryState

_POLL_S = 0.2


def drain(args: Namespace) -> Result:
    """Ask the query to finish and commit its open epoch, and wait until it has ended."""
    return _end("drain", args)


def stop(args: Namespace) -> Result:
    """Ask the query to end now, and wait until it has."""
    return _end("stop", args)


def prune(args: Namespace) -> Result:
    """Remove what no restart can need."""
    checkpoint = open_checkpoint(args.checkpoint)
    keep_for_s = None
    if args.keep_for is not None:
        keep_for_s = parse_interval_ms(args.keep_for, "--keep-for") / 1000
    report = prune_checkpoint(
        checkpoint, keep_epochs=args.keep_epochs, keep_for_s=keep_for_s, dry_run=args.dry_run
    )
    text = (
        f"{'Would remove' if report.dry_run else 'Removed'} {report.removed_epochs:,} epochs: "
        f"{report.removed_files:,} files, {format_bytes(report.removed_bytes)}."
    )
    if report.kept_from is not None:
        text += f" Kept from epoch {report.kept_from}."
    return Result(report.to_dict(), text)


def _end(kind: RequestKind, args: Namespace) -> Result:
    checkpoint = open_checkpoint(args.checkpoint)
    before = checkpoint.status()
    if before.state.is_active:
        by = f"python -m engine {kind}, process {os.getpid()} on {socket.gethostname()}"
        checkpoint.requests.ask(kind, by=by, run_id=before.run_id)
        after = _wait_for_end(checkpoint, before, args.timeout, SystemClock())
        text = f"The query is {after.state}, last committed epoch {after.epoch}."
        if _is_run(after, before):
            text = f"The query was asked to {kind}, and has not ended after {args.timeout:g} s."
    else:
        after = before
        text = f"No run holds the checkpoint: the query is {after.state}."
    if after.error is not None:
        text += f" {after.error}"
    ended = after.state in (QueryState.STOPPED, QueryState.UNKNOWN)
    return Result(after.to_dict(), text, DONE if ended else FAILED)


def _wait_for_end(
    checkpoint: Checkpoint, run: CheckpointStatus, timeout_s: float, clock: Clock
) -> CheckpointStatus:
    """The checkpoint's status when this run is over, or the time is."""
    deadline_s = clock.monotonic_s() + timeout_s
    while True:
        now = checkpoint.status()
        if not _is_run(now, run) or clock.monotonic_s() >= deadline_s:
            return now
        clock.sleep(_POLL_S)


def _is_run(now: CheckpointStatus, run: CheckpointStatus) -> bool:
    return now.state.is_active and now.run_id == run.run_id
