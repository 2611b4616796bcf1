"""The short form of ``make faults``, in less than three minutes: every level but the cluster of
executors, which is the same level on more processes, and roads whose ends are those of others."""

from __future__ import annotations

import json

import pytest

from tests.faults import l0_model, mutants
from tests.faults.levels import LEVELS, run_levels
from tests.faults.publish import page, record
from tests.faults.result import table, to_json


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.spark] if level.needs_spark else [])
        for name, level in LEVELS.items()
        if level.short is not None
    ],
)
def test_every_promise_is_kept(name: str) -> None:
    results = list(run_levels([name], seed=0, long=False))
    (result,) = results
    if result.skipped is not None:
        pytest.skip(result.skipped)
    print(table(results))
    assert result.kept, table(results)
    assert result.mutants or result.faults
    summary = json.loads(to_json(results))
    assert summary["lost"] == summary["repeated"] == summary["torn"] == 0
    assert summary["mutants_caught"] == summary["mutants"]
    shown = page({name: record(result)})
    assert ("the source is acknowledged before the sink" in shown) is bool(result.mutants)


def test_the_mutants_of_the_order_break_nothing_but_the_order() -> None:
    with mutants._commit_in_order(mutants.RIGHT_ORDER):
        assert mutants.first_broken(0, l0_model.FAULTS, worlds_max=150) is None
