"""The short form of ``make airflow-faults``: one Airflow, and two promises that no other test has;
killed workers and queries are in ``tests/airflow/live``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.airflow_faults.publish import page
from tests.airflow_faults.result import table, to_json
from tests.airflow_faults.scenarios import SCENARIOS, play

pytestmark = pytest.mark.airflow


def test_every_promise_is_kept(tmp_path: Path) -> None:
    chosen = [scenario for scenario in SCENARIOS if scenario.short]

    outcomes = play(chosen, tmp_path / "world", "short")

    print(table(outcomes))
    assert not [found for outcome in outcomes for found in outcome.broken], table(outcomes)
    summary = json.loads(to_json(outcomes))
    assert summary["scenarios"] == summary["passed"] == len(chosen) >= 2
    assert summary["duplicates"] == summary["orphans"] == summary["wrong_states"] == 0
    assert f"{len(chosen)} of {len(chosen)} scenarios kept" in page(outcomes)
