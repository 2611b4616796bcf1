"""Which of the tests that are marked as sampled are drawn."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sampling import left_out
from tests.shares import SHARES

ROADS = [(f"tests/faults/test_roads.py::test_road[{name}]", 1 / 3) for name in "abcdefghi"]


def test_a_share_of_each_file_is_drawn() -> None:
    out = left_out(ROADS, seed=1)
    assert len(out) == 6
    assert out <= {name for name, _ in ROADS}


def test_the_only_one_of_its_kind_is_drawn_as_often_as_its_share_says() -> None:
    alone = [("tests/other.py::test", 0.25)]
    drawn = sum(not left_out(alone, seed) for seed in range(1_000))
    assert 200 <= drawn <= 300


def test_the_same_code_draws_the_same_and_others_draw_others() -> None:
    assert left_out(ROADS, 1) == left_out(reversed(ROADS), 1)
    drawn = [{name for name, _ in ROADS} - left_out(ROADS, seed) for seed in range(60)]
    assert set.union(*drawn) == {name for name, _ in ROADS}, "each has its turn"


def test_all_of_a_share_of_one_are_drawn() -> None:
    assert left_out([(name, 1) for name, _ in ROADS], 1) == set()


def test_who_draws_others_is_left_alone() -> None:
    more = [("tests/faults/test_roads.py::test_level[L4]", 0.5)]
    of_both = left_out([*ROADS, *more], 3)
    assert left_out(ROADS, 3) == of_both & {name for name, _ in ROADS}


@pytest.mark.parametrize("path", SHARES)
def test_every_file_of_a_share_is_there(path: str) -> None:
    assert (Path(__file__).parents[2] / path).is_file()
    assert 0 < SHARES[path] < 1
