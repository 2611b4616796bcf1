"""The condition of a join of two streams, in three parts, as Spark evaluates it.

A row that its own side's part is not true for can have no match: it never waits, and in an outer
join it is returned at once. Only what is left is computed on pairs of rows.

Source: Spark's JoinConditionSplitPredicates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engine.expressions.compile import compile_expression, to_array
from engine.expressions.registry import Context
from engine.expressions.row_context import Rows
from engine.expressions.tree import NONDETERMINISTIC, Expr

Mask = Callable[[Rows], npt.NDArray[np.bool_]]
"""Where a condition is true; where it is NULL, it is not."""


def split(condition: Expr | None, width: int) -> tuple[Expr | None, Expr | None, Expr | None]:
    """What looks at columns of the left only, of the right only, and the rest.

    :param condition: over the left's columns and the right's.
    :param width: how many columns the left has.
    """
    every = [] if condition is None else list(_conjuncts(condition))
    settled = list(takewhile(_is_deterministic, every))
    left = [each for each in settled if all(ordinal < width for ordinal in _ordinals(each))]
    right = [each for each in settled if all(ordinal >= width for ordinal in _ordinals(each))]
    rest = [each for each in every if each not in left and each not in right]
    return _all(left), _all(right), _all(rest)


def compile_mask(condition: Expr | None, context: Context) -> Mask | None:
    """None for none."""
    if condition is None:
        return None
    evaluate = compile_expression(condition, context)

    def mask(rows: Rows) -> npt.NDArray[np.bool_]:
        is_true = to_array(evaluate(rows), rows.num_rows, pa.bool_())
        found: npt.NDArray[np.bool_] = pc.fill_null(is_true, False).to_numpy(zero_copy_only=False)
        return found

    return mask


def _conjuncts(condition: Expr) -> Iterator[Expr]:
    if condition.op != "And":
        yield condition
        return
    for child in condition.children:
        yield from _conjuncts(child)


def _is_deterministic(condition: Expr) -> bool:
    return all(node.op not in NONDETERMINISTIC for node in condition.walk())


def _ordinals(condition: Expr) -> Iterator[int]:
    return (node.params["ordinal"] for node in condition.walk() if node.op == "Column")


def _all(conditions: Sequence[Expr]) -> Expr | None:
    if not conditions:
        return None
    found, *others = conditions
    for each in others:
        found = Expr("And", (found, each), pa.bool_(), found.nullable or each.nullable)
    return found
