"""``python -m tests.parity.invented --trees N --seed S [--family NAME] [--first-batch B]
[--record]``.

Prints progress, every difference made small, and a last line of JSON; exits with 1 if anything
differs.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

from pyspark.sql import SparkSession

from tests.parity import releases
from tests.parity.invented.quiet import start_quietly
from tests.parity.invented.run import AT_ONCE, Run
from tests.parity.templates import families


def main(spark: SparkSession, arguments: argparse.Namespace) -> int:
    """:return: the exit code."""
    chosen = [f for f in families() if arguments.family in (None, f.name)]
    if not chosen:
        raise SystemExit(f"no family {arguments.family!r}: {[f.name for f in families()]}")
    run = Run(spark, arguments.seed, chosen)
    jvm: Any = spark._jvm
    java = str(jvm.System.getProperty("java.specification.version"))
    state = releases.State(
        spark.version, java
    )  # the code is that of now, whatever is changed since
    begun = time.monotonic()
    batches = range(arguments.first_batch, -(-arguments.trees // AT_ONCE) + arguments.first_batch)
    for done, batch in enumerate(batches):
        trees = min(AT_ONCE, arguments.trees - done * AT_ONCE)
        run.play(batch, trees, lambda finding: print(finding, flush=True))
        counts, took = run.result.counts, time.monotonic() - begun
        differing = f"{run.result.differing} differ"
        rate = f"{counts.trees / took:.1f} trees/s"
        print(f"batch {batch}: {counts.trees} trees, {differing}, {rate}", flush=True)
        if arguments.record:  # each time: a run that is killed counts as far as it went
            played = releases.Counts(counts.trees, counts.values, run.result.differing)
            releases.record(releases.Run(state, arguments.seed, played))
    result = run.result
    summary = {
        "seed": arguments.seed,
        "trees": result.counts.trees,
        "values": result.counts.values,
        "constants": result.counts.constants,
        "nameless": result.counts.nameless,
        "missing": result.missing,
        "differing": result.differing,
        "differences": [finding.expression for finding in result.findings.values()],
        "only_interpreted": result.interpreted,
        "refused": dict(result.counts.refused.most_common()),
        "redrawn": dict(result.counts.redrawn.most_common()),
    }
    print(json.dumps(summary))
    return 1 if result.differing else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.parity.invented")
    parser.add_argument("--trees", type=int, default=2_000, help="how many")
    parser.add_argument("--seed", type=int, default=1, help="gives all trees")
    parser.add_argument("--family", help="only this family's templates")
    parser.add_argument("--first-batch", type=int, default=0, help="goes on from there")
    parser.add_argument("--record", action="store_true", help="keep the figures in releases.json")
    return parser.parse_args()


if __name__ == "__main__":
    options = _arguments()
    session = start_quietly()
    code = main(session, options)
    session.stop()
    sys.exit(code)
