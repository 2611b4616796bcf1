"""Arrays of Java: what is outside of one is an error.

Source: ``KllLongsHelper.java`` of datasketches-java.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from engine.expressions.sketches.memory import bad_argument

Items = npt.NDArray[Any]
Run = tuple[Items, npt.NDArray[np.int64]]
_Part = tuple[Items, int, int]


def span(items: Items, at: int, count: int) -> Items:
    """So many of them: a view.

    :raises SketchError: not all are there.
    """
    if at < 0 or count < 0 or at + count > len(items):
        raise bad_argument(f"Values {at} to {at + count} are wanted of {len(items)}.")
    return items[at : at + count]


def copied(source: Items, at: int, target: Items, to: int, count: int) -> None:
    """``System.arraycopy``.

    :raises SketchError: one of them has not so many.
    """
    span(target, to, count)[:] = span(source, at, count)


def merged_into(target: Items, to: int, lower: _Part, upper: _Part) -> None:
    """Two ascending parts of arrays become one that is; among equals those of the upper are first.
    Each part is an array, where it begins and how many values it has: of the upper it may be less
    than none, which are taken off the end, of whatever is there.

    :raises SketchError: the values are not there.
    """
    (items, at, count), (others, other, more) = lower, upper
    if count >= 0 and more >= 0:
        parts = span(items, at, count), span(others, other, more)
        span(target, to, count + more)[:] = merged_levels(*parts)
        return
    end = at + count
    for place in range(to, to + count + more):
        wanted = span(others, other, 1)[0]
        if at < end and span(items, at, 1)[0] < wanted:
            wanted = items[at]
            at += 1
        else:
            other += 1
        span(target, place, 1)[0] = wanted


def merged_levels(lower: Items, upper: Items) -> Items:
    """The values of two ascending levels, ascending; among equals those of the upper are first."""
    alike = [np.zeros(len(items), np.int64) for items in (lower, upper)]
    return merged_runs([(lower, alike[0]), (upper, alike[1])])[0]


def in_order(items: Items) -> Items:
    """As Java sorts them: -0.0 is before 0.0, NaN is the last."""
    return items[np.lexsort((~np.signbit(items), items))]


def merged_runs(levels: list[Run]) -> Run:
    """Levels that are ascending are merged into one that is; of others, which bytes of another kind
    of sketch may have, the library makes what this order of comparisons gives."""
    if all(_is_ascending(items) for items, _ in levels):
        items, each = (np.concatenate(part) for part in zip(*levels[::-1], strict=True))
        order = np.argsort(items, kind="stable")
        return items[order], each[order]
    if len(levels) == 1:
        return levels[0]
    half = len(levels) // 2
    return _merged_pair(merged_runs(levels[:half]), merged_runs(levels[half:]))


def _merged_pair(lower: Run, upper: Run) -> Run:
    """Among equals those of the upper levels are first."""
    items, each = (np.concatenate(part) for part in zip(lower, upper, strict=True))
    at, middle = 0, len(lower[0])
    other, order = middle, []
    while at < middle and other < len(items):
        if items[at] < items[other]:
            order.append(at)
            at += 1
        else:
            order.append(other)
            other += 1
    order += [*range(at, middle), *range(other, len(items))]
    return items[order], each[order]


def _is_ascending(items: Items) -> bool:
    return not np.isnan(items).any() and bool((items[:-1] <= items[1:]).all())
