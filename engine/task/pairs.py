"""Pairs of rows that belong together: each row with a run of places in an order of others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

Places = npt.NDArray[np.int64]
PAIRS_MAX: Final = 1_000_000
"""How many pairs of rows a condition is computed on at once."""


def slices(counts: Places) -> Iterator[tuple[int, int]]:
    """Ranges of rows with at most :data:`PAIRS_MAX` pairs each; a row is never divided.

    :param counts: the length of each row's run.
    """
    ends = np.cumsum(counts)
    start, done = 0, 0
    while start < len(counts):
        end = max(int(np.searchsorted(ends, done + PAIRS_MAX, side="right")), start + 1)
        yield start, end
        start, done = end, int(ends[end - 1])


def pairs(starts: Places, counts: Places) -> tuple[Places, Places]:
    """The pairs of a row and a place, in the rows' order.

    :param starts: where each row's run begins; anything, if it is empty.
    :param counts: how long it is.
    """
    rows = np.repeat(np.arange(len(counts)), counts)
    firsts = np.cumsum(counts) - counts
    return rows, (starts - firsts)[rows] + np.arange(len(rows))
