"""Writes docs/performance.md and its pictures from docs/performance.json, and adds to that."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bench.cases import CASES
from bench.publishing.measurements import (
    Measurements,
    Profile,
    Row,
    load,
    merged,
    save,
    with_profile,
)

DOCS = Path(__file__).parents[2] / "docs"
PAGE, DATA, PLOTS = DOCS / "performance.md", DOCS / "performance.json", DOCS / "performance"

Machines = Mapping[str, Mapping[str, str]]


def publish(case: str, rows: Mapping[str, Row], machines: Machines) -> None:
    """Replace the rows of a case, and write all again: what is measured later may be broken off."""
    write(merged(load(DATA), case, rows, CASES[case].engines, machines))


def publish_profile(case: str, engine: str, profile: Profile, machines: Machines) -> None:
    """Add a profile, and write all again."""
    write(with_profile(load(DATA), case, engine, profile, machines))


def write(known: Measurements) -> None:
    """The file, the pictures and the page."""
    from bench.publishing.page import page
    from bench.publishing.plots import plots

    save(known, DATA)
    PAGE.write_text(page(known, plots(known, PLOTS, DOCS)), encoding="utf-8")
