"""Trees are evaluated hopefully, on all rows; what raises then is evaluated again as Spark does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from engine.errors import TransformError
from engine.expressions import registry
from engine.expressions.compile import compile_expression
from engine.expressions.registry import Context, Evaluator, Kernel, always, never
from engine.expressions.tree import Expr

INT, BOOL = pa.int64(), pa.bool_()
A = Expr("Column", (), INT, True, {"ordinal": 0, "name": "a"})
ZERO, HUGE = (Expr("Literal", (), INT, False, {"value": value}) for value in (0, 2**40))


class Probe:
    """A kernel that notes the rows of each batch it sees.

    :param raises: what it raises where a value is negative; or NULL, if it ``minds_null``.
    """

    def __init__(self, raises: type[Exception] | None, *, minds_null: bool = False) -> None:
        self.raises, self.minds_null, self.seen = raises, minds_null, list[list[Any]]()

    def __call__(self, expr: Expr, children: Sequence[Evaluator], context: Context) -> Evaluator:
        def evaluate(batch: pa.RecordBatch) -> pa.Array:
            values = children[0](batch)
            self.seen.append(values.to_pylist())
            bad = pc.fill_null(pc.less(values, 0), self.minds_null)
            if self.raises and pc.any(bad).as_py():
                raise self.raises("negative")
            return values

        return evaluate


def tree(monkeypatch: pytest.MonkeyPatch, probe: Probe, *, unbounded: bool = False) -> Evaluator:
    """``IF(a >= 0, probe(a), 0)``."""
    kernel = Kernel(
        "Probe", __name__, probe, always if probe.raises else never, lambda expr: None,
        unbounded=unbounded,
    )  # fmt: skip
    monkeypatch.setitem(registry.KERNELS, "Probe", kernel)
    positive = Expr("GreaterThanOrEqual", (A, ZERO), BOOL)
    return compile_expression(Expr("If", (positive, Expr("Probe", (A,), INT), ZERO), INT))


def rows(*values: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"a": pa.array(values, INT)})


def test_a_branch_is_evaluated_on_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    probe = Probe(None)
    assert tree(monkeypatch, probe)(rows(1, -1)).to_pylist() == [1, 0]
    assert probe.seen == [[1, -1]]


@pytest.mark.parametrize("error", [TransformError, ValueError])
def test_what_raises_for_a_row_that_does_not_count_is_evaluated_carefully(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    probe = Probe(error)
    assert tree(monkeypatch, probe)(rows(1, -1)).to_pylist() == [1, 0]
    assert probe.seen == [[1, -1], [1, None]]


def test_what_raises_for_null_is_evaluated_on_chosen_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    probe = Probe(TransformError, minds_null=True)
    evaluate = tree(monkeypatch, probe)
    assert evaluate(rows(1, -1)).to_pylist() == [1, 0]
    assert probe.seen == [[1, -1], [1, None], [1]]
    del probe.seen[:]
    assert evaluate(rows(2, -1)).to_pylist() == [2, 0]
    assert probe.seen == [[2]]  # in doubt about both


def test_hope_is_given_up_for_longer_and_longer_and_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    probe = Probe(TransformError)
    evaluate = tree(monkeypatch, probe)

    def is_hopeful(*values: int) -> bool:
        before = len(probe.seen)
        evaluate(rows(*values))
        return list(values) in probe.seen[before:]

    assert [is_hopeful(1, -1) for _ in range(7)] == [True, False, True, False, False, False, True]
    for _ in range(7):
        assert not is_hopeful(1, -1)
    assert is_hopeful(1, 2)  # and nothing raises
    assert [is_hopeful(1, -1) for _ in range(3)] == [True, False, True]


def test_a_row_that_counts_raises_at_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    raising = Expr("Probe", (A,), INT)
    tree(monkeypatch, probe := Probe(TransformError))
    evaluate = compile_expression(Expr("If", (Expr("IsNull", (A,), BOOL), ZERO, raising), INT))
    for _ in range(3):
        with pytest.raises(TransformError, match="negative"):
            evaluate(rows(1, -1))
    assert evaluate(rows(2)).to_pylist() == [2]
    assert len(probe.seen) == 3 * 3 + 1, "in all three ways, and hopefully again"


def test_what_may_be_of_any_size_is_made_for_the_rows_that_ask_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    probe = Probe(None)
    assert tree(monkeypatch, probe, unbounded=True)(rows(1, -1)).to_pylist() == [1, 0]
    assert probe.seen == [[1]]


def test_a_long_text_that_nobody_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    few = Expr("LessThan", (A, HUGE), BOOL)
    spaces = Expr("StringSpace", (A,), pa.string())
    empty = Expr("Literal", (), pa.string(), False, {"value": "-"})
    evaluate = compile_expression(Expr("If", (few, spaces, empty), pa.string()))
    assert evaluate(rows(2, 2**41)).to_pylist() == ["  ", "-"]


def test_a_list_may_be_longer_than_calls_may_be_deep() -> None:
    listed = [Expr("Literal", (), INT, False, {"value": value}) for value in range(5000)]
    tree = Expr("In", (A, *listed, Expr("Add", (A, ZERO), INT, True, {"eval_mode": "ANSI"})), BOOL)
    evaluate = compile_expression(tree)
    rows = pa.record_batch({"a": pa.array([7, None, 2**40], INT)})
    assert evaluate(rows).to_pylist() == [True, None, True]
