"""What `make bench-check` says, and with which code it ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from bench import checking
from bench.checking import TIMES_AGAIN, check
from bench.publishing.measurements import Measurements, Row, save

Measure = Callable[[str, int], Mapping[str, Row]]


def rates(ours: float, theirs: float) -> Mapping[str, Row]:
    figures = {"engine": ours, "spark continuous": theirs, "spark micro-batch": theirs}
    return {engine: Row({"rows_per_second": value}) for engine, value in figures.items()}


@pytest.fixture
def measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Measure], None]:
    """Publishes a ratio of 4, and lets what is measured now be said by a function."""
    save(Measurements(cases={"throughput": rates(400.0, 100.0)}), tmp_path / "all.json")
    monkeypatch.setattr(checking, "DATA", tmp_path / "all.json")

    def put(by: Measure) -> None:
        def rows(case: str, times: int, size: str, **named: Any) -> Mapping[str, Row]:
            return by(case, times)

        monkeypatch.setattr(checking, "rows", rows)

    return put


def test_a_slower_machine_is_no_fall(
    measure: Callable[[Measure], None], capsys: pytest.CaptureFixture[str]
) -> None:
    measure(lambda case, times: rates(200.0, 50.0))
    assert check(["throughput"], "short") == 0
    assert "0 ratios have fallen by more than 20%" in capsys.readouterr().out


def test_a_fall_is_told_if_more_runs_say_the_same(
    measure: Callable[[Measure], None], capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[int] = []

    def fallen(case: str, times: int) -> Mapping[str, Row]:
        asked.append(times)
        return rates(300.0, 100.0)

    measure(fallen)
    assert check(["throughput"], "short") == 1
    assert asked == [1, TIMES_AGAIN]
    said = "FALLEN throughput: engine to spark continuous in rows_per_second: 3, published 4 (-25%)"
    assert said in capsys.readouterr().out


def test_one_bad_moment_is_no_fall(measure: Callable[[Measure], None]) -> None:
    measure(lambda case, times: rates(300.0 if times == 1 else 390.0, 100.0))
    assert check(["throughput"], "short") == 0


def test_what_is_compared_with_nothing_is_named(
    measure: Callable[[Measure], None], capsys: pytest.CaptureFixture[str]
) -> None:
    measure(lambda case, times: {})
    assert check(["commits", "latency"], "short") == 0
    said = capsys.readouterr().out
    assert "not compared: commits: it is compared with nothing" in said
    assert "not compared: latency: nothing of it is published" in said
