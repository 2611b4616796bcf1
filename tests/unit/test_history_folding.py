"""Measures at falling resolution: nothing is lost, nothing is twice, and the budget holds."""

from __future__ import annotations

import gzip
import random
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import CheckpointVersionError
from engine.history.folding import MARKS_MAX, RESOLUTIONS, History, Mark
from engine.history.measures import Measures
from engine.history.stored import (
    BUDGET_BYTES,
    Packer,
    StoredHistory,
    unpack,
)
from engine.progress.histogram import LatencyHistogram

NOW_MS = 1_795_174_660_561
DAY_MS = 86_400_000
WEEK_MS = 7 * DAY_MS


def measured(at_ms: int, rows: int = 1, latency_us: int = 100) -> Measures:
    latency = LatencyHistogram()
    latency.record(latency_us, rows)
    return Measures(
        at_ms,
        epochs=1,
        open_ms=1000,
        rows_in=rows,
        rows_out=rows,
        commit_ms=3,
        commit_max_ms=3,
        lag=rows,
        state_rows=at_ms % 1000,
        steps_ms={"prepare": 1, "commitSink": 2},
        latency=latency.coarser(),
    )


def total(history: History) -> dict[str, Any]:
    """What the points are together, whatever their resolution."""
    points = list(history.points())
    if not points:
        return {}
    whole = Measures(0)
    for point in points:
        whole.merge(point.measures)
    return {name: value for name, value in vars(whole).items() if name != "at_ms"}


def store(history: History, budget: int = BUDGET_BYTES) -> bytes:
    newest = max((each.measures.at_ms for each in history.points()), default=0)
    blocks = StoredHistory(history).blocks
    return Packer().within_budget(blocks, lambda: history.narrow(newest), budget)


# So far apart at most that all of them are within a week of each other.
_STEPS = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 20, 999, 1_000, 7_000, 60_000, 599_999, 3_600_000, 5 * 3_600_000]),
        st.integers(0, 1000),
        st.integers(0, 10**7),
    ),
    min_size=1,
    max_size=30,
)


@given(_STEPS, st.integers(0, 1))
@settings(deadline=None)
def test_sums_and_latencies_are_kept_across_resolutions(
    steps: list[tuple[int, int, int]], back: int
) -> None:
    """Also if the clock is set back now and then."""
    history, whole, at_ms = History(), Measures(0), NOW_MS
    for index, (step_ms, rows, latency_us) in enumerate(steps):
        at_ms += -step_ms if back and index % 3 == 2 else step_ms
        history.add(measured(at_ms, rows, latency_us))
        whole.merge(measured(at_ms, rows, latency_us))
        for point in history.points():
            assert point.start_ms % point.length_ms == 0
            assert point.start_ms <= point.measures.at_ms < point.end_ms
    expected = {name: value for name, value in vars(whole).items() if name != "at_ms"}
    assert {**total(history), "state_rows": None} == {**expected, "state_rows": None}
    assert total(history)["state_rows"] is not None


@given(_STEPS)
@settings(deadline=None)
def test_points_do_not_overlap(steps: list[tuple[int, int, int]]) -> None:
    history, at_ms = History(), NOW_MS
    for step_ms, *_ in steps:
        at_ms += step_ms
        history.add(measured(at_ms))
    points = list(history.points())
    assert all(one.end_ms <= other.start_ms for one, other in pairwise(points))
    assert sorted({point.length_ms for point in points}, reverse=True) == list(
        dict.fromkeys(point.length_ms for point in points)
    ), "the older, the coarser"


@given(_STEPS)
@settings(deadline=None)
def test_what_is_stored_is_read_as_it_was(steps: list[tuple[int, int, int]]) -> None:
    history, at_ms = History(), NOW_MS
    history.marks.append(Mark(NOW_MS, "started", "behind epoch 6"))
    for step_ms, rows, latency_us in steps:
        at_ms += step_ms
        history.add(measured(at_ms, rows, latency_us))
    stored = StoredHistory(history, ("run", 7))
    data = Packer().within_budget(stored.blocks, lambda: False)
    read = unpack(data)
    assert read.last == ("run", 7)
    assert list(read.history.marks) == list(history.marks)
    assert [vars(point.measures) for point in read.history.points()] == [
        vars(point.measures) for point in history.points()
    ]
    assert Packer().within_budget(read.blocks, lambda: False) == data


@given(_STEPS, st.integers(0, 29))
@settings(deadline=None)
def test_a_takeover_loses_nothing(steps: list[tuple[int, int, int]], cut: int) -> None:
    """The successor has begun its own when it reads what there was."""
    whole, earlier, later, at_ms = History(), History(), History(), NOW_MS
    for index, (step_ms, rows, latency_us) in enumerate(steps):
        at_ms += step_ms
        whole.add(measured(at_ms, rows, latency_us))
        (earlier if index < cut else later).add(measured(at_ms, rows, latency_us))
    later.take_up(unpack(store(earlier)).history)
    later.fold(at_ms)
    assert total(later) == total(whole)
    assert [(each.start_ms, each.length_ms) for each in later.points()] == [
        (each.start_ms, each.length_ms) for each in whole.points()
    ]


def test_a_mark_keeps_whichever_text_it_has() -> None:
    history = History()
    history.marks.append(Mark(NOW_MS, "restarted", "a\u2028b\u2029c\u0085d\x1ce\n\r\n"))
    assert unpack(store(history)).history.marks == history.marks


