"""``drain``, ``stop`` and ``rescale``: act on a checkpoint, wherever its query runs."""

from __future__ import annotations

import os
import socket
from argparse import Namespace

from engine.base.clock import Clock, SystemClock
from engine.base.text_tables import count
from engine.checkpoint import rescaling
from engine.checkpoint.checkpoint import Checkpoint, CheckpointStatus
from engine.checkpoint.query_state import QueryState
from engine.checkpoint.requests import RequestKind
from engine.checkpoint.standing_by import may_be_asked, refuse_untold
from engine.commands.result import DONE, FAILED, Result
from engine.commands.status import open_checkpoint
from engine.errors import CheckpointCorruptError, CheckpointError

_POLL_S = 0.2


def drain(args: Namespace) -> Result:
    """Ask the query to finish and commit its open epoch, and wait until it has ended."""
    return _end("drain", args)


def stop(args: Namespace) -> Result:
    """Ask the query to end now, and wait until it has."""
    return _end("stop", args)


def rescale(args: Namespace) -> Result:
    """Ask the query to go on with another number of tasks; one that does not run begins with it."""
    checkpoint = open_checkpoint(args.checkpoint)
    before = rescaling.rescale(checkpoint, args.reducers or None, by=asker("rescale"))
    wanted = count(args.reducers, "task") if args.reducers else "as many tasks as its option says"
    text = f"Each stage that keeps state will have {wanted}"
    if before.state.is_active:
        text += ", as soon as the query has finished its open epoch."
    else:
        text += ", from its next start on."
    return Result({**before.to_dict(), "reducers": args.reducers or None}, text, DONE)


def asker(command: str) -> str:
    """Who asks, for the query's log."""
    return f"python -m engine {command}, process {os.getpid()} on {socket.gethostname()}"


def _end(kind: RequestKind, args: Namespace) -> Result:
    checkpoint = open_checkpoint(args.checkpoint)
    before = checkpoint.status()
    refuse_untold(checkpoint.url, before.state)
    if may_be_asked(checkpoint.storage, before.state):
        checkpoint.requests.ask(kind, by=asker(kind), run_id=before.run_id)
        after, is_over = _wait_for_end(checkpoint, before, args.timeout, SystemClock())
        text = f"The query is {after.state}, last committed epoch {after.epoch}."
        if not is_over:
            text = f"The query was asked to {kind}, and has not ended after {args.timeout:g} s."
    else:
        after = before
        text = f"No run holds the checkpoint: the query is {after.state}."
    if after.error is not None:
        text += f" {after.error}"
    return Result(after.to_dict(), text, DONE if after.state is QueryState.STOPPED else FAILED)


def _wait_for_end(
    checkpoint: Checkpoint, run: CheckpointStatus, timeout_s: float, clock: Clock
) -> tuple[CheckpointStatus, bool]:
    """The checkpoint's status when this run is over, or the time is; and whether the run is.

    :raises CheckpointError: it cannot be read at the end of the time, or is corrupt.
    """
    deadline_s = clock.monotonic_s() + timeout_s
    while True:
        is_late = clock.monotonic_s() >= deadline_s
        try:
            now = checkpoint.status()
            if run.state is QueryState.LOST and now.state.is_active:
                run = now  # its standby was faster, and has heard what the lost run was asked
            may_end = may_be_asked(checkpoint.storage, now.state)
            is_over = now.run_id != run.run_id or not may_end
            if is_over or is_late:
                return now, is_over
            run = now
        except CheckpointError as exc:  # the query may end all the same
            if is_late or isinstance(exc, CheckpointCorruptError):
                raise
        clock.sleep(_POLL_S)
