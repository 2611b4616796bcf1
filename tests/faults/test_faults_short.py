"""The short form of ``make faults``, in less than three minutes: every level but the cluster of
executors, which is the same level on more processes, and roads whose ends are those of others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import pytest

from tests.faults import l0_model, mutants
from tests.faults.levels import LEVELS, process_of_roads, run_levels, run_short
from tests.faults.publish import page, record
from tests.faults.result import LevelResult, table, to_json

_SHORT = [name for name, level in LEVELS.items() if level.short is not None]
_ROADS = [name for name in _SHORT if name.startswith("L5")]
_ALWAYS = "L5 kafka_to_kafka"


@pytest.fixture(scope="module")
def process() -> Iterator[ProcessPoolExecutor]:
    with process_of_roads() as process:
        yield process


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name == _ALWAYS else [pytest.mark.sampled(1 / 6)])
        for name in _ROADS
    ],
)
def test_every_promise_of_a_road_is_kept(name: str, process: ProcessPoolExecutor) -> None:
    _check(run_short(name, process))


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.spark] if LEVELS[name].needs_spark else [])
        for name in _SHORT
        if name not in _ROADS
    ],
)
def test_every_promise_is_kept(name: str) -> None:
    (result,) = run_levels([name], seed=0, long=False)
    _check(result)


def _check(result: LevelResult) -> None:
    results = [result]
    if result.skipped is not None:
        pytest.skip(result.skipped)
    print(table(results))
    assert result.kept, table(results)
    assert result.mutants or result.faults
    summary = json.loads(to_json(results))
    assert summary["lost"] == summary["repeated"] == summary["torn"] == 0
    assert summary["mutants_caught"] == summary["mutants"]
    shown = page({result.level: record(result)})
    assert ("the source is acknowledged before the sink" in shown) is bool(result.mutants)


def test_the_mutants_of_the_order_break_nothing_but_the_order() -> None:
    with mutants._commit_in_order(mutants.RIGHT_ORDER):
        assert mutants.first_broken(0, l0_model.FAULTS, worlds_max=150) is None
