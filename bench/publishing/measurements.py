"""docs/performance.json: what was measured, by case and engine, each with its commit and its time.

A row is replaced when its case is measured again, so a long bench can be taken in pieces, and what
is old can be seen. The file has::

    machines  {name: {what: text}}, those of which a row is
    cases     {case: {engine: row}}
    profiles  {case: {engine: {commit, at, machine, shares: [[where, share], ...]}}}
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

Figures = Mapping[str, float]


@dataclass(frozen=True)
class Row:
    """Of one engine in one case.

    :param figures: the medians of all runs.
    :param commit: the short hash, with a ``+`` behind it if files were changed.
    :param at: when, in UTC: a day, or a day and a time to the minute.
    :param machine: its name in the file.
    :param runs: how many there were.
    :param seconds: how long all runs took together.
    :param yardstick: what a fixed piece of work took on one core beside them, in seconds.
    :param version: of what was measured, where that is not ours and not Spark.
    :param missing: why there are no figures.
    """

    figures: Figures = field(default_factory=dict)
    commit: str = ""
    at: str = ""
    machine: str = ""
    runs: int = 0
    seconds: float | None = None
    yardstick: float | None = None
    version: str | None = None
    missing: str | None = None


@dataclass(frozen=True)
class Profile:
    """Where the time of one engine in one case goes.

    :param shares: places in the code, each with its share of all samples, 0 to 1.
    :param commit: and ``at``, ``machine``: as of a row.
    """

    shares: Sequence[tuple[str, float]]
    commit: str = ""
    at: str = ""
    machine: str = ""


@dataclass(frozen=True)
class Measurements:
    """All that is known."""

    machines: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    cases: Mapping[str, Mapping[str, Row]] = field(default_factory=dict)
    profiles: Mapping[str, Mapping[str, Profile]] = field(default_factory=dict)

    def figures(self, case: str) -> dict[str, Figures]:
        """Those of the engines that were measured."""
        return {name: row.figures for name, row in self.cases.get(case, {}).items() if row.figures}


def merged(
    known: Measurements,
    case: str,
    rows: Mapping[str, Row],
    engines: Sequence[str],
    machines: Mapping[str, Mapping[str, str]],
) -> Measurements:
    """What is known with new rows of one case.

    :param rows: of an engine without one, because it failed, the old row stays.
    :param engines: those that the case has, in their order; rows of others go.
    :param machines: of the new rows; those without a row go.
    """
    both = {**known.cases.get(case, {}), **rows}
    kept = {engine: both[engine] for engine in engines if engine in both}
    return _used(
        replace(
            known,
            machines={**known.machines, **machines},
            cases={**known.cases, case: kept},
        )
    )


def with_profile(
    known: Measurements,
    case: str,
    engine: str,
    profile: Profile,
    machines: Mapping[str, Mapping[str, str]],
) -> Measurements:
    """What is known with one profile more, or a newer one."""
    profiles = {**known.profiles.get(case, {}), engine: profile}
    return _used(
        replace(
            known,
            machines={**known.machines, **machines},
            profiles={**known.profiles, case: profiles},
        )
    )


def _used(known: Measurements) -> Measurements:
    groups = (*known.cases.values(), *known.profiles.values())
    used = {each.machine for group in groups for each in group.values()}
    return replace(known, machines={k: v for k, v in known.machines.items() if k in used})


def load(file: Path) -> Measurements:
    """What the file has; nothing, if there is none."""
    if not file.exists():
        return Measurements()
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return Measurements(
        machines=found["machines"],
        cases={
            case: {engine: Row(**row) for engine, row in rows.items()}
            for case, rows in found["cases"].items()
        },
        profiles={
            case: {
                engine: Profile(**{**each, "shares": [(at, part) for at, part in each["shares"]]})
                for engine, each in profiles.items()
            }
            for case, profiles in found["profiles"].items()
        },
    )


def save(known: Measurements, file: Path) -> None:
    """Write all; parts that are None are left out."""
    text = {
        "machines": known.machines,
        "cases": {case: _plain(rows) for case, rows in known.cases.items()},
        "profiles": {case: _plain(each) for case, each in known.profiles.items()},
    }
    file.write_text(json.dumps(text, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _plain(rows: Mapping[str, Row] | Mapping[str, Profile]) -> dict[str, dict[str, Any]]:
    return {
        engine: {name: value for name, value in asdict(row).items() if value is not None}
        for engine, row in rows.items()
    }
