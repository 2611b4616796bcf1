"""What the scenarios have found: one record each, a table, one JSON object."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Outcome:
    """:param name: of the scenario, in words.
    :param queries: how many processes ran the query in the end.
    :param task: the task's state in the end; of several, each that occurs.
    :param duplicates: query processes beyond the one, and runs that committed among the epochs of a
        later generation.
    :param orphans: processes that belong to no Airflow process and to no query that should run.
    :param wrong_states: task states, and task results, that are not what was promised.
    :param broken: what went wrong, in words; empty if every promise was kept.
    :param skipped: why the scenario did not run here; None if it did.
    """

    name: str
    queries: int = 0
    task: str = ""
    duplicates: int = 0
    orphans: int = 0
    wrong_states: int = 0
    seconds: float = 0.0
    broken: list[str] = field(default_factory=list)
    skipped: str | None = None

    @property
    def passed(self) -> bool:
        """Whether it ran, and every promise was kept."""
        return self.skipped is None and not self.broken


def summary(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """All scenarios that ran, in one object: the last line of the output."""
    ran = [outcome for outcome in outcomes if outcome.skipped is None]
    return {
        "scenarios": len(ran),
        "passed": sum(outcome.passed for outcome in ran),
        "duplicates": sum(outcome.duplicates for outcome in ran),
        "orphans": sum(outcome.orphans for outcome in ran),
        "wrong_states": sum(outcome.wrong_states for outcome in ran),
        "skipped": len(outcomes) - len(ran),
    }


def to_json(outcomes: Sequence[Outcome]) -> str:
    """The last line of the output."""
    return json.dumps(summary(outcomes))


_COLUMNS = ("queries", "task", "duplicates", "orphans", "wrong states", "seconds", "")


def cells(outcome: Outcome) -> list[str]:
    """The columns of a scenario that ran, after its name."""
    counts = (outcome.duplicates, outcome.orphans, outcome.wrong_states)
    verdict = "kept" if outcome.passed else "BROKEN"
    return [
        str(outcome.queries),
        outcome.task,
        *map(str, counts),
        f"{outcome.seconds:.0f}",
        verdict,
    ]


def table(outcomes: Sequence[Outcome]) -> str:
    """For people."""
    rows = [["scenario", *_COLUMNS]]
    rows += [[o.name, *cells(o)] for o in outcomes if o.skipped is None]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]
    for outcome in outcomes:
        lines += [f"BROKEN  {outcome.name}: {found}" for found in outcome.broken]
        if outcome.skipped is not None:
            lines.append(f"not run here  {outcome.name}: {outcome.skipped}")
    return "\n".join(line.rstrip() for line in lines)
