"""``CAST``, ``TRY_CAST`` and ``::``.

The conversions are in the files ``cast_*.py``.

Source: Catalyst's ``Cast``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

# Imported for the conversions that they register.
from engine.expressions.argument_types import Rare
from engine.expressions.casts.held_decimals import held_as_long, may_lack_power
from engine.expressions.casts.rules import (
    Casting,
    any_part,
    castable,
    converter,
    kind,
    parts,
    reads_any_zero,
)
from engine.expressions.casts.special_times import special_moment
from engine.expressions.datum import constant
from engine.expressions.malformed import value_of
from engine.expressions.registry import Context, Datum, Formula, ValueFunction, strict
from engine.expressions.releases import SPARK_VERSION
from engine.expressions.times.zones import is_zone
from engine.expressions.tree import Expr
from engine.expressions.types import has_variant, is_integral, sql_name
from engine.expressions.vectors import from_numpy

_MOMENTS = ("date", "timestamp", "timestamp_ntz")
_NEVER_FAIL = {("integral", "floating"), ("integral", "boolean"), ("integral", "timestamp")}


def _casting(expr: Expr, context: Context) -> Casting:
    (child,) = expr.children
    zone_name = expr.params.get("time_zone_id") or context.session_timezone
    held = held_as_long(child) if pa.types.is_decimal(child.dtype) else None
    mode, any_zero = expr.params["eval_mode"], reads_any_zero(expr)
    return Casting(child.dtype, expr.dtype, mode, zone_name, held, any_zero)


def _supports(expr: Expr) -> str | None:
    casting = _casting(expr, Context())
    source, target = casting.source, casting.target
    if not castable(source, target):
        return f"casting {sql_name(source)} to {sql_name(target)} is not supported"
    if pa.types.is_decimal(source) and is_integral(target) and may_lack_power(expr.children[0]):
        return (
            f"Spark fails for a {sql_name(source)} that was one of fewer decimal places: round it "
            "to 18 places at most before it is cast"
        )
    if _may_lose_keys(source, target, casting.mode):
        return (
            "a key of a map that does not fit would be NULL, which none can be: say by "
            "transform_keys what becomes of it"
        )
    if not is_zone(casting.zone_name):
        return f"the time zone {casting.zone_name} is not known"
    return None


def _can_fail(expr: Expr) -> bool:
    (child,) = expr.children
    if has_variant(child.dtype) or has_variant(expr.dtype):
        return True
    if any_part(child.dtype, expr.dtype, _may_overflow):
        return True
    return expr.params["eval_mode"] == "ANSI" and any_part(child.dtype, expr.dtype, _may_not_fit)


def _may_overflow(source: pa.DataType, target: pa.DataType) -> bool:
    """In every mode."""
    return kind(source) in _MOMENTS and kind(target) in _MOMENTS[1:] and source != target


def _may_not_fit(source: pa.DataType, target: pa.DataType) -> bool:
    pair = (kind(source), kind(target))
    widens = is_integral(source) and is_integral(target) and source.bit_width <= target.bit_width
    harmless = widens or pair in _NEVER_FAIL or pa.types.is_null(source)
    to_text = pair[1] in ("string", "binary")
    return not harmless and not to_text


def _may_lose_keys(source: pa.DataType, target: pa.DataType, mode: str) -> bool:
    """Whether a key of a map may become NULL: one that does not fit if Spark is to try only, and
    in every mode what is no number, as a decimal."""
    if pa.types.is_map(source) and pa.types.is_map(target):
        keys = source.key_type, target.key_type
        of_floats = (kind(keys[0]), kind(keys[1])) == ("floating", "decimal")
        if of_floats or (mode == "TRY" and not parts(*keys) and _may_not_fit(*keys)):
            return True
    return any(_may_lose_keys(*part, mode) for part in parts(source, target))


def _special_moment(expr: Expr, casting: Casting) -> Callable[[], int] | None:
    text = constant(expr.children[0]) if casting.source == pa.string() else None
    if text is None or not text.is_valid or kind(casting.target) not in _MOMENTS:
        return None
    return special_moment(value_of(text), casting)


def _formula(expr: Expr) -> Formula | None:
    source, target = expr.children[0].dtype, expr.dtype
    if not is_integral(source):
        return None
    if is_integral(target):
        return Formula("{0}", may_be_beyond=target.bit_width < source.bit_width)
    if pa.types.is_string(target):
        return Formula("{text}({0})", names={"text": str})
    return Formula("{number}({0})", names={"number": float}) if target == pa.float64() else None


@strict(
    "Cast",
    supports=_supports,
    can_fail=_can_fail,
    loop=True,
    reads=("time_zone_id", "eval_mode", SPARK_VERSION),
    presumes=(
        "spark.sql.legacy.castComplexTypesToString.enabled",
        "spark.sql.legacy.fromDayTimeString.enabled",
        "spark.sql.legacy.timeParserPolicy",
    ),
    takes=Rare.ALL_AND_VARIANT,
    formula=_formula,
)
def cast(expr: Expr, context: Context) -> ValueFunction:
    """Null stays null."""
    casting = _casting(expr, context)
    if pa.types.is_null(casting.source):
        return lambda value: pa.scalar(None, casting.target)
    if (moment := _special_moment(expr, casting)) is not None:
        return lambda value: from_numpy(np.array([moment()]), np.True_, casting.target)[0]
    convert = converter(casting)

    def either(value: Datum) -> Datum:
        if isinstance(value, pa.Scalar):
            return convert(pa.repeat(value, 1))[0]
        return convert(value)

    return either