@pytest.mark.parametrize("wrong_ms", [0, 1_000, NOW_MS + 30 * DAY_MS, 4 * NOW_MS])
@pytest.mark.parametrize("for_how_many", [1, 600])
def test_a_clock_that_is_wrong_for_a_while_costs_no_week(wrong_ms: int, for_how_many: int) -> None:
    """As a machine that has begun in 1970 until it was told the time."""
    history = History()
    for minute in range(10 * 1440):
        history.add(measured(NOW_MS + minute * 60_000))
    before, at_ms = total(history)["epochs"], NOW_MS + 10 * DAY_MS
    for second in range(for_how_many):
        history.add(measured(wrong_ms + second * 1_000))
    assert total(history)["epochs"] == before + for_how_many
    history.add(measured(at_ms))
    assert total(history)["epochs"] == before + 1
    last = list(history.points())[-1]
    assert (last.start_ms, last.length_ms) == (at_ms - at_ms % 1_000, 1_000)


def test_a_clock_that_was_wrong_for_long_is_forgotten_by_and_by() -> None:
    history, wrong_ms = History(), NOW_MS + 365 * DAY_MS
    for minute in range(0, 9 * 1440, 5):
        history.add(measured(wrong_ms + minute * 60_000))
    for minute in range(0, 9 * 1440, 5):
        history.add(measured(NOW_MS + minute * 60_000))
    assert len(list(history.points())) < 2_500
    assert max(each.start_ms for each in history.points()) < NOW_MS + 9 * DAY_MS


def test_resolutions_fit_into_each_other() -> None:
    for finer, coarser in pairwise(RESOLUTIONS):
        assert coarser.length_ms % finer.length_ms == 0
        assert finer.age_ms % coarser.length_ms == 0
        assert coarser.age_ms > finer.age_ms
    assert RESOLUTIONS[-1].age_ms == WEEK_MS


def test_the_budget_holds_after_a_month() -> None:
    """Of epochs whose latencies are spread over all that there is, and a failure every hour."""
    history, rng, packer = History(), random.Random(7), Packer()
    stored, times_ms = StoredHistory(history), []
    seconds = [*range(0, 30 * 86_400 - 900, 120), *range(30 * 86_400 - 900, 30 * 86_400)]
    for second in seconds:
        times_ms.append(NOW_MS + second * 1000)
        each = measured(times_ms[-1], rng.randrange(10**6), 0)
        for _ in range(3):
            each.latency.record(rng.randrange(1 << rng.randrange(4, 24)), rng.randrange(1, 10**5))
        each.latency = each.latency.coarser()
        history.add(each)
        if second % 3_600 == 0:
            noise = "".join(chr(rng.randrange(0x4E00, 0x9FFF)) for _ in range(200))
            history.marks.append(Mark(times_ms[-1], "restarted", noise))
        if second % (2 * 86_400) == 0 or second == seconds[-1]:
            narrow = partial(history.narrow, times_ms[-1])
            assert len(packer.within_budget(stored.blocks, narrow)) <= BUDGET_BYTES
    first, *_, last = history.points()
    assert abs(times_ms[-1] - WEEK_MS - first.start_ms) <= 600_000
    assert last.length_ms == 1_000
    kept = [each for each in times_ms if each >= first.start_ms]
    assert total(history)["epochs"] == len(kept)


def test_a_small_budget_takes_the_finest_first_and_the_oldest_last() -> None:
    history = History()
    for second in range(0, 9 * 86_400, 60):
        history.add(measured(NOW_MS + second * 1000, second))
    history.marks.extend(Mark(NOW_MS, "started", "x" * 300) for _ in range(MARKS_MAX + 5))
    assert len(history.marks) == MARKS_MAX
    before = total(history)
    size = len(store(history))
    assert total(history) == before
    assert len(store(history, size * 3 // 4)) <= size * 3 // 4
    assert total(history) == before, "coarser is enough"
    assert len(store(history, 2_000)) <= 2_000
    assert 0 < total(history)["epochs"] < before["epochs"]
    with pytest.raises(AssertionError, match="nothing to leave out"):
        store(history, 10)


def test_an_unknown_number_stays_unknown() -> None:
    one = Measures(NOW_MS, epochs=1)
    one.merge(Measures(NOW_MS + 1, epochs=1))
    assert (one.rows_out, one.lag, one.state_rows) == (None, None, None)
    one.merge(Measures(NOW_MS + 2, rows_out=3, lag=4, state_rows=5))
    one.merge(Measures(NOW_MS + 3))
    one.merge(Measures(NOW_MS, lag=2, state_rows=9))
    assert (one.rows_out, one.lag, one.state_rows) == (3, 4, 5)


@pytest.mark.parametrize("cut", [0, 1, 10, 40, -1])
def test_what_is_torn_is_told(cut: int) -> None:
    history = History()
    history.add(measured(NOW_MS))
    with pytest.raises(ValueError):
        unpack(store(history)[:cut])


def test_a_newer_version_is_refused() -> None:
    newer = StoredHistory(History()).blocks()[0].replace('"version":1', '"version":2')
    with pytest.raises(CheckpointVersionError, match="version 2"):
        unpack(gzip.compress(newer.encode()))
