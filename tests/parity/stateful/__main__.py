"""``python -m tests.parity.stateful``: all queries, or some, in one Spark session.

Differences are printed as they come; the last line is JSON, how many cases there were of each kind.
Exits with 1 if any differs.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import tempfile
import time
from collections import Counter
from pathlib import Path

from pyspark.sql import SparkSession

from tests.parity.stateful.comparing import Case, NothingToCompare, cases, differences, views
from tests.parity.stateful.inventing import invented
from tests.parity.stateful.steps import steps

_CONF = {
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.sql.streaming.pollingDelay": "1ms",
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.adaptive.enabled": "false",
    # Each query is another one: compiling it well takes longer than it runs.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.sql.codegen.wholeStage": "false",
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.parity.stateful")
    parser.add_argument("--name", default="", help="a part of a query's name")
    parser.add_argument("--mode", choices=("append", "update", "complete"))
    parser.add_argument("--ansi", choices=("true", "false"))
    parser.add_argument("--seed", type=int, default=7, help="of the input")
    parser.add_argument("--share", type=float, default=1.0, help="of the cases, drawn by the seed")
    parser.add_argument("--random", type=int, help="so many random queries, drawn by the seed")
    parser.add_argument("--first", type=int, default=0, help="the number of the first of these")
    parser.add_argument(
        "--keys-stay", action="store_true", help="each key in one partition, its state there"
    )
    given = parser.parse_args()
    if given.random is not None:
        numbers = range(given.first, given.first + given.random)
        _play_all([invented(given.seed, number) for number in numbers], given.seed, given.keys_stay)
        return
    chosen = [
        case
        for case in cases()
        if given.name in case.template.name
        and given.mode in (None, case.mode)
        and given.ansi in (None, str(case.ansi).lower())
    ]
    chosen = [
        case for case in chosen if random.Random(f"{given.seed} {case}").random() < given.share
    ]
    # Whatever is done when somebody interrupts it is a sample.
    random.Random(given.seed).shuffle(chosen)
    _play_all(chosen, given.seed, given.keys_stay)


def _play_all(chosen: list[Case], seed: int, keys_stay: bool) -> None:
    builder = SparkSession.builder.master("local[2]")
    for name, value in _CONF.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    began, found = time.monotonic(), Counter(dict.fromkeys(("equal", "differing", "refused"), 0))
    for case in chosen:
        found[_play(spark, case, seed, keys_stay)] += 1
        if found.total() % 20 == 0:
            print(json.dumps({"so far": found.total(), **found}), flush=True)
    took = round(time.monotonic() - began)
    print(json.dumps({"cases": len(chosen), **found, "seconds": took}), flush=True)
    spark.stop()
    if found["differing"]:
        raise SystemExit(1)


def _play(spark: SparkSession, case: Case, seed: int, keys_stay: bool) -> str:
    folder = Path(tempfile.mkdtemp(prefix="parity-"))
    try:
        views(spark, folder)
        told = differences(spark, folder, case, steps(seed), keys_stay=keys_stay)
        outcome = "equal"
    except NothingToCompare:
        return "empty"
    except Exception as error:  # the others are still to be played
        told, outcome = [f"{type(error).__name__}: {error}"[:600]], "refused"
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if told:
        outcome = "differing" if outcome == "equal" else outcome
        print(f"{outcome}: {case.name}", case.template.sql, *told[:6], sep="\n    ", flush=True)
    return outcome


if __name__ == "__main__":
    main()
