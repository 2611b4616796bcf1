"""Arrays of Java: what is outside of one is an error.

Source: ``KllLongsHelper.java``, ``KllLongsSketch.java`` of datasketches-java.
"""

from __future__ import annotations

from itertools import pairwise
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


def in_order(items: Items) -> Items:
    """As Java sorts them: -0.0 is before 0.0, NaN is the last."""
    return items[np.lexsort((~np.signbit(items), items))]


def merged_levels(lower: Items, upper: Items) -> Items:
    """The values of two ascending levels, ascending; among equals those of the upper are first."""
    items = np.concatenate([lower, upper])
    return merged_runs((items, np.zeros(len(items), np.int64)), [0, len(lower), len(items)])[0]


def merged_runs(run: Run, bounds: list[int]) -> Run:
    """Levels that are ascending are merged into one that is; among equals those of higher ones are
    first. Of others, which bytes of another kind of sketch may have, and of levels that overlap,
    the library makes what its order of comparisons gives.

    :param bounds: where each level begins, and the last ends.
    :raises SketchError: there is no room for levels that overlap.
    """
    items, each = run
    places = [np.arange(start, end) for start, end in pairwise(bounds)]
    if bounds == sorted(bounds) and all(_is_ascending(items[place]) for place in places):
        place = np.concatenate(places[::-1])
        order = place[np.argsort(items[place], kind="stable")]
        return items[order], each[order]
    target = items.copy(), each.copy()
    _merge((items.copy(), each.copy()), target, bounds)
    return target


def _merge(source: Run, target: Run, bounds: list[int]) -> None:
    """Levels of both, which are the same at first, into the second; halves of them the other way
    round before."""
    count = len(bounds) - 1
    if count == 1:
        return
    half = count // 2
    _merge(target, source, bounds[: half + 1])
    _merge(target, source, bounds[half:])
    at, middle, end = bounds[0], bounds[half], bounds[-1]
    order, other = [], middle
    while at < middle and other < end:
        if source[0][at] < source[0][other]:
            order.append(at)
            at += 1
        else:
            order.append(other)
            other += 1
    order += range(at, middle) if at < middle else range(other, end)
    for values, merged in zip(source, target, strict=True):
        span(merged, bounds[0], len(order))[:] = values[order]


def _is_ascending(items: Items) -> bool:
    return not np.isnan(items).any() and bool((items[:-1] <= items[1:]).all())
