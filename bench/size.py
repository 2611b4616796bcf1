"""How much of it: what is published takes long, what looks for changes less.

A benchmark is run by several processes, so its size is in their environment.
"""

from __future__ import annotations

import os
from typing import TypeVar

T = TypeVar("T")

VARIABLE = "BENCH_SIZE"
WHOLE, SHORT, TINY = SIZES = ("whole", "short", "tiny")
"""What is published; the same for a shorter time, so that ratios hold; what only tries."""


def sized(whole: T, short: T, tiny: T) -> T:
    """That of the size that is run."""
    return sized_as(os.environ.get(VARIABLE, WHOLE), whole, short, tiny)


def sized_as(size: str, whole: T, short: T, tiny: T) -> T:
    """That of a size."""
    return dict(zip(SIZES, (whole, short, tiny), strict=True))[size]
