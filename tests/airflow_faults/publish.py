"""The page docs/airflow/faults.md, made from a run of all scenarios."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path

from tests.airflow_faults.result import Outcome, cells, summary

PAGE = Path(__file__).parents[2] / "docs" / "airflow" / "faults.md"
_HEAD = """\
# What Airflow's faults do to a query

Written by `make airflow-faults`: do not edit. Each scenario starts queries through a real
scheduler, dag-processor, triggerer and api-server, and then kills, suspends, clears or pauses
something. Most queries are a stand-in for Spark that takes the real lease and commits real epochs,
so that what is tested is Airflow and the provider. Afterwards there must be

- exactly one query where one was promised, and none where it has ended: counted among all processes
  of the machine; and no epoch committed twice or by a generation that a later one had fenced
- no orphan: no process that neither Airflow's processes nor the query answer for
- the right state of the task, and its result must name the run that really runs

`failed` is not a failure of the scenario: in some the task is marked failed by somebody, or what
it starts is killed, and it has to fail. A query whose task is marked failed ends if the task is one
that ends it (`on_kill_action`), and then `0` queries afterwards is what was promised. The last
column says whether all was kept.

`python -m tests.airflow_faults --only TEXT` plays single scenarios. Two triggerers need
PostgreSQL's row locks; the development dependencies bring a server and its drivers. Where there are
none, that scenario says so and is left out.
"""


def publish(outcomes: Sequence[Outcome]) -> None:
    """Write the page."""
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(outcomes), encoding="utf-8")


def page(outcomes: Sequence[Outcome]) -> str:
    """Return the page."""
    total = summary(outcomes)
    lines = [
        _HEAD,
        f"{date.today():%Y-%m-%d}, Airflow {version('apache-airflow')}, {platform.system()} "
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}. "
        f"{total['passed']} of {total['scenarios']} scenarios kept every promise: "
        f"{total['duplicates']} duplicates, {total['orphans']} orphans, "
        f"{total['wrong_states']} wrong states.",
        "",
        "| scenario | queries after | task | duplicates | orphans | wrong states | s | |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for outcome in outcomes:
        if outcome.skipped is None:
            lines.append(" | ".join([f"| {outcome.name}", *cells(outcome)]) + " |")
        else:
            lines.append(f"| {outcome.name} | not run here: {outcome.skipped} | | | | | | |")
    return "\n".join(lines) + "\n"
