"""What counts as caught."""

from __future__ import annotations

import pytest

from tests.faults.publish import page, record
from tests.faults.result import LevelResult, fits_no_more, summary, table


def test_a_mutant_that_one_level_has_caught_is_not_caught_in_another() -> None:
    results = [
        LevelResult("L5 one", mutants={"too early": None}),
        LevelResult("L5 other", mutants={"too early": "lost: 3"}),
    ]
    found = summary(results)
    assert (found["mutants"], found["mutants_caught"]) == (2, 1)
    assert "L5 one: too early" in table(results)
    assert "1 of 2 mutants caught" in page({each.level: record(each) for each in results})


@pytest.mark.parametrize(
    ("found", "proves_nothing"),
    [
        ("TypeError: take() takes 3 arguments", True),
        ("lost: 3", False),
        (None, False),
    ],
)
def test_a_mutant_that_breaks_by_itself_proves_nothing(
    found: str | None, proves_nothing: bool
) -> None:
    assert fits_no_more(found) is proves_nothing
