"""``epochs --follow``: each epoch as it commits, until the query has ended."""

from __future__ import annotations

import json
import logging
import math
from argparse import Namespace
from collections.abc import Iterator
from typing import Any, Final

from engine.base.clock import Clock, SystemClock
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.query_state import QueryState
from engine.commands.epoch_rows import epoch_rows
from engine.commands.output import say
from engine.commands.result import DONE, FAILED, Result
from engine.commands.status import open_checkpoint
from engine.errors import CheckpointCorruptError, CheckpointError, CheckpointVersionError

logger = logging.getLogger(__name__)
POLL_S: Final = 0.5
REPORT_S: Final = 3.0
"""The report of an epoch is written a second behind its commit at most: then there is none."""
_AWAY: Final = "%s It is asked again until it answers; Ctrl-C ends this."
_LINE: Final = "{:>8}  {:<24}  {:>12}  {:>9}  {:>9}  {}"


def follow(args: Namespace) -> Result:
    """Print the last epochs, and each that is committed from then on."""
    checkpoint = open_checkpoint(args.checkpoint)
    if not args.json:
        say(_LINE.format("epoch", "committed at", "rows", "p50 ms", "p99 ms", "offsets"))
    try:
        for row in followed(checkpoint, args.last, SystemClock()):
            say(json.dumps(row) if args.json else _line(row))
    except KeyboardInterrupt:  # as good an end as any
        return _result(checkpoint, DONE)
    ended = checkpoint.status().state
    return _result(checkpoint, DONE if ended is QueryState.STOPPED else FAILED)


def followed(checkpoint: Checkpoint, last: int, clock: Clock) -> Iterator[dict[str, Any]]:
    """The last epochs, and each that is committed from then on, in order; ends when no run holds
    the checkpoint. One that Spark itself writes tells no end, and reports nothing. A storage that
    stops to answer is waited for, with a warning.

    :param last: how many of those that are there already.
    :raises CheckpointError: the epochs that were told are gone.
    """
    shown = max([-1, *checkpoint.epochs()[:-last]])
    seen_s: dict[int, float] = {}
    is_first, is_away = True, False
    while True:
        try:
            # The end first: what was committed before it is there.
            state = checkpoint.status().state
            known = checkpoint.epochs()
            rows = epoch_rows(checkpoint, [epoch for epoch in known if epoch > shown])
        except (CheckpointCorruptError, CheckpointVersionError):
            raise
        except CheckpointError as error:
            if not is_away:
                logger.warning(_AWAY, error)
            is_away = True
            clock.sleep(POLL_S)
            continue
        is_away = False
        if not known and shown >= 0:  # no retention and no rewind removes all of them
            raise CheckpointError(
                f"The checkpoint {checkpoint.url} is gone, or was emptied: no epoch is there.",
                hint="If the query was begun anew, follow that one.",
                epoch=shown,
            )
        reports = state.is_active
        now_s = clock.monotonic_s()
        # Of those that are there already only the newest may still get its report.
        old = rows[:-1] if is_first else ()
        seen_s = dict.fromkeys((row["epoch"] for row in old), -math.inf) | seen_s
        seen_s = {row["epoch"]: seen_s.get(row["epoch"], now_s) for row in rows}
        is_first = False
        for row in rows:
            waited_s = now_s - seen_s[row["epoch"]]
            if row["rows"] is None and reports and waited_s < REPORT_S:
                break
            shown = row["epoch"]
            yield row
        if state.is_over:
            return
        clock.sleep(POLL_S)


def _line(row: dict[str, Any]) -> str:
    values = [row["rows"], row["p50_ms"], row["p99_ms"]]
    rows, *latencies = ["-" if each is None else f"{each:,}" for each in values]
    offsets = json.dumps(row["offsets"])
    return _LINE.format(row["epoch"], row["committed_at"] or "-", rows, *latencies, offsets)


def _result(checkpoint: Checkpoint, exit_code: int) -> Result:
    status = checkpoint.status()
    text = f"The query is {status.state}, last committed epoch {status.epoch}."
    if status.error is not None:
        text += f" {status.error}"
    return Result(status.to_dict(), text, exit_code)
