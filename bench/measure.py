"""Statistics that every benchmark prints in the same way."""

from __future__ import annotations

import statistics
from collections.abc import Sequence


def percentile(values: Sequence[float], percent: float) -> float:
    """Nearest rank, never below the true one."""
    ordered = sorted(values)
    rank = max(1, -int(-len(ordered) * percent // 100))
    return ordered[rank - 1]


def spread(values: Sequence[float], digits: int = 1) -> str:
    """``median (min … max)``."""
    return (
        f"{statistics.median(values):,.{digits}f} "
        f"({min(values):,.{digits}f} … {max(values):,.{digits}f})"
    )
