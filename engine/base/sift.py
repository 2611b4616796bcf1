"""Finds the few items of many that something fails on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from engine.errors import BadRecordError, ContinuousError, TransformError

T = TypeVar("T")
_OF_AN_ITEM = (TransformError, BadRecordError)


def sift(
    count: int,
    attempt: Callable[[int, int], T],
    refusals: tuple[type[Exception], ...],
    *,
    bad_max: int | None = None,
) -> tuple[list[T], list[tuple[int, Exception]]]:
    """Halve what fails until each failing item is alone: much less work than one by one, as long
    as few of them fail.

    :param count: how many items there are.
    :param attempt: works on the items from its first argument up to (not including) its second.
    :param bad_max: stop when so many bad items are found.
    :param refusals: how ``attempt`` says that an item is bad.
    :return: the results of the pieces without a bad item, and the bad items' positions with what
        was raised for them; both ascending.
    :raises ContinuousError: one that says nothing of an item: an outage, for example.
    """
    good: list[T] = []
    bad: list[tuple[int, Exception]] = []
    ranges = [(0, count)]
    while ranges:
        start, stop = ranges.pop()
        if start == stop:
            continue
        try:
            good.append(attempt(start, stop))
        except refusals as exc:
            if isinstance(exc, ContinuousError) and not isinstance(exc, _OF_AN_ITEM):
                raise
            if stop - start == 1:
                bad.append((start, exc))
                if len(bad) == bad_max:
                    break
            else:
                middle = (start + stop) // 2
                ranges += [(middle, stop), (start, middle)]
    return good, bad
