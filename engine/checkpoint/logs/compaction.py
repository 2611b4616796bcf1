"""Which entries of a log are compacted, as Spark does it, and which of them a reader needs.

Pure. Source: Spark's CompactibleFileStreamLog.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

DEFAULT_INTERVAL: Final = 10
COMPACT: Final = ".compact"


def is_compaction(epoch: int, interval: int) -> bool:
    """Whether the epoch's entry holds everything so far."""
    return (epoch + 1) % interval == 0


def entry_name(epoch: int, interval: int) -> str:
    """``3`` or ``9.compact``."""
    return f"{epoch}{COMPACT}" if is_compaction(epoch, interval) else str(epoch)


def entries_until(epoch: int, interval: int) -> range:
    """The epochs whose entries together hold all files up to ``epoch``, inclusive."""
    return range(max(0, (epoch + 1) // interval * interval - 1), epoch + 1)


def entries_before_compaction(epoch: int, interval: int) -> range:
    """The epochs whose entries together hold all files before a compaction epoch."""
    assert is_compaction(epoch, interval), f"{epoch} is no compaction epoch"
    return range(max(0, epoch - interval), epoch)


def compaction_before(epoch: int, interval: int) -> int:
    """The last compaction epoch before this one; -1 if there is none."""
    return epoch - epoch % interval - 1


def stepping_stones(last: int, until: int, interval: int) -> list[int]:
    """Compaction epochs that lead from one to another, as few as there may be.

    The distance of two of them divides both their numbers (plus one), as readers expect of an
    interval; that of the last two is the interval itself.

    :param last: a compaction epoch.
    :param until: inclusive: the last one is less than two intervals before.
    """
    at, goal = (last + 1) // interval, (until + 1) // interval
    goal -= 1 - goal % 2  # behind an odd number the steps have come down to one
    stones = []
    while at < goal:
        step = at & -at
        while at + step > goal:
            step //= 2
        at += step
        stones.append(at * interval - 1)
    return stones


def needed_from(oldest: int, last: int, interval: int) -> int:
    """The first entry that is needed in a log that ends with the epoch ``last``.

    A reader of the epoch ``oldest`` or later needs the compaction before it, and what follows. The
    last two compactions stay with all between them in any case: they tell the interval, and with
    the next one it can be doubled.
    """
    compacted = compaction_before(last + 1, interval)
    return min(compaction_before(oldest, interval), compacted - interval)


def interval_of(compactions: Sequence[int], default: int) -> int:
    """The interval by which an existing log was written, whatever is configured now.

    :param compactions: the compaction epochs that are there, ascending.
    """
    if len(compactions) >= 2:
        return compactions[-1] - compactions[-2]
    return derived_interval(default, compactions[0]) if compactions else default


def derived_interval(default: int, compaction: int) -> int:
    """An interval for which ``compaction`` is a compaction epoch: the default if it can be."""
    epochs = compaction + 1
    if epochs <= default:
        return epochs
    if default < epochs / 2:
        return next(each for each in range(default, epochs + 1) if epochs % each == 0)
    return epochs
