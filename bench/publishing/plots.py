"""The pictures of docs/performance.md: small SVGs, the same bytes for the same figures.

They stand on a white card, as the drawings of docs/drawings do, so that they can be read on dark
pages as well.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from bench.cases import CASES
from bench.publishing.goals import shown
from bench.publishing.measurements import Figures, Measurements

OURS, THEIRS = "#4051b5", "#9aa5b1"
_SHADES = (1.0, 0.55)
"""Of the first figure that is drawn, and of the second."""
_STYLE: Mapping[str, Any] = {
    "svg.fonttype": "none",  # letters stay letters: small, and read by who cannot see
    "svg.hashsalt": "performance",
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": "#1f2933",
    "axes.labelcolor": "#52606d",
    "axes.edgecolor": "#9aa5b1",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid.axis": "x",
    "axes.axisbelow": True,
    "grid.color": "#e4e7eb",
    "xtick.color": "#52606d",
    "ytick.color": "#1f2933",
    "figure.facecolor": "white",
}
BARS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "throughput": (("rows_per_second",), "rows per second"),
    "latency": (("p50", "p99"), "ms"),
    "functions": (("p50", "p99"), "ms"),
    "windowed_counts": (("10,000 keys", "1,000,000 keys"), "rows per second"),
    "count_latency": (("p50", "p99"), "ms"),
    "kafka_latency": (("p50", "p99"), "ms"),
    "kafka_throughput": (("rows/s",), "rows per second"),
    "peer_counts": (("rows/s",), "rows per second"),
    "peer_latency": (("p50", "p99"), "ms"),
}
"""Cases with a picture: which figures, and their unit."""
CURVE = "commits"
"""The case under which stands what an epoch costs by partitions; it needs the next one, too."""
_CURVES_WITH = "coordinator"


def plots(known: Measurements, folder: Path, beside: Path) -> dict[str, tuple[str, str]]:
    """Write all that there are figures for, and remove others.

    :param folder: theirs, made here.
    :param beside: the page's folder.
    :return: ``{case: (path from the page, what it shows)}``.
    """
    folder.mkdir(exist_ok=True)
    made = {}
    for case, (names, unit) in BARS.items():
        figures = known.figures(case)
        engines = [each for each in figures if all(name in figures[each] for name in names)]
        if engines:
            alt = _bars_say(case, engines, names, unit, figures)
            rates = CASES[case].is_better_with_more(names[0])
            made[case] = (
                _write(folder / f"{case}.svg", alt, _bars(engines, names, unit, figures, rates)),
                alt,
            )
    if known.figures(CURVE) and known.figures(_CURVES_WITH):
        alt = "What an epoch costs, against the number of partitions, both axes logarithmic"
        made[CURVE] = (_write(folder / "partitions.svg", alt, _curves(known)), alt)
    written = {file for file, _ in made.values()}
    for file in folder.glob("*.svg"):
        if file not in written:
            file.unlink()
    return {case: (file.relative_to(beside).as_posix(), alt) for case, (file, alt) in made.items()}


def _write(file: Path, alt: str, draw: Callable[[], Figure]) -> Path:
    with mpl.rc_context(dict(_STYLE)):
        figure = draw()
        metadata = {"Date": None, "Creator": None, "Title": alt}
        figure.savefig(file, format="svg", metadata=metadata, bbox_inches="tight", pad_inches=0.15)
    lines = file.read_text(encoding="utf-8").splitlines()
    file.write_text("\n".join(line.rstrip() for line in lines) + "\n", encoding="utf-8")
    return file


def _bars(
    engines: list[str],
    names: tuple[str, ...],
    unit: str,
    figures: Mapping[str, Figures],
    rates: bool,
) -> Callable[[], Figure]:
    """:param rates: they are rates, from 0; else times, thousands of times apart: logarithmic."""

    def draw() -> Figure:
        figure = Figure(figsize=(7.2, 0.7 + 0.3 * len(engines) * len(names)))
        axes = figure.add_subplot()
        values = [figures[engine][name] for engine in engines for name in names]
        least = min((value for value in values if value > 0), default=1.0)
        start = 0.0 if rates else least / 2
        height = 0.8 / len(names)
        for row, engine in enumerate(engines):
            colour = OURS if engine.startswith("engine") else THEIRS
            for part, (name, shade) in enumerate(zip(names, _SHADES, strict=False)):
                value, at = figures[engine][name], row + (part - (len(names) - 1) / 2) * height
                axes.barh(at, max(value, start) - start, height * 0.9, left=start,
                          color=colour, alpha=shade)  # fmt: skip
                label = f"{shown(value)}{f'  {name}' if len(names) > 1 else ''}"
                axes.annotate(label, (max(value, start), at), (4, 0), textcoords="offset points",
                              va="center", fontsize=9)  # fmt: skip
        if rates:
            axes.set_xlim(0, max(*values, 1) * 1.3)
            axes.xaxis.set_major_locator(MaxNLocator(4))
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        else:
            axes.set_xscale("log")
            axes.set_xlim(start, max(*values, start * 2) * 12)
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
            axes.xaxis.set_minor_locator(NullLocator())
        axes.set_yticks(range(len(engines)), [textwrap.shorten(each, 40) for each in engines])
        axes.invert_yaxis()
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel(unit if rates else f"{unit}, logarithmic")
        axes.grid(True, axis="x")
        return figure

    return draw


def _bars_say(
    case: str,
    engines: list[str],
    names: tuple[str, ...],
    unit: str,
    figures: Mapping[str, Figures],
) -> str:
    each = "; ".join(
        f"{engine} {', '.join(f'{name} {shown(figures[engine][name])}' for name in names)}"
        if len(names) > 1
        else f"{engine} {shown(figures[engine][names[0]])}"
        for engine in engines
    )
    better = "more is better" if CASES[case].is_better_with_more(names[0]) else "less is better"
    return f"{case.replace('_', ' ').capitalize()}, {unit}, {better}: {each}"


def _curves(known: Measurements) -> Callable[[], Figure]:
    coordinator, commits = known.figures(_CURVES_WITH), known.figures(CURVE)
    lines = {
        "coordinator, CPU": (
            OURS,
            [(_partitions(e), 1000 / v["epochs_per_second"]) for e, v in coordinator.items()],
        ),
        "commit, local disk": (
            "#c05c00",
            [
                (_partitions(engine), values["p50"])
                for engine, values in commits.items()
                if engine.startswith("local") and engine.endswith("partitions")
            ],
        ),
    }

    def draw() -> Figure:
        figure = Figure(figsize=(6.4, 3.4))
        axes = figure.add_subplot()
        for name, (colour, points) in lines.items():
            across, up = zip(*sorted(points), strict=True)
            axes.plot(across, up, "o-", color=colour, label=name, markersize=4)
        for scale, axis in ((axes.set_xscale, axes.xaxis), (axes.set_yscale, axes.yaxis)):
            scale("log")
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
            axis.set_minor_locator(NullLocator())
        axes.set_xlabel("partitions")
        axes.set_ylabel("ms per epoch")
        axes.grid(True, axis="both")
        axes.legend(frameon=False)
        return figure

    return draw


def _partitions(engine: str) -> float:
    return float(next(word for word in engine.split() if word[0].isdigit()).replace(",", ""))
