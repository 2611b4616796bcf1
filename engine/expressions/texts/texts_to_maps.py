"""``str_to_map``."""

from __future__ import annotations

import pyarrow as pa

from engine.expressions.collections.maps import (
    BUILDERS_PRESUME,
    BUILDERS_READ,
    build_maps,
    may_have_bad_keys,
)
from engine.expressions.datum import constant, constant_value
from engine.expressions.lists import Lists, on_arrays
from engine.expressions.registry import Context, ValueFunction, strict
from engine.expressions.texts.java_regex.errors import UnsupportedRegexError
from engine.expressions.texts.regex_patterns import JAVA_VERSION, compiled, java_of
from engine.expressions.texts.splitting import cutter
from engine.expressions.tree import Expr
from engine.expressions.vectors import to_list


def _supports(expr: Expr) -> str | None:
    for delimiter in expr.children[1:]:
        if constant(delimiter) is None or not constant_value(delimiter):
            return "the delimiters must be constants, and not empty"
        try:
            compiled(constant_value(delimiter), java_of(expr))
        except UnsupportedRegexError as error:
            return str(error)
    return None


@strict(
    "StringToMap",
    can_fail=may_have_bad_keys,
    supports=_supports,
    loop=True,
    reads=(*BUILDERS_READ, JAVA_VERSION),
    presumes=(*BUILDERS_PRESUME, "spark.sql.legacy.truncateForEmptyRegexSplit"),
)
def str_to_map(expr: Expr, context: Context) -> ValueFunction:
    """Splits into pairs, and those into key and value: NULL where there is no delimiter."""
    java = java_of(expr)
    pairs, pair = (cutter(compiled(constant_value(d), java)) for d in expr.children[1:])

    def make(texts: pa.Array, *_: pa.Array) -> pa.Array:
        rows = to_list(texts)
        parts = [None if text is None else pairs(text, -1) for text in rows]
        lists = Lists.of(pa.array(parts, pa.list_(pa.string())))
        split = [(*pair(item, 2), None)[:2] for item in lists.items.to_pylist()]
        keys = pa.array([key for key, _ in split], pa.string())
        values = pa.array([value for _, value in split], pa.string())
        return build_maps(expr, Lists(keys, lists.lengths, lists.valid), values)

    return on_arrays(expr, make)
