"""From an expression tree to a function on record batches.

Constant subtrees are computed once, here. One that raises (``1/0`` in ANSI mode) stays in the
tree, because Spark raises it only for a row that reaches it; so does one that depends on what day
it is (``CAST('10:00' AS TIMESTAMP)``), which Spark computes for each batch.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

import engine.expressions
from engine.errors import TransformError
from engine.expressions.datum import evaluate_where, may_raise, to_array, to_scalar
from engine.expressions.refused import REFUSED
from engine.expressions.registry import KERNELS, Context, Datum, Evaluator
from engine.expressions.row_context import Rows
from engine.expressions.times.current_time import NotConstantError, constant_only
from engine.expressions.tree import NONDETERMINISTIC, Expr

__all__ = ["compile_expression", "evaluation_order", "fold", "may_raise", "to_array", "unsupported"]

# A module that registers kernels fills the table when it is imported. Beside the families, whose
# folders are found by themselves, these three of the heart do.
for _name in ("leaves", "lambdas", "raising"):
    importlib.import_module(f"engine.expressions.{_name}")
for _family in pkgutil.iter_modules(engine.expressions.__path__):
    if _family.ispkg:
        _folder = importlib.import_module(f"engine.expressions.{_family.name}")
        for _module in pkgutil.iter_modules(_folder.__path__):
            importlib.import_module(f"{_folder.__name__}.{_module.name}")

_DIVISOR_FIRST = {"Divide", "IntegralDivide", "Remainder", "Pmod"}
_ONE_ROW = pa.RecordBatch.from_struct_array(pa.array([{}], pa.struct([])))


def unsupported(expr: Expr, context: Context | None = None) -> list[str]:
    """Why this tree cannot be evaluated: every reason, each naming its node. Empty if it can."""
    context = context or Context()
    return _reasons(_fold_children(expr, context), context)


def _reasons(expr: Expr, context: Context) -> list[str]:
    kernel = KERNELS.get(expr.op)
    if kernel is None:
        own = [f"{expr.op} {REFUSED.get(expr.op, 'has no continuous counterpart yet')}"]
    else:
        reason = kernel.supports(expr)
        own = [] if reason is None else [f"{expr.op}: {reason}"]
    return own + [reason for child in expr.children for reason in _reasons(child, context)]


def compile_expression(expr: Expr, context: Context | None = None) -> Evaluator:
    """The evaluator of a supported tree: a function from a batch to an Array or a Scalar.

    :raises KeyError: a node has no kernel; ask :func:`unsupported` first.
    """
    context = context or Context()
    return _build(fold(expr, context), context)


def _build(expr: Expr, context: Context) -> Evaluator:
    return _evaluators(expr, context)[0]


def _evaluators(expr: Expr, context: Context) -> tuple[Evaluator, Evaluator]:
    """The evaluator of a node, and one that is careful at once, here and below: it serves to
    evaluate again what has failed. They are the same where there is nothing to be careful about.
    """
    children = [_evaluators(child, context) for child in expr.children]
    hopeful, careful = ([pair[side] for pair in children] for side in (0, 1))
    factory = KERNELS[expr.op].factory
    evaluate, order = factory(expr, hopeful, context), evaluation_order(expr)
    if expr.params.get("null_safe") and any(may_raise(expr.children[i]) for i in order[1:]):
        inner = factory(expr, [_column(index) for index in range(len(children))], context)
        skipping = _skipping_nulls(expr, careful, order, inner)
        return _or_else(evaluate, skipping), skipping
    same = all(first is second for first, second in children)
    return evaluate, evaluate if same else factory(expr, careful, context)


def evaluation_order(expr: Expr) -> list[int]:
    """The order in which Spark evaluates the arguments."""
    order = list(range(len(expr.children)))
    return order[::-1] if expr.op in _DIVISOR_FIRST else order


def _column(index: int) -> Evaluator:
    return lambda batch: batch.column(index)


def _or_else(evaluate: Evaluator, again: Evaluator) -> Evaluator:
    def either(batch: pa.RecordBatch) -> Datum:
        try:
            return evaluate(batch)
        except TransformError:
            return again(batch)

    return either


def _skipping_nulls(
    expr: Expr, children: Sequence[Evaluator], order: Sequence[int], inner: Evaluator
) -> Evaluator:
    """Each argument is evaluated only where those before it are not NULL.

    :param inner: the node's evaluator on a batch of its arguments.
    """

    def evaluate(batch: pa.RecordBatch) -> Datum:
        values: dict[int, pa.Array] = {}
        given = pa.repeat(True, batch.num_rows)
        for index in order:
            dtype = expr.children[index].dtype
            values[index] = evaluate_where(children[index], batch, given, dtype)
            given = pc.and_(given, pc.is_valid(values[index]))
        return inner(Rows(batch.num_rows, values.__getitem__))

    return evaluate


def fold(expr: Expr, context: Context) -> Expr:
    """The same tree with its constant parts computed."""
    expr = _fold_children(expr, context)
    if (
        not expr.children
        or expr.op in NONDETERMINISTIC
        or any(child.op != "Literal" for child in expr.children)
    ):
        return expr
    kernel = KERNELS.get(expr.op)
    if kernel is None or kernel.supports(expr) is not None:
        return expr
    try:
        with constant_only():
            value = to_scalar(_build(expr, context)(_ONE_ROW))
    except (TransformError, NotConstantError):
        return expr
    return Expr("Literal", (), expr.dtype, not value.is_valid, {"value": value})


def _fold_children(expr: Expr, context: Context) -> Expr:
    return replace(expr, children=tuple(fold(child, context) for child in expr.children))
