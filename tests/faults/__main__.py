"""``python -m tests.faults``: injects faults and says what was broken (:mod:`tests.faults.levels`).

Prints one table, and one JSON object as the last line. Exits with 1 if a promise was broken, a
mutant was not caught, or a level that was asked for cannot run here.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.faults.levels import LEVELS, run_levels
from tests.faults.publish import PAGE, publish
from tests.faults.result import table, to_json


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the random walks")
    parser.add_argument("--levels", default=",".join(LEVELS), help="which, separated by commas")
    parser.add_argument("--budget", choices=("short", "long"), default="long")
    parser.add_argument(
        "--at-once",
        type=int,
        default=1,
        metavar="N",
        help="so many levels beside each other: those of L5 mostly wait; what times recovery is to "
        "run alone",
    )
    parser.add_argument("--json", type=Path, help="write the last line to this file, too")
    parser.add_argument("--publish", action="store_true", help=f"write docs/{PAGE.name}")
    given = parser.parse_args()
    names = given.levels.split(",")
    unknown = [name for name in names if name not in LEVELS]
    if unknown:
        parser.error(f"no such level: {unknown[0]}; there are {', '.join(LEVELS)}")
    if given.budget == "short":
        names = [name for name in names if LEVELS[name].short is not None]
    results = []
    for result in run_levels(names, given.seed, long=given.budget == "long", at_once=given.at_once):
        results.append(result)
        if given.publish:  # at once: what is found later may be broken off
            publish([result])
    line = to_json(results)
    print(table(results))
    print(line)
    if given.json is not None:
        given.json.write_text(line + "\n", encoding="utf-8")
    missed = [result.level for result in results if result.skipped is not None]
    return 0 if all(result.kept for result in results) and not missed else 1


if __name__ == "__main__":
    sys.exit(main())
