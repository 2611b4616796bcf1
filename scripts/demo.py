"""``make demo``: real departures arrive, a continuous query processes them, and the DAG that has
started it waits for its epochs, checks what is committed, prunes, and drains.

Starts and ends everything itself: a feeder, Airflow's four processes, and, through the DAG, the
query. Exits non-zero if anything differs from the same query run in batch, or goes wrong.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from play import ROOT, Demo, Feeder, epochs, fresh, pairs

from engine.commands.result import format_bytes

FOLDER = ROOT / ".demo"
CHECKPOINT = FOLDER / "checkpoints" / "flights"


def describe(step: str, result: dict[str, Any]) -> str:
    """What a person wants to see of a step's result."""
    if step == "wait_for_epochs":
        committed = f"epoch {result['epoch']} committed at {result['committed_at']}"
        return f"{committed}\n\n{epochs(CHECKPOINT)}"
    if step == "prune":
        removed = {key: value for key, value in result.items() if key != "removed_bytes"}
        return pairs({**removed, "removed": format_bytes(result["removed_bytes"])})
    if step == "drain":
        return f"{pairs(result)}\n\n{epochs(CHECKPOINT)}"
    return pairs(result)


DEMO = Demo(
    FOLDER,
    "flights_demo",
    (
        "start",
        "wait_for_epochs",
        "compare",
        "prune",
        "everything_committed",
        "compare_everything",
        "drain",
    ),
    ("everything_committed",),
    (CHECKPOINT,),
    describe,
    {"CONTINUOUS_DEMO_DIR": str(FOLDER)},
)
FEEDER = Feeder(
    f"Departures of 2013 arrive in {FOLDER / 'input'}",
    "flights.feed",
    ("--output", str(FOLDER / "input")),
)

if __name__ == "__main__":
    os.chdir(ROOT)
    fresh(FOLDER)
    sys.exit(DEMO.play(FEEDER))
