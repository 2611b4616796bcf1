"""The short form of ``make airflow-faults``: promises that no other test has, each in an Airflow of
its own; killed workers and queries are in ``tests/airflow/live``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.airflow_faults.case import Scenario
from tests.airflow_faults.publish import page
from tests.airflow_faults.result import table, to_json
from tests.airflow_faults.scenarios import SCENARIOS, play

pytestmark = pytest.mark.airflow


@pytest.mark.sampled(0.3)
@pytest.mark.parametrize(
    "scenario", [pytest.param(each, id=each.name) for each in SCENARIOS if each.short]
)
def test_every_promise_is_kept(scenario: Scenario, tmp_path: Path) -> None:
    outcomes = play([scenario], tmp_path / "world", "short")

    print(table(outcomes))
    assert not [found for outcome in outcomes for found in outcome.broken], table(outcomes)
    summary = json.loads(to_json(outcomes))
    assert summary["scenarios"] == summary["passed"] == 1
    assert summary["duplicates"] == summary["orphans"] == summary["wrong_states"] == 0
    assert "1 of 1 scenarios kept" in page(outcomes)
