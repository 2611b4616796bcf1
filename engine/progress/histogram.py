"""A latency histogram of fixed relative error that merges by addition and travels small."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

_SUB_BITS = 4  # 16 buckets per power of two: percentiles are at most 1/16 = 6 % too high


def _bucket(value_us: int) -> int:
    if value_us < 1 << _SUB_BITS:
        return value_us
    shift = value_us.bit_length() - _SUB_BITS - 1
    return ((shift + 1) << _SUB_BITS) + (value_us >> shift) - (1 << _SUB_BITS)


def _upper_bound(bucket: int) -> int:
    if bucket < 1 << _SUB_BITS:
        return bucket
    shift = (bucket >> _SUB_BITS) - 1
    base = (bucket & ((1 << _SUB_BITS) - 1)) + (1 << _SUB_BITS)
    return ((base + 1) << shift) - 1


@dataclass
class LatencyHistogram:
    """Counts of durations in microseconds.

    :param counts: bucket number → how many; logarithmic buckets, 16 to each power of two.
    :param max_us: the largest duration recorded, exact.
    """

    counts: dict[int, int] = field(default_factory=dict)
    max_us: int = 0

    def record(self, duration_us: int, count: int = 1) -> None:
        """Add ``count`` durations of ``duration_us`` microseconds; negative ones count as 0."""
        duration_us = max(duration_us, 0)
        bucket = _bucket(duration_us)
        self.counts[bucket] = self.counts.get(bucket, 0) + count
        self.max_us = max(self.max_us, duration_us)

    def merge(self, other: LatencyHistogram) -> None:
        """Add the counts of another histogram."""
        for bucket, count in other.counts.items():
            self.counts[bucket] = self.counts.get(bucket, 0) + count
        self.max_us = max(self.max_us, other.max_us)

    def copy(self) -> LatencyHistogram:
        """One that does not change with this one."""
        return LatencyHistogram(dict(self.counts), self.max_us)

    def coarser(self) -> LatencyHistogram:
        """The same in buckets that are four times as wide, to be kept for long: percentiles are at
        most 1/4 too high, the largest duration is exact."""
        counts: dict[int, int] = {}
        for bucket, count in self.counts.items():
            wide = bucket | 3  # the last of four: its upper bound is theirs
            counts[wide] = counts.get(wide, 0) + count
        return LatencyHistogram(counts, self.max_us)

    @property
    def total(self) -> int:
        """How many durations were recorded."""
        return sum(self.counts.values())

    @property
    def sum_us(self) -> int:
        """All durations together, as the upper bounds of their buckets: at most 6 % too high."""
        return sum(
            min(_upper_bound(bucket), self.max_us) * count for bucket, count in self.counts.items()
        )

    def at_most(self, bounds_us: Sequence[int]) -> list[int]:
        """How many durations do not exceed each of the bounds; one that is a bound, or less than
        6 % below it, may count as above it. No count falls when more is recorded.

        :param bounds_us: ascending.
        """
        found = [0] * (len(bounds_us) + 1)
        for bucket, count in self.counts.items():
            # Not the largest duration, though it is less: with a larger one a count would fall.
            found[bisect_left(bounds_us, _upper_bound(bucket))] += count
        return list(accumulate(found))[:-1]

    def percentile_ms(self, percent: float) -> float | None:
        """The duration in milliseconds that ``percent`` % do not exceed, never below the true
        one; None if nothing was recorded."""
        total = self.total
        if not total:
            return None
        wanted = max(1, -(-total * percent // 100))
        seen = 0
        for bucket in sorted(self.counts):
            seen += self.counts[bucket]
            if seen >= wanted:
                return min(_upper_bound(bucket), self.max_us) / 1000
        return self.max_us / 1000

    def summary_ms(self) -> dict[str, float] | None:
        """``{"p50", "p99", "max"}`` in milliseconds; None if nothing was recorded."""
        p50, p99 = self.percentile_ms(50), self.percentile_ms(99)
        if p50 is None or p99 is None:
            return None
        return {"p50": p50, "p99": p99, "max": self.max_us / 1000}
