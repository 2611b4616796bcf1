from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from engine.progress.histogram import LatencyHistogram

durations = st.lists(st.integers(0, 10**9), min_size=1, max_size=200)


@given(durations, st.floats(1, 100))
def test_percentiles_are_never_too_low_and_at_most_a_sixteenth_too_high(
    values: list[int], percent: float
) -> None:
    histogram = LatencyHistogram()
    for value in values:
        histogram.record(value)
    rank = max(1, -int(-len(values) * percent // 100))
    true_ms = sorted(values)[rank - 1] / 1000
    measured = histogram.percentile_ms(percent)
    assert measured is not None
    assert true_ms <= measured <= true_ms * (1 + 1 / 16) + 1e-9


@given(durations, durations)
def test_merging_is_recording_both(left: list[int], right: list[int]) -> None:
    one, other, both = LatencyHistogram(), LatencyHistogram(), LatencyHistogram()
    for value in left:
        one.record(value)
        both.record(value)
    for value in right:
        other.record(value)
        both.record(value)
    one.merge(other)
    assert one == both
    assert one.total == len(left) + len(right)


def test_weights_and_the_empty_histogram() -> None:
    histogram = LatencyHistogram()
    assert histogram.summary_ms() is None
    histogram.record(1_000, count=99)
    histogram.record(50_000)
    summary = histogram.summary_ms()
    assert summary is not None
    assert summary["p50"] < 1.1
    assert summary["p99"] < 1.1
    assert summary["max"] == 50.0


def test_counts_below_bounds_and_the_sum() -> None:
    histogram = LatencyHistogram()
    for us, count in ((5, 2), (1_000, 1), (1_001, 1), (90_000, 3)):
        histogram.record(us, count)
    kept = histogram.copy()
    histogram.record(1)
    assert kept.at_most([4, 5, 1_100, 89_000, 96_000, 10**9]) == [0, 2, 4, 4, 7, 7]
    exact = 2 * 5 + 1_000 + 1_001 + 3 * 90_000
    assert exact <= kept.sum_us <= exact * 1.0625


@given(durations, st.lists(st.integers(0, 10**9), min_size=1, max_size=20).map(sorted))
@example([1_000_000, 1_001_000], [1_000_000])
def test_counts_below_bounds_never_fall(values: list[int], bounds_us: list[int]) -> None:
    """Prometheus takes a count that falls for one that began anew, and adds it once more."""
    histogram = LatencyHistogram()
    for value in values:
        before = histogram.at_most(bounds_us)
        histogram.record(value)
        after = histogram.at_most(bounds_us)
        assert all(old <= new for old, new in zip(before, after, strict=True))
        assert all(
            sum(each <= bound / 1.0625 for each in values[: histogram.total])
            <= count
            <= sum(each <= bound for each in values[: histogram.total])
            for bound, count in zip(bounds_us, after, strict=True)
        )
