"""``python -m tests.airflow_faults``: kills and suspends what runs a query under a real Airflow.

Prints a table, and one JSON object as the last line. Exits with 1 if a promise was broken.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from tests.airflow_faults.publish import PAGE, publish
from tests.airflow_faults.result import Outcome, table, to_json
from tests.airflow_faults.scenarios import SCENARIOS, play


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.airflow_faults", description=__doc__)
    parser.add_argument("--short", action="store_true", help="few scenarios and tasks")
    parser.add_argument("--only", default="", help="scenarios whose name has this text in it")
    parser.add_argument("--folder", type=Path, help="for what is written; kept")
    parser.add_argument("--publish", action="store_true", help=f"write docs/airflow/{PAGE.name}")
    given = parser.parse_args()
    chosen = [s for s in SCENARIOS if given.only in s.name and (s.short or not given.short)]
    if not chosen:
        parser.error(f"no scenario has {given.only!r} in its name")
    # As after Ctrl-C: nothing stays behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder = given.folder or Path(tempfile.mkdtemp(prefix="airflow-faults-"))
    print(f"{len(chosen)} scenarios; Airflow's files are in {folder}", flush=True)
    outcomes = play(chosen, folder, "short" if given.short else "long", _tell)
    print(f"\n{table(outcomes)}")
    print(to_json(outcomes))
    if given.publish:
        publish(outcomes)
    kept = not any(outcome.broken for outcome in outcomes)
    if kept and given.folder is None:
        shutil.rmtree(folder)
    return 0 if kept else 1


def _tell(outcome: Outcome) -> None:
    """A line as soon as a scenario is over: the whole takes minutes."""
    verdict = "skipped" if outcome.skipped else "kept" if outcome.passed else "BROKEN"
    print(f"{outcome.seconds:6.0f} s  {verdict:<8} {outcome.name}", flush=True)
    for found in outcome.broken:
        print(f"          {found}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
