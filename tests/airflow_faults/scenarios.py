"""All scenarios, and one Airflow to play them in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.airflow_faults import followers, people, supervised, triggerers, wanted, workers
from tests.airflow_faults.case import Scenario, judge
from tests.airflow_faults.result import Outcome
from tests.airflow_faults.world import World
from tests.servers import postgresql

SCENARIOS: tuple[Scenario, ...] = (
    *workers.SCENARIOS,
    *triggerers.SCENARIOS,
    *people.SCENARIOS,
    *supervised.SCENARIOS,
    *followers.SCENARIOS,
    *wanted.SCENARIOS,
)
SENSORS = {"short": 6, "long": 50}


def play(
    scenarios: Sequence[Scenario],
    folder: Path,
    form: str,
    report: Callable[[Outcome], None] = lambda outcome: None,
) -> list[Outcome]:
    """Play scenarios, one after the other, in one Airflow.

    :param folder: for everything that is written; new.
    :param form: ``short`` (few tasks) or ``long``.
    :param report: is told each outcome as soon as it is there.
    """
    outcomes = []
    with database() as settings, World(folder, SENSORS[form], settings).up() as world:
        for number, scenario in enumerate(scenarios):
            outcome = judge(scenario, world, f"query-{number}")
            if outcome.skipped is not None and (reason := postgresql.missing()):
                outcome.skipped += f" ({reason})"
            report(outcome)
            outcomes.append(outcome)
    return outcomes


@contextmanager
def database() -> Iterator[dict[str, str] | None]:
    """A PostgreSQL server of our own; None is SQLite, where there is none."""
    if postgresql.missing():
        yield None
        return
    with postgresql.airflow_database() as settings:
        yield settings
