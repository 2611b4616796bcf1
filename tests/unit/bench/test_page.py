"""The page of the benchmarks tells what was measured, on which commit, and what is aimed at."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from bench.cases import CASES, PARTS, chosen
from bench.publishing import page as pages
from bench.publishing.goals import BEFORE, GOALS, AtLeast, Times
from bench.publishing.measurements import Measurements, Profile, Row, load
from bench.publishing.page import page
from bench.publishing.publish import DATA, DOCS, PAGE, PLOTS
from bench.publishing.reasons import REASONS


def row(commit: str = "aaaa", at: str = "2026-11-25 10:00", **figures: float) -> Row:
    return Row(figures, commit=commit, at=at, machine="one", runs=3)


def known(**cases: Mapping[str, Row]) -> Measurements:
    return Measurements({"one": {"cores": "2", "Python": "3.11.7"}}, cases)


def test_a_row_says_when_and_on_which_commit() -> None:
    text = page(known(idle={"quiet": row(calls=10.0)}), {})
    assert (
        "| | calls | measured |\n|---|---|---|\n| quiet | 10 | 2026-11-25 10:00, `aaaa` |" in text
    )
    assert "All rows are of commit `aaaa`." in text
    assert "Machine A: cores 2, Python 3.11.7" in text


def test_a_stale_row_is_marked() -> None:
    old = row("aaaa", "2026-11-24", calls=10.0)
    text = page(known(idle={"quiet": old, "busy": row("bbbb", calls=9.0)}), {})
    assert "| quiet | 10 | 2026-11-24, `aaaa` † |" in text
    assert "| busy | 9 | 2026-11-25 10:00, `bbbb` |" in text
    assert "1 of 2 are of another one" in text


def test_what_compares_has_its_ratio() -> None:
    rows = {"engine": row(rows_per_second=300.0), "spark continuous": row(rows_per_second=100.0)}
    assert "| spark continuous | 100 (÷ 3) |" in page(known(throughput=rows), {})


def test_who_is_missing_says_why() -> None:
    missing = Row(commit="aaaa", at="2026-11-25 10:00", machine="one", missing="no wheel | here")
    rows = {"engine": row(p50=2.0, p99=3.0), "flink": missing}
    said = "| flink | not measured: no wheel \\| here |  | 2026-11-25 10:00, `aaaa` |"
    assert said in page(known(peer_latency=rows), {})


def test_another_machine_is_told_of_each_row() -> None:
    two = Row({"calls": 9.0}, commit="aaaa", at="2026-11-25 10:00", machine="two", runs=3)
    made = known(idle={"quiet": row(calls=10.0), "busy": two})
    text = page(Measurements({**made.machines, "two": {"cores": "8"}}, made.cases), {})
    assert "`aaaa`, A |" in text
    assert "`aaaa`, B |" in text


def test_a_goal_stands_beside_its_figure_and_what_misses_it_on_top(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    goals = {"quiet": {"calls": 12.0, "rows": AtLeast(2e6), "more": Times(2, "busy")}}
    monkeypatch.setattr(pages, "GOALS", {"idle": goals})
    rows = {"quiet": row(calls=10.0, rows=1e6, more=9.0), "busy": row(more=4.0)}
    text = page(known(idle=rows), {})
    said = (
        "10 (goal: at most 12) | 1,000,000 (goal: at least 2,000,000) | 9 (goal: at least 2 × busy)"
    )
    assert f"| quiet | {said} |" in text
    missed = "| [Idle](#idle), quiet, rows | at least 2,000,000 | 1,000,000 | not looked into yet |"
    assert missed in text
    assert "quiet, calls" not in text
    assert "quiet, more" not in text


def test_what_holds_it_up_is_named_by_who_has_looked_or_by_the_profile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pages, "GOALS", {"idle": {"quiet": {"calls": 1.0}}})
    made = known(idle={"quiet": row(calls=10.0)})
    profile = Profile([("engine/a.py f", 0.75)], "aaaa", "2026-11-25 11:00", "one")
    text = page(Measurements(made.machines, made.cases, {"idle": {"quiet": profile}}), {})
    assert "| at most 1 | 10 | 75% of the time in `engine/a.py f` |" in text
    assert "| 75% | `engine/a.py f` |" in text
    monkeypatch.setattr(pages, "REASONS", {"idle": {"": "each epoch is listed"}})
    assert "| at most 1 | 10 | each epoch is listed |" in page(made, {})
    reasons = {"idle": {"": "each epoch is listed", "quiet": "nothing comes"}}
    monkeypatch.setattr(pages, "REASONS", reasons)
    assert "| at most 1 | 10 | nothing comes |" in page(made, {})


def test_reasons_are_of_cases_with_goals() -> None:
    for case, reasons in REASONS.items():
        assert set(reasons) <= {"", *GOALS[case]}, case


def test_what_was_before_stands_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "BEFORE", {"idle": {"busy": {"calls": "900"}}})
    assert "| busy | 455 (before: 900) |" in page(known(idle={"busy": row(calls=455.0)}), {})


def test_a_picture_has_an_alternative() -> None:
    text = page(known(idle={"busy": row(calls=4.0)}), {"idle": ("performance/idle.svg", "Idle: 4")})
    assert "![Idle: 4](performance/idle.svg)" in text


def test_what_is_not_measured_is_named() -> None:
    assert (
        "`peer_counts`"
        in page(known(idle={"busy": row(calls=4.0)}), {}).partition("Not measured yet")[2]
    )


def test_every_case_is_in_one_part() -> None:
    assert [case for part in PARTS.values() for case in part.cases] == list(CASES)


def test_parts_and_cases_are_chosen_by_name() -> None:
    assert chosen(["provider,idle"]) == ["idle", *PARTS["provider"].cases]
    assert chosen([]) == list(CASES)
    with pytest.raises(ValueError, match="nothing is neither a part, first,"):
        chosen(["nothing"])


@pytest.mark.parametrize("case", sorted(GOALS))
def test_goals_are_of_what_is_measured(case: str) -> None:
    assert {*GOALS[case], *BEFORE.get(case, {})} <= set(CASES[case].engines)


def test_the_page_is_that_of_its_file() -> None:
    """Nobody has edited it: what is to be said of a number belongs to its case."""
    measured = load(DATA)
    shown = {path.stem for path in PLOTS.glob("*.svg")}
    text = PAGE.read_text(encoding="utf-8")
    pictures = {
        case: (file, alt)
        for case in CASES
        for alt, file in _pictures(text)
        if file == f"performance/{'partitions' if case == 'commits' else case}.svg"
    }
    assert text == page(measured, pictures)
    assert {Path(file).stem for file, _ in pictures.values()} == shown
    assert all((DOCS / file).exists() for file, _ in pictures.values())


def _pictures(text: str) -> list[tuple[str, str]]:
    lines = [line for line in text.splitlines() if line.startswith("![")]
    return [(line[2:].partition("](")[0], line.partition("](")[2].rstrip(")")) for line in lines]


@pytest.mark.parametrize("case", sorted(load(DATA).cases))
def test_what_is_published_can_be_measured_again(case: str) -> None:
    assert set(load(DATA).cases[case]) <= set(CASES[case].engines)
