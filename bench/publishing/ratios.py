"""How many times as good one engine is as another in the same run, and what has become worse.

Absolute times are a machine's and a day's. Ratios of what ran in turn are not; and where nothing is
beside a case, what a fixed piece of work took on the same core stands in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bench.cases import Case
from bench.publishing.measurements import Row

LIMIT = 0.2
"""What has fallen by more is told."""
UNSTEADY = frozenset({"max", "p99.9", "connected_s", "threads", "bytes", "write_ms", "late"})
"""Single events, and what does not follow the cores: never compared with another time's."""


@dataclass(frozen=True, order=True)
class Place:
    """What a ratio is of.

    :param engine: the one that is measured.
    :param figure: of it.
    :param other: the one that it is compared with; empty for the yardstick.
    """

    engine: str
    figure: str
    other: str


@dataclass(frozen=True)
class Change:
    """A ratio of now beside the published one."""

    case: str
    place: Place
    published: float
    now: float

    @property
    def has_fallen(self) -> bool:
        return self.now < self.published * (1 - LIMIT)

    def __str__(self) -> str:
        beside = self.place.other or "the yardstick"
        return (
            f"{self.case}: {self.place.engine} to {beside} in {self.place.figure}: "
            f"{self.now:.3g}, published {self.published:.3g} ({self.now / self.published - 1:+.0%})"
        )


def ratio(case: Case, figure: str, ours: float, theirs: float) -> float | None:
    """How many times as good ours is; None where one of them is 0, as of whole milliseconds."""
    if not ours or not theirs:
        return None
    return ours / theirs if case.is_better_with_more(figure) else theirs / ours


def ratios(case: Case, rows: Mapping[str, Row]) -> dict[Place, float]:
    """All of a case, of steady figures."""
    return {
        place: found
        for place, found in (*_beside_others(case, rows), *_beside_the_yardstick(case, rows))
        if found is not None and place.figure not in UNSTEADY
    }


def _beside_others(case: Case, rows: Mapping[str, Row]) -> Iterator[tuple[Place, float | None]]:
    ours, *others = case.engines if case.compares else [""]
    for other in others:
        for figure, value in rows[ours].figures.items() if ours in rows else ():
            theirs = rows[other].figures.get(figure) if other in rows else None
            if theirs is not None:
                yield Place(ours, figure, other), ratio(case, figure, value, theirs)


def _beside_the_yardstick(
    case: Case, rows: Mapping[str, Row]
) -> Iterator[tuple[Place, float | None]]:
    for engine, row in rows.items() if case.by_yardstick else ():
        for figure, value in row.figures.items() if row.yardstick else ():
            assert row.yardstick is not None
            is_rate = case.is_better_with_more(figure)
            beside = 1 / row.yardstick if is_rate else row.yardstick
            yield Place(engine, figure, ""), ratio(case, figure, value, beside)


def changes(
    name: str, case: Case, published: Mapping[str, Row], now: Mapping[str, Row]
) -> Iterator[Change]:
    """Every ratio of a case that is in both, in order."""
    before, after = ratios(case, published), ratios(case, now)
    for place, value in after.items():
        if place in before:
            yield Change(name, place, before[place], value)


def not_published(case: Case, published: Mapping[str, Row], now: Mapping[str, Row]) -> list[Place]:
    """Ratios of now that nothing is known of."""
    before = ratios(case, published)
    return [place for place in ratios(case, now) if place not in before]
