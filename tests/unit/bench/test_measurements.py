"""Measurements are added case by case, and each row keeps saying what it is of."""

from __future__ import annotations

from pathlib import Path

from bench.publishing.measurements import (
    Measurements,
    Profile,
    Row,
    load,
    merged,
    save,
    with_profile,
)
from bench.running import row_of

OLD = Row({"p50": 2.0}, commit="aaaa", at="2026-11-24", machine="one", runs=3)
NEW = Row({"p50": 1.0}, commit="bbbb", at="2026-11-25 10:00", machine="two", runs=3, seconds=9.5)
ONE, TWO = {"one": {"cores": "2"}}, {"two": {"cores": "4"}}


def test_a_case_is_replaced_and_others_stay() -> None:
    known = merged(Measurements(), "wire", {"a": OLD}, ["a"], ONE)
    known = merged(known, "idle", {"b": OLD}, ["b"], ONE)
    known = merged(known, "wire", {"a": NEW}, ["a"], TWO)
    assert known.cases == {"wire": {"a": NEW}, "idle": {"b": OLD}}
    assert known.machines == {**ONE, **TWO}


def test_what_has_failed_keeps_its_old_row_and_engines_their_order() -> None:
    known = merged(
        Measurements(), "wire", {"b": OLD, "a": OLD, "gone": OLD}, ["b", "a", "gone"], ONE
    )
    known = merged(known, "wire", {"a": NEW}, ["a", "b"], TWO)
    assert list(known.cases["wire"].items()) == [("a", NEW), ("b", OLD)]


def test_a_machine_without_rows_goes() -> None:
    known = merged(Measurements(), "wire", {"a": OLD}, ["a"], ONE)
    assert merged(known, "wire", {"a": NEW}, ["a"], TWO).machines == TWO


def test_what_is_saved_is_what_is_loaded(tmp_path: Path) -> None:
    missing = Row(commit="bbbb", at="2026-11-25 10:00", machine="two", missing="no such package")
    known = merged(Measurements(), "wire", {"a": NEW, "b": missing}, ["a", "b"], TWO)
    profile = Profile([("engine/a.py f", 0.75)], "bbbb", "2026-11-25 10:30", "two")
    known = with_profile(known, "wire", "a", profile, TWO)
    save(known, tmp_path / "all.json")
    assert load(tmp_path / "all.json") == known
    assert load(tmp_path / "none.json") == Measurements()


def test_a_row_has_the_medians_of_its_runs() -> None:
    told = [{"p50": value, "rows": 7, "yardstick": 0.5} for value in (3.0, 1.0, 2.0)]
    row = row_of(told, Row(commit="aaaa", runs=3))
    assert (row.figures, row.yardstick, row.commit) == ({"p50": 2.0}, 0.5, "aaaa")


def test_a_row_without_figures_says_why() -> None:
    row = row_of([{"missing": "no wheel", "yardstick": 0.5}], Row(commit="aaaa", runs=3, seconds=1))
    assert (row.figures, row.missing, row.runs) == ({}, "no wheel", 0)


def test_a_run_that_told_nothing_does_not_count() -> None:
    told = [{"p50": 2.0, "yardstick": 0.5}, {"missing": "no result within 120 s", "yardstick": 0.5}]
    row = row_of(told, Row(commit="aaaa", runs=2))
    assert (row.figures, row.missing, row.runs) == ({"p50": 2.0}, None, 1)
