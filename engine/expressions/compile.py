"""From an expression tree to a function on record batches.

Constant subtrees are computed once, here. One that raises (``1/0`` in ANSI mode) stays in the
tree, because Spark raises it only for a row that reaches it; so does one that depends on what day
it is (``CAST('10:00' AS TIMESTAMP)``), which Spark computes for each batch.

Spark evaluates an argument only on the rows that need it: a branch of ``CASE`` on those that take
it, what stands behind a NULL not at all. Here a tree is evaluated *hopefully* at first, everything
on all rows, which is much faster. If that raises, it is evaluated *carefully*, as Spark does it,
and that counts: still on all rows at once, with NULL in all columns where a row does not count
(:class:`~engine.expressions.row_context.Veiled`); if that raises as well, on chosen rows only.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

import engine.expressions
from engine.errors import TransformError
from engine.expressions.datum import (
    is_harmless,
    may_raise,
    minds_rows,
    only_where,
    to_array,
    to_scalar,
)
from engine.expressions.refused import REFUSED
from engine.expressions.registry import KERNELS, STRICT, Context, Datum, Evaluator
from engine.expressions.row_context import Rows, Veiled
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

_DOUBT_MAX: Final = 64
"""Batches."""
_DIVISOR_FIRST = {"Divide", "IntegralDivide", "Remainder", "Pmod"}
_THIRD_FIRST = {"StringLocate", "ArrayJoin"}
_ALWAYS_CONSTANT = {"TypeOf"}
"""Whatever their arguments."""
_CONSTANT_WITHOUT_ARGUMENTS = {"Concat"}
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
        reason = kernel.refusal(expr)
        own = [] if reason is None else [f"{expr.op}: {reason}"]
    return own + [reason for child in expr.children for reason in _reasons(child, context)]


def compile_expression(expr: Expr, context: Context | None = None) -> Evaluator:
    """The evaluator of a supported tree: a function from a batch to an Array or a Scalar.

    :raises KeyError: a node has no kernel; ask :func:`unsupported` first.
    """
    context = context or Context()
    return _evaluator(fold(expr, context), context)


def _evaluator(expr: Expr, context: Context) -> Evaluator:
    careful, hopeful = replace(context, hopeful=False), replace(context, hopeful=True)
    if any(minds_rows(node) for node in expr.walk()):
        return _build(expr, careful)
    evaluate = _build(expr, hopeful)
    if not may_raise(expr):
        return evaluate
    return _or_carefully(evaluate, lambda: _veiled_at_first(_build(expr, careful)))


def _veiled_at_first(careful: Evaluator) -> Evaluator:
    def veiled(batch: pa.RecordBatch) -> Datum:
        return careful(Veiled(batch.num_rows, batch.column))

    return _or_carefully(veiled, lambda: careful)


def _or_carefully(hopeful: Evaluator, make_careful: Callable[[], Evaluator]) -> Evaluator:
    """Evaluate again what has failed: perhaps it has no error but for rows that do not count.

    Where this is so again and again, hope is given up for longer and longer.
    """
    careful: Evaluator | None = None
    doubt = left = 0

    def evaluate(batch: pa.RecordBatch) -> Datum:
        nonlocal careful, doubt, left
        if left and careful is not None:
            left -= 1
            return careful(batch)
        try:
            result = hopeful(batch)
        except Exception:  # of whatever kind: a row that does not count may be anything
            careful = careful or make_careful()
            result = careful(batch)
            left = doubt = min(2 * doubt + 1, _DOUBT_MAX)
        else:
            doubt = 0
        return result

    return evaluate


def _build(expr: Expr, context: Context) -> Evaluator:
    # What takes errors back must not take those of rows that do not count.
    inner = _evaluator if expr.op == "TryEval" else _build
    children = [inner(child, context) for child in expr.children]
    factory = KERNELS[expr.op].factory
    order = evaluation_order(expr)
    matters = expr.params.get("null_safe") or order != sorted(order)
    matters = matters and not all(is_harmless(expr.children[index]) for index in order[1:])
    if matters and expr.op in STRICT and not context.hopeful:
        node = factory(expr, [_column(index) for index in range(len(children))], context)
        return _in_order(expr, children, node)
    return factory(expr, children, context)


def _build_alone(expr: Expr, context: Context) -> Evaluator:
    """Of a node that does not evaluate its children."""
    return KERNELS[expr.op].factory(expr, (), context)


def evaluation_order(expr: Expr) -> list[int]:
    """The order in which Spark evaluates the arguments."""
    order = list(range(len(expr.children)))
    if expr.op in _THIRD_FIRST:
        return [*order[2:], *order[:2]]
    if expr.op == "CreateMap":  # all keys, then all values
        return [*order[::2], *order[1::2]]
    return order[::-1] if expr.op in _DIVISOR_FIRST else order


def _column(index: int) -> Evaluator:
    return lambda batch: batch.column(index)


def _in_order(expr: Expr, children: Sequence[Evaluator], node: Evaluator) -> Evaluator:
    """The arguments are evaluated one by one: where NULL in one of them gives NULL, the next only
    where those before it are not NULL, and a dividend not where the divisor is 0 and no error.

    :param node: the node's evaluator on a batch of its arguments.
    """
    order, skips = evaluation_order(expr), bool(expr.params.get("null_safe"))
    zero_is_null = expr.op in _DIVISOR_FIRST and expr.params["eval_mode"] != "ANSI"
    guarded = [only_where(*each) for each in zip(expr.children, children, strict=True)]

    def evaluate(batch: pa.RecordBatch) -> Datum:
        values: dict[int, pa.Array] = {}
        given: pa.Array | None = None
        for index in order:
            value = to_array(
                guarded[index](batch, given), batch.num_rows, expr.children[index].dtype
            )
            values[index] = value
            if not skips:
                continue
            counts = value.is_valid()
            if zero_is_null and given is None:
                counts = pc.fill_null(pc.not_equal(value, pa.scalar(0, value.type)), False)
            given = counts if given is None else pc.and_(given, counts)
        return node(Rows(batch.num_rows, values.__getitem__))

    return evaluate


def fold(expr: Expr, context: Context) -> Expr:
    """The same tree with its constant parts computed."""
    expr = _fold_children(expr, context)
    has_values = bool(expr.children) or expr.op in _CONSTANT_WITHOUT_ARGUMENTS
    is_constant = has_values and all(child.op == "Literal" for child in expr.children)
    if expr.op in NONDETERMINISTIC or not (is_constant or expr.op in _ALWAYS_CONSTANT):
        return expr
    kernel = KERNELS.get(expr.op)
    if kernel is None or kernel.refusal(expr) is not None:
        return expr
    try:
        with constant_only():
            build = _build if is_constant else _build_alone
            value = to_scalar(build(expr, context)(_ONE_ROW))
    except (TransformError, NotConstantError):
        return expr
    return Expr("Literal", (), expr.dtype, not value.is_valid, {"value": value})


def _fold_children(expr: Expr, context: Context) -> Expr:
    return replace(expr, children=tuple(fold(child, context) for child in expr.children))
