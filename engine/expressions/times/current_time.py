"""``current_timestamp``, ``now``, ``current_date``, ``localtimestamp``: the time of the batch.

Spark refuses these in continuous queries. Here all of them mean the moment at which the task began
to transform the record batch, so that they agree with each other within a row.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import pyarrow as pa

from engine.expressions.registry import Context, Evaluator, lazy
from engine.expressions.times.zones import zone
from engine.expressions.tree import Expr

OPS = frozenset({"CurrentTimestamp", "Now", "CurrentDate", "LocalTimestamp"})

_batch = threading.local()


def begin_batch() -> None:
    """From now on, and until the next call in this thread, it is this moment."""
    _batch.micros = time.time_ns() // 1_000


def batch_micros() -> int:
    """Microseconds since 1970, UTC."""
    if not hasattr(_batch, "micros"):
        begin_batch()
    return int(_batch.micros)


@lazy("CurrentTimestamp", "Now")
def current_timestamp(expr: Expr, children: Sequence[Evaluator], context: Context) -> Evaluator:
    """An instant."""
    return lambda batch: pa.scalar(batch_micros(), expr.dtype)


@lazy("LocalTimestamp", reads=("time_zone_id",))
def local_timestamp(expr: Expr, children: Sequence[Evaluator], context: Context) -> Evaluator:
    """What the clock on the wall shows in the session's time zone."""
    local = zone(_zone_name(expr, context))
    return lambda batch: pa.scalar(int(local.to_local(batch_micros())[0]), expr.dtype)


@lazy("CurrentDate", reads=("time_zone_id",))
def current_date(expr: Expr, children: Sequence[Evaluator], context: Context) -> Evaluator:
    """The date in the session's time zone."""
    local = zone(_zone_name(expr, context))
    return lambda batch: pa.scalar(int(local.local_parts(batch_micros())[0]), expr.dtype)


@lazy("CurrentTimeZone")
def current_time_zone(expr: Expr, children: Sequence[Evaluator], context: Context) -> Evaluator:
    """The session's time zone."""
    return lambda batch: pa.scalar(context.session_timezone)


def _zone_name(expr: Expr, context: Context) -> str:
    return str(expr.params.get("time_zone_id") or context.session_timezone)
