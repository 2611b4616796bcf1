"""The long run: ``python -m tests.parity [--rows ROWS] [--changed]``.

Compares every template under several seeds, time zones and both modes, and the whole queries;
prints what differs and writes ``measurements.json`` and docs/expressions.md. The last line is one
JSON object. With ``--changed`` only the names whose templates or kernels have changed since they
were measured: the figures of all others stay, and so do those of what differs.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from typing import Any, Final

from pyspark.sql import SparkSession

from tests.parity import measurements
from tests.parity.measure import ROWS, changed, measure
from tests.parity.oracle import Report, Setting, run
from tests.parity.queries import compare_queries
from tests.parity.spark_functions import scalar_functions
from tests.parity.support import write_document
from tests.parity.templates import families
from tests.spark.conftest import start

_ROUNDS: Final = (
    ("UTC", True, 1),
    ("Europe/Berlin", False, 2),
    ("America/New_York", True, 3),
    ("Australia/Lord_Howe", False, 4),
)


def main(spark: SparkSession, rows: int, only_changed: bool) -> int:
    """:return: the exit code: 1 if anything differs."""
    before = measurements.load()
    every = list(families())
    played = every
    if only_changed:
        found = [replace(each, templates=changed(each, before["names"])) for each in every]
        played = [family for family in found if family.templates]
    report = Report()
    for timezone, ansi, seed in _ROUNDS:
        for family in played:
            known = len(report.differences)
            run(spark, [family], Setting(seed, rows, ansi, timezone), report)
            print(f"{timezone} ansi={ansi} {family.name}: {report.cases:,} cases", flush=True)
            print(*report.differences[known:], sep="\n", end="\n" * bool(report.differences))
    summary: dict[str, Any] = {
        "expressions": len(report.names),
        "cases": report.cases,
        "mismatches": report.mismatches,
        "damaged": report.damaged,
    }
    if not only_changed:
        queries = dict(compare_queries(spark))
        wrong = {name: difference for name, difference in queries.items() if difference}
        for name, difference in wrong.items():
            print(f"query {name!r}: {difference}")
        summary |= {"queries": len(queries), "query_mismatches": len(wrong)}
    print(json.dumps(summary))
    fails = bool(report.mismatches or summary.get("query_mismatches"))
    if fails and not only_changed:
        return 1
    now = {
        name: of
        for family in played
        for name, of in measure(spark, family).items()
        if name not in report.wrong
    }
    if only_changed:
        there = {name for family in every for name in family.templates}
        kept = {name: of for name, of in before["names"].items() if name in there}
        again = {**before["run"].get("again", {}), **dict.fromkeys(now, rows)}
        said = {"spark": spark.version, **before["run"]}
        said["again"] = {name: again[name] for name in sorted(again) if name in there}
        measurements.save(said, kept | now, scalar_functions(spark))
    else:
        about = {"rows": ROWS, "spark": spark.version}
        measurements.save(summary | about, now, scalar_functions(spark))
    write_document()
    return 1 if fails else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.parity")
    parser.add_argument("--rows", type=int, default=300, help="for each comparison")
    parser.add_argument("--changed", action="store_true", help="only what has changed since")
    arguments = parser.parse_args()
    session = start()
    code = main(session, arguments.rows, arguments.changed)
    session.stop()
    sys.exit(code)
