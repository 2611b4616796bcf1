"""``python -m bench``: every engine in a process of its own, in turn, some times.

Prints medians and ratios. With ``--publish`` each case is added to docs/performance.json as soon as
it is measured, and docs/performance.md is made again, so a long bench can be taken in pieces. With
``--check`` ratios are compared with the published ones. Exits with 1 if a benchmark has failed, or
if a ratio has fallen by more than 20 %.
"""

from __future__ import annotations

import argparse
import sys

from bench.cases import CASES, PARTS, chosen
from bench.checking import check
from bench.profiling import profile
from bench.publishing import origin
from bench.publishing.measurements import Row, load
from bench.publishing.publish import DATA, publish, write
from bench.running import FailedError, rows
from bench.size import SHORT, SIZES, WHOLE


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="how often each engine runs")
    parser.add_argument(
        "--only",
        nargs="+",
        default=[],
        metavar="NAME",
        help=f"parts, with commas or blanks between: {', '.join(PARTS)}; or cases (--list)",
    )
    parser.add_argument(
        "--size", choices=SIZES, help="how much of it: short holds the ratios, tiny only tries"
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--publish", action="store_true", help="write docs/performance.md")
    what.add_argument("--page", action="store_true", help="write it of what is known already")
    what.add_argument("--list", action="store_true", help="cases, and how long they took")
    what.add_argument(
        "--check", action="store_true", help="compare ratios with the published ones; short"
    )
    what.add_argument(
        "--profile",
        metavar="CASE[/ENGINE]",
        help="where the time of an engine goes, of the first one if none is named; the page shows "
        "it with --keep",
    )
    parser.add_argument("--keep", action="store_true", help="add the profile to the page")
    given = parser.parse_args()
    if given.page:
        write(load(DATA))
        return 0
    try:
        cases = chosen(given.only)
        if given.profile:
            case, _, engine = given.profile.partition("/")
            return profile(case, engine, given.size or SHORT, keep=given.keep)
    except ValueError as error:
        parser.error(str(error))
    except FailedError as error:
        print(f"FAILED: {error}", file=sys.stderr)
        return 1
    if given.list:
        return _list(cases)
    if given.check:
        return check(cases, given.size or SHORT)
    size = given.size or WHOLE
    if given.publish and size != WHOLE:
        parser.error(f"what is published is whole, not {size}")
    return _measure(cases, given.runs, size, publishing=given.publish)


def _measure(cases: list[str], runs: int, size: str, *, publishing: bool) -> int:
    machine, what = origin.machine()
    failures: list[str] = []

    def failed(text: str) -> None:
        print(f"FAILED: {text}", file=sys.stderr, flush=True)
        failures.append(text)

    for case in cases:
        of = Row(commit=origin.commit(), at=origin.now(), machine=machine)
        measured = rows(case, runs, size, origin=of, failed=failed)
        if publishing and measured:
            publish(case, measured, {machine: what})
    if failures:
        print(f"{len(failures)} have failed; what was known of them stays", file=sys.stderr)
    return 1 if failures else 0


def _list(cases: list[str]) -> int:
    known, total_s = load(DATA), 0.0
    for name, part in PARTS.items():
        for case in (each for each in part.cases if each in cases):
            measured = known.cases.get(case, {}).values()
            took = [row.seconds for row in measured if row.seconds is not None]
            total_s += sum(took)
            when = f"{sum(took) / 60:6.1f} min" if took else "not known "
            print(f"{name:12} {case:22} {when}  {', '.join(CASES[case].engines)[:60]}")
    print(f"{'together':35} {total_s / 60:6.1f} min")
    return 0


if __name__ == "__main__":
    sys.exit(main())
