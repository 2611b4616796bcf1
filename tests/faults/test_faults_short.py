"""The short form of ``make faults``: every level, in less than three minutes."""

from __future__ import annotations

import json

import pytest

from tests.faults.levels import LEVELS, run_levels
from tests.faults.result import table, to_json

FAULTS_MIN = 5  # on the slowest machine; the figures are in the table


@pytest.mark.parametrize("name", LEVELS)
def test_every_promise_is_kept(name: str) -> None:
    results = run_levels([name], seed=0, long=False)
    (result,) = results
    if result.skipped is not None:
        pytest.skip(result.skipped)
    print(table(results))
    assert result.kept, table(results)
    assert result.mutants or result.faults.total() >= FAULTS_MIN
    summary = json.loads(to_json(results))
    assert summary["lost"] == summary["repeated"] == summary["torn"] == 0
    assert summary["mutants_caught"] == summary["mutants"]
