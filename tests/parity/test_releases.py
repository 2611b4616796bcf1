"""Runs of random trees add up, those of the newest state and those of all before."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.parity import releases
from tests.parity.releases import Counts, Run, State, load, now_and_before, record

OLD, NEW = State("4.2.0", "17", 1), State("4.2.0", "17", 2)


@pytest.fixture(autouse=True)
def _file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "PATH", tmp_path / "releases.json")
    releases.PATH.write_text("{}")


def _run(seed: int, state: State = NEW, trees: int = 100, differing: int = 0) -> Run:
    return Run(state, seed, Counts(trees, 10 * trees, differing))


def test_other_seeds_are_added() -> None:
    for seed in (2, 1, 2):
        record(_run(seed))
    assert now_and_before(load()["4.2"]) == (NEW, Counts(200, 2_000), Counts())


def test_a_run_that_goes_on_counts_once() -> None:
    for trees in (100, 200, 300):
        record(_run(1, trees=trees))
    assert load() == {"4.2": [_run(1, trees=300)]}


@pytest.mark.parametrize("state", [NEW, State("4.2.1", "17", 1), State("4.2.0", "21", 1)])
def test_of_earlier_states_the_sum_is_kept(state: State) -> None:
    record(_run(1, OLD, differing=2))
    record(_run(2, OLD, differing=1))
    record(_run(1, state, 500))
    _, now, before = now_and_before(load()["4.2"])
    assert (now, before) == (Counts(500, 5_000), Counts(200, 2_000, 3))


def test_an_earlier_state_that_is_still_played_stays_one() -> None:
    for state, trees in ((OLD, 100), (NEW, 100), (OLD, 200)):
        record(_run(1, state, trees))
    assert now_and_before(load()["4.2"]) == (NEW, Counts(100, 1_000), Counts(200, 2_000))


def test_releases_are_kept_apart() -> None:
    record(_run(1))
    record(_run(1, State("4.3.0", "17", 2)))
    assert sorted(load()) == ["4.2", "4.3"]


def test_several_record_at_once() -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda seed: record(_run(seed)), range(64)))
    assert sorted(run.seed for run in load()["4.2"]) == list(range(64))


def test_the_state_is_that_of_the_code() -> None:
    assert State("4.2.0", "17").code == releases.code()
