"""``current_timestamp``, ``now``, ``current_date``, ``localtimestamp``: the time of the batch.

Spark refuses these in continuous queries; in its micro-batches they are one instant per batch. Here
all of them mean the moment at which the task got the record batch from the source, so that they
agree with each other within a row, whatever functions it passes in between. Behind a function over
an iterator that holds rows back it is the newest batch that the function has read.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from engine.expressions.registry import Context, Evaluator, lazy
from engine.expressions.times.zones import zone
from engine.expressions.tree import Expr


class NotConstantError(Exception):
    """What was to be computed once and for all depends on when that is."""


class _Batch(threading.local):
    """:ivar micros: when the thread's batch began; None outside of batches."""

    micros: int | None = None
    is_constant = False


_batch = _Batch()


def begin_batch(micros: int | None = None) -> None:
    """From now on, and until the next call in this thread, it is this moment.

    :param micros: another one: that of a batch that began earlier.
    """
    _batch.micros = time.time_ns() // 1_000 if micros is None else micros


def batch_micros() -> int:
    """Microseconds since 1970, UTC. Outside of batches, where connectors read and write text, it
    is now.

    :raises NotConstantError: inside of :func:`constant_only`.
    """
    if _batch.is_constant:
        raise NotConstantError
    return time.time_ns() // 1_000 if _batch.micros is None else _batch.micros


class outside_of_batches:
    """For a while, the thread has no batch."""

    def __enter__(self) -> None:
        self._before, _batch.micros = _batch.micros, None

    def __exit__(self, *error: object) -> None:
        _batch.micros = self._before


@contextmanager
def constant_only() -> Iterator[None]:
    """For a while, nobody may ask what time it is."""
    before, _batch.is_constant = _batch.is_constant, True
    try:
        yield
    finally:
        _batch.is_constant = before


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


def _zone_name(expr: Expr, context: Context) -> str:
    return str(expr.params.get("time_zone_id") or context.session_timezone)
