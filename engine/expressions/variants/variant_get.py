"""``variant_get``, ``try_variant_get`` and ``v:a.b``: what is at a path in a VARIANT.

Source: ``VariantGet`` of Spark.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from engine.expressions.argument_types import Rare
from engine.expressions.casts.rules import reads_any_zero
from engine.expressions.datum import constant_value
from engine.expressions.lists import on_arrays
from engine.expressions.registry import Context, ValueFunction, always, strict
from engine.expressions.releases import SPARK_VERSION
from engine.expressions.times.zones import zone
from engine.expressions.tree import Expr
from engine.expressions.variants.casting import VariantCast
from engine.expressions.variants.columns import variants_of
from engine.expressions.variants.paths import follow, parse_path
from engine.expressions.variants.reading import Variant
from engine.expressions.variants.variant_errors import invalid_path
from engine.expressions.vectors import to_list


def _refused_path(expr: Expr) -> str | None:
    """Spark's compiled code looks at a constant path before any row comes."""
    text = constant_value(expr.children[1])
    if text is None or parse_path(text) is not None:
        return None
    return f"{text!r} is no path: Spark fails on it as well, whatever the rows; it begins with $"


@strict(
    "VariantGet",
    can_fail=always,
    supports=_refused_path,
    loop=True,
    reads=("target_type", "fail_on_error", "time_zone_id", SPARK_VERSION),
    takes=Rare.VARIANT,
)
def variant_get(expr: Expr, context: Context) -> ValueFunction:
    """NULL where nothing is at the path."""
    zone_name = expr.params.get("time_zone_id") or context.session_timezone
    fails = bool(expr.params["fail_on_error"])
    cast = VariantCast(fails, zone_name, zone(zone_name), reads_any_zero(expr))
    name = "variant_get" if cast.fails else "try_variant_get"

    def found(variant: Variant | None, path: Any) -> Variant | None:
        if variant is None or path is None:
            return None
        steps = parse_path(path)
        if steps is None:
            raise invalid_path(path, name)
        return follow(variant, steps)

    def get(array: pa.Array, paths: pa.Array) -> pa.Array:
        variants = variants_of(array)
        rows = zip(variants, to_list(paths), strict=True)
        return cast.column([found(*row) for row in rows], expr.dtype)

    return on_arrays(expr, get)
