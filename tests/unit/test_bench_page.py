"""The page of the benchmarks tells what was promised."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import pytest

from bench import publish

CASES = sorted(publish.GOALS)


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, kind in (("PAGE", "md"), ("DATA", "json"), ("PLOT", "svg")):
        monkeypatch.setattr(publish, name, tmp_path / f"performance.{kind}")
    return tmp_path / "performance.md"


def test_a_goal_stands_beside_its_figure(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish, "GOALS", {"idle": {"quiet": {"calls": 12.0}}})
    publish.publish({"idle": {"quiet": {"calls": 10.0}, "busy": {"calls": 455.0}}}, 3)
    text = page.read_text()
    assert "| quiet | 10 (goal: at most 12) |" in text
    assert "| busy | 455 |" in text
    assert json.loads(publish.DATA.read_text())["idle"]["figures"]["quiet"] == {"calls": 10.0}


def test_goals_may_be_the_least_or_a_multiple(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    goals = {"quiet": {"rows": publish.AtLeast(2e6), "more": publish.Times(2, "busy")}}
    monkeypatch.setattr(publish, "GOALS", {"idle": goals})
    publish.publish({"idle": {"quiet": {"rows": 1e6, "more": 9.0}}}, 3)
    said = "1,000,000 (goal: at least 2,000,000) | 9 (goal: at least 2 × busy)"
    assert f"| quiet | {said} |" in page.read_text()


def test_what_was_before_stands_beside_it(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish, "GOALS", {"idle": {"quiet": {"calls": 12.0}}})
    said = {"quiet": {"calls": "40-50"}, "busy": {"calls": "900"}}
    monkeypatch.setattr(publish, "BEFORE", {"idle": said})
    publish.publish({"idle": {"quiet": {"calls": 10.0}, "busy": {"calls": 455.0}}}, 3)
    text = page.read_text()
    assert "| quiet | 10 (goal: at most 12, before: 40-50) |" in text
    assert "| busy | 455 (before: 900) |" in text


def test_every_figure_has_a_column_and_engines_keep_their_order(page: Path) -> None:
    publish.publish({"idle": {"b": {"p50": 1.0}, "a": {"calls": 4.0}}}, 3)
    assert "| | p50 | calls |\n|---|---|---|\n| b | 1 |  |\n| a |  | 4 |" in page.read_text()


@pytest.mark.parametrize("case", CASES)
def test_goals_are_of_what_is_measured(case: str) -> None:
    named = {*publish.GOALS[case], *publish.BEFORE.get(case, {})}
    assert named <= set(import_module(f"bench.{case}").ENGINES)
