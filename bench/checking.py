"""Measures again, for a shorter time, and tells which ratio is worse than the published one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.cases import CASES
from bench.publishing.measurements import Row, load
from bench.publishing.publish import DATA
from bench.publishing.ratios import LIMIT, Change, changes, not_published
from bench.running import rows

TIMES_AGAIN = 3
"""A case of which something has fallen is judged by the medians of so many more runs: one may have
met a machine that was busy."""


def check(cases: Sequence[str], size: str) -> int:
    """Print every ratio beside the published one; 1 if one has fallen, or a benchmark has failed.

    Cases that have no ratio, or none that was published, are named.
    """
    published = load(DATA).cases
    failures: list[str] = []
    unknown: list[str] = []
    fallen: list[Change] = []
    for name in cases:
        case, before = CASES[name], published.get(name, {})
        if not case.compares and not case.by_yardstick:
            unknown.append(f"{name}: it is compared with nothing")
            continue
        if not any(row.figures for row in before.values()):
            unknown.append(f"{name}: nothing of it is published")
            continue
        found, now = _measured(name, before, 1, size, failures)
        if any(each.has_fallen for each in found):
            found, now = _measured(name, before, TIMES_AGAIN, size, failures)
        for each in found:
            print(f"{'FALLEN' if each.has_fallen else 'ok':6} {each}", flush=True)
        fallen += [each for each in found if each.has_fallen]
        places = not_published(case, before, now)
        unknown += [f"{name}: {each.engine}, {each.figure}, is not published" for each in places]
    for text in unknown:
        print(f"not compared: {text}")
    for text in failures:
        print(f"FAILED: {text}")
    print(f"{len(fallen)} ratios have fallen by more than {LIMIT:.0%}")
    for change in fallen:
        print(f"  {change}")
    return 1 if fallen or failures else 0


def _measured(
    name: str, before: Mapping[str, Row], times: int, size: str, failures: list[str]
) -> tuple[list[Change], Mapping[str, Row]]:
    now = rows(name, times, size, failed=failures.append)
    return list(changes(name, CASES[name], before, now)), now
