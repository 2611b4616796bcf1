"""The long run: ``python -m tests.parity [ROWS]``, which is what ``make parity`` starts.

Compares every template under several seeds, time zones and both modes, and the whole queries;
prints what differs and writes ``measurements.json``. The last line is one JSON object.
"""

from __future__ import annotations

import json
import sys
from typing import Any, Final

from pyspark.sql import SparkSession

from tests.parity.measure import ROWS, measure
from tests.parity.oracle import Report, Setting, run
from tests.parity.queries import compare_queries
from tests.parity.support import MEASUREMENTS
from tests.parity.templates import families
from tests.spark.conftest import start

_ROUNDS: Final = (
    ("UTC", True, 1),
    ("Europe/Berlin", False, 2),
    ("America/New_York", True, 3),
    ("Australia/Lord_Howe", False, 4),
)
_ROWS: Final = 300


def main(spark: SparkSession, rows: int) -> int:
    """:return: the exit code: 1 if anything differs."""
    report = Report()
    every = list(families())
    for timezone, ansi, seed in _ROUNDS:
        for family in every:
            found = len(report.differences)
            run(spark, [family], Setting(seed, rows, ansi, timezone), report)
            print(f"{timezone} ansi={ansi} {family.name}: {report.cases:,} cases", flush=True)
            print(*report.differences[found:], sep="\n", end="\n" * bool(report.differences))
    queries = dict(compare_queries(spark))
    wrong = {name: difference for name, difference in queries.items() if difference}
    for name, difference in wrong.items():
        print(f"query {name!r}: {difference}")
    summary = {
        "expressions": len(report.names),
        "cases": report.cases,
        "mismatches": report.mismatches,
        "queries": len(queries),
        "query_mismatches": len(wrong),
    }
    names = {name: of for family in every for name, of in measure(spark, family).items()}
    MEASUREMENTS.write_text(_document({**summary, "rows": ROWS}, names), encoding="utf-8")
    print(json.dumps(summary))
    return 1 if report.mismatches or wrong else 0


def _document(summary: dict[str, int], names: dict[str, Any]) -> str:
    """JSON with a line per name, so that a difference between two runs can be read."""
    lines = [f"  {json.dumps(name)}: {json.dumps(names[name])}" for name in sorted(names)]
    run = json.dumps(summary)
    return f'{{\n "run": {run},\n "names": {{\n' + ",\n".join(lines) + "\n }\n}\n"


if __name__ == "__main__":
    session = start()
    code = main(session, int(sys.argv[1]) if len(sys.argv) > 1 else _ROWS)
    session.stop()
    sys.exit(code)
