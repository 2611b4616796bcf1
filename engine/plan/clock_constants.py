"""What Spark's optimizer takes away because of a constant that the clock decides.

To a micro-batch ``current_date() < DATE'2020-01-01'`` is a literal, and so is what stands beside it
decided: ``1 / x > 2 AND false`` is false, ``1 / x + NULL`` is NULL, ``array(a, b)[7]`` is NULL (in
ANSI mode before Spark 4.3), and nobody computes the rest, which might raise. Here the clock goes
on. Such constants are no literals, and are evaluated first, so that the rest is computed only where
it counts.

Source: ``BooleanSimplification``, ``NullPropagation``, ``SimplifyExtractValueOps`` of Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import Any, Final

import pyarrow as pa
from py4j.java_gateway import JavaObject

from engine.expressions.releases import is_since
from engine.expressions.tree import NONDETERMINISTIC, Expr
from engine.plan.catalyst import is_excluded

_CLOCKS: Final = frozenset({"CurrentTimestamp", "Now", "LocalTimestamp", "CurrentDate"})
_ITEMS: Final = frozenset({"GetArrayItem", "Get"})


def decided_by_clock(
    gateway: Any,
    expr: Expr,
    node: JavaObject,
    can_fail: Callable[[Expr], bool],
    propagates_null: bool = False,
) -> Expr:
    """The same, with what the clock decides before the rest.

    :param node: what it was made of, or what Spark puts in the place of that.
    :param can_fail: whether an expression may raise.
    :param propagates_null: whether a NULL in any child makes it NULL though the node tells nothing.
    """
    if expr.op in ("And", "Or"):
        made, rule = _connective(expr), "BooleanSimplification"
    elif expr.op in _ITEMS and (item := _item(expr, can_fail)) is not expr:
        made, rule = item, "SimplifyExtractValueOps"
    else:
        made, rule = _null(expr, can_fail), "NullPropagation"
        # Of IN with one value Spark makes an equality.
        propagates_null |= expr.op == "In" and len(expr.children) == 2
        if made is not expr and not (propagates_null or node.nullIntolerant()):
            return expr
    if made is expr or is_excluded(gateway, rule, "ConstantFolding"):
        return expr
    return made


def _is_constant(expr: Expr) -> bool:
    """Whether all rows of a batch have the same value."""
    if expr.op in NONDETERMINISTIC or expr.op == "RaiseError":
        return False
    if not expr.children:
        return expr.op == "Literal" or expr.op in _CLOCKS
    return all(map(_is_constant, expr.children))


def _connective(expr: Expr) -> Expr:
    """Its constants, then the rest; so it is with either side."""
    constants: list[Expr] = []
    rest: list[Expr] = []
    for child in expr.children:
        if _is_constant(child):
            constants.append(child)
        elif child.op == expr.op and _is_constant(child.children[0]):
            constants.append(child.children[0])
            rest.append(child.children[1])
        else:
            rest.append(child)
    if not constants or not rest:
        return expr
    joined = (reduce(lambda a, b: replace(expr, children=(a, b)), p) for p in (constants, rest))
    return replace(expr, children=tuple(joined))


def _item(expr: Expr, can_fail: Callable[[Expr], bool]) -> Expr:
    """The item alone of an array that is written out; if it has none there NULL, or the error of
    the whole, since 4.3."""
    array, index = expr.children
    if array.op != "CreateArray" or index.dtype != pa.int32() or not _is_constant(index):
        return expr
    branches: list[Expr] = []
    for position, item in enumerate(array.children):
        place = Expr("Literal", (), index.dtype, False, {"value": position})
        branches += [Expr("EqualTo", (index, place), pa.bool_(), index.nullable), item]
    raises = expr.params.get("fail_on_error") and is_since(expr, "4.3.0")
    otherwise = _null(replace(expr, nullable=True), can_fail) if raises else _nothing(expr)
    return Expr("CaseWhen", (*branches, otherwise), expr.dtype, True)


def _null(expr: Expr, can_fail: Callable[[Expr], bool]) -> Expr:
    """What makes all of it NULL, then the rest."""
    conditions = [where for child in expr.children if (where := _null_where(child)) is not None]
    if not conditions:
        return expr
    rest = [child for child in expr.children if _null_where(child) is None]
    if not any(map(can_fail, rest)):
        return expr
    where = reduce(lambda a, b: Expr("Or", (a, b), pa.bool_()), conditions)
    return Expr("If", (where, _nothing(expr), expr), expr.dtype, True)


def _null_where(expr: Expr) -> Expr | None:
    """The constant condition under which it is NULL without a look at anything else."""
    if expr.op == "Literal" or not expr.children:
        return None
    if _is_constant(expr):
        return Expr("IsNull", (expr,), pa.bool_(), False) if expr.nullable else None
    if expr.op != "If" or not _is_constant(expr.children[0]):
        return None
    value = expr.children[1]
    is_null = value.op == "Literal" and value.params["value"] is None
    return expr.children[0] if is_null else None


def _nothing(expr: Expr) -> Expr:
    return Expr("Literal", (), expr.dtype, True, {"value": None})
