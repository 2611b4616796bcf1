"""The pictures of the page: the same bytes for the same figures, small, and with their words."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench.publishing.measurements import Measurements, Row
from bench.publishing.plots import BARS, plots

pytest.importorskip("matplotlib", reason="the dependency group dev is not installed")

LATENCY = {"engine": {"p50": 0.3, "p99": 0.6}, "spark continuous": {"p50": 0.0, "p99": 16.0}}
EPOCHS = {
    "100 partitions": {"epochs_per_second": 1e4},
    "1,000 partitions": {"epochs_per_second": 1e3},
}
COMMITS = {"local disk, 2 partitions": {"p50": 2.0}, "local disk, 1,000 partitions": {"p50": 4.0}}


def known(**cases: dict[str, dict[str, float]]) -> Measurements:
    rows = {case: {e: Row(figures) for e, figures in each.items()} for case, each in cases.items()}
    return Measurements(cases=rows)


def test_the_same_figures_are_the_same_bytes(tmp_path: Path) -> None:
    measured = known(latency=LATENCY, coordinator=EPOCHS, commits=COMMITS)
    first = plots(measured, tmp_path / "a", tmp_path)
    second = plots(measured, tmp_path / "b", tmp_path)
    assert set(first) == set(second) == {"latency", "commits"}
    for case, (file, _) in first.items():
        made = (tmp_path / file).read_bytes()
        assert made == (tmp_path / second[case][0]).read_bytes()
        assert len(made) < 30_000


def test_a_picture_has_its_words_as_words(tmp_path: Path) -> None:
    (file, alt) = plots(known(latency=LATENCY), tmp_path / "plots", tmp_path)["latency"]
    assert file == "plots/latency.svg"
    assert alt == (
        "Latency, ms, less is better: engine p50 0.3, p99 0.6; spark continuous p50 0, p99 16"
    )
    tree = ElementTree.fromstring((tmp_path / file).read_text())
    words = "".join(tree.itertext())
    assert "spark continuous" in words
    assert alt in words


def test_pictures_of_what_is_gone_go(tmp_path: Path) -> None:
    plots(known(latency=LATENCY), tmp_path, tmp_path.parent)
    plots(known(functions=LATENCY), tmp_path, tmp_path.parent)
    assert [file.name for file in tmp_path.glob("*.svg")] == ["functions.svg"]


def test_a_case_without_its_figures_has_no_picture(tmp_path: Path) -> None:
    assert plots(known(latency={"engine": {"p50": 1.0}}), tmp_path, tmp_path.parent) == {}
    assert all(names for names, _ in BARS.values())
