"""One expression in our kernels: what it makes of each row, alone and among others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

import engine.errors
from engine.base.sift import sift
from engine.errors import TransformError
from engine.expressions.compile import compile_expression, to_array
from engine.expressions.registry import Context, Evaluator
from engine.expressions.row_context import Rows
from engine.expressions.tree import NONDETERMINISTIC, Expr
from engine.redaction.texts import encodable
from tests.spark.values import error_class, plain_values, same

_ALONE: Final = 8
"""So many rows of a batch that raises are evaluated alone at least, whether they raise or not."""
_FEW: Final = 4
"""If more than one in so many of them raises, all rows are."""


@dataclass
class OurResult:
    """What our kernels made of one expression: values of the good rows, errors of the others."""

    expr: Expr
    values: list[Any]
    errors: dict[int, str] = field(default_factory=dict)


def evaluate(tree: Expr, rows: Rows, context: Context, ulps: int) -> OurResult:
    """What has been accepted may raise a TransformError, never anything else: a complaint of
    another kind equals none of Spark's. Rows that are evaluated in parts, or alone, have the values
    that they have together.

    :param ulps: by how many units in the last place these may differ.
    """
    every = range(rows.num_rows)
    try:
        evaluator = compile_expression(tree, context)
    except Exception as error:
        return OurResult(tree, [None] * len(every), dict.fromkeys(every, _complaint(error)))
    try:
        return OurResult(tree, _values(evaluator, rows, tree.dtype))
    except Exception as error:
        if not rows.num_rows:  # there is no row to tell it of
            raise
        together = _complaint(error)

    alike = _rows_alike(tree, rows)
    found, raising = _sifted(evaluator, rows, tree.dtype, list(alike))
    result = OurResult(tree, [None] * len(every))
    told = {row: _complaint(error) for first, error in raising.items() for row in alike[first]}
    result.errors = dict(sorted(told.items()))
    if together not in result.errors.values():
        result.errors = dict.fromkeys(every, f"{together}, though no row alone does")
        return result
    good = [row for row in every if row not in result.errors]
    try:  # many rows at once go other ways than one
        values = _values(evaluator, rows.taken(pa.array(good, pa.int32())), tree.dtype)
    except Exception as error:
        result.errors.update(dict.fromkeys(good, f"{_complaint(error)}, though no row alone does"))
        return result
    for row, value in zip(good, values, strict=True):
        result.values[row] = value
    for row, value in reversed(found):  # what it is alone is told rather
        if not same(value, result.values[row], ulps):
            among = f"{result.values[row]!r} among other rows"
            result.errors[row] = f"nothing, but is {value!r} among fewer rows and {among}"
    return result


def _rows_alike(tree: Expr, rows: Rows) -> dict[int, list[int]]:
    """For the first of rows that are the same to the tree all of them."""
    nodes = list(tree.walk())
    if any(node.op in NONDETERMINISTIC for node in nodes):
        return {row: [row] for row in range(rows.num_rows)}
    used = sorted({node.params["ordinal"] for node in nodes if node.op == "Column"})
    columns = [map(repr, plain_values(rows.column(ordinal))) for ordinal in used]
    keys = list(zip(*columns, strict=True)) if columns else [()] * rows.num_rows
    alike: dict[tuple[str, ...], list[int]] = {}
    for row, key in enumerate(keys):
        alike.setdefault(key, []).append(row)
    return {same_rows[0]: same_rows for same_rows in alike.values()}


def _sifted(
    evaluator: Evaluator, rows: Rows, dtype: pa.DataType, numbers: Sequence[int]
) -> tuple[list[tuple[int, Any]], dict[int, Exception]]:
    """Of rows of which one at least raises: values of parts without any that does, as row and
    value; what is raised for the others, alone. Some rows of the good ones are alone as well.

    :param numbers: of these rows.
    """
    good: list[tuple[int, Any]] = []
    raising: dict[int, Exception] = {}

    def alone(row: int) -> None:
        try:
            good.append((row, *_values(evaluator, rows.slice(row, 1), dtype)))
        except Exception as error:
            raising[row] = error

    step = -(-len(numbers) // _ALONE)
    for row in numbers[::step]:
        alone(row)
    if len(raising) * _FEW > _ALONE:  # to halve them again and again would be more work
        for place, row in enumerate(numbers):
            if place % step:
                alone(row)
        return good, raising

    def part(start: int, stop: int) -> list[tuple[int, Any]]:
        some = numbers[start:stop]
        if len(some) == 1:
            return [(some[0], *_values(evaluator, rows.slice(some[0], 1), dtype))]
        values = _values(evaluator, rows.taken(pa.array(some, pa.int32())), dtype)
        return list(zip(some, values, strict=True))

    parts, bad = sift(len(numbers), part, (Exception,))
    raising |= {numbers[place]: error for place, error in bad}
    return good + [pair for pairs in parts for pair in pairs], raising


@contextmanager
def plain_errors() -> Iterator[None]:
    """Within it, errors are not looked through for secrets: they are made by the thousand."""
    errors: Any = engine.errors
    before, errors.redact = errors.redact, encodable
    try:
        yield
    finally:
        errors.redact = before


def _complaint(error: Exception) -> str:
    if isinstance(error, TransformError):
        return error_class(error.message)
    return f"{type(error).__name__}: {error}"


def _values(evaluator: Evaluator, rows: Rows, dtype: pa.DataType) -> list[Any]:
    return plain_values(to_array(evaluator(rows), rows.num_rows, dtype))
