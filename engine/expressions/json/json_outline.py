"""``json_array_length`` and ``json_object_keys``: what a JSON text holds, without its values.

Source: ``JsonExpressionUtils`` of Spark.
"""

from __future__ import annotations

from engine.expressions.json.jackson import (
    END_ARRAY,
    NAME,
    START_ARRAY,
    START_OBJECT,
    JsonError,
    JsonParser,
    as_utf8,
)
from engine.expressions.registry import Context, ValueFunction, strict
from engine.expressions.tree import Expr
from engine.expressions.vectors import per_row


@strict("LengthOfJsonArray", loop=True)
def json_array_length(expr: Expr, context: Context) -> ValueFunction:
    """``json_array_length``: NULL for what is no array."""
    return lambda s: per_row(_length, expr.dtype, s)


def _length(text: str) -> int | None:
    parser = JsonParser(text, for_hive=True)
    try:
        if parser.next() != START_ARRAY:
            return None
        length = 0
        while parser.next() != END_ARRAY:
            parser.skip_children()
            length += 1
    except JsonError:
        return None
    return length


@strict("JsonObjectKeys", loop=True)
def json_object_keys(expr: Expr, context: Context) -> ValueFunction:
    """``json_object_keys``: NULL for what is no object."""
    return lambda s: per_row(_keys, expr.dtype, s)


def _keys(text: str) -> list[str] | None:
    parser = JsonParser(text, for_hive=True)
    keys = []
    try:
        if parser.next() != START_OBJECT:
            return None
        while parser.next() == NAME:
            keys.append(as_utf8(parser.name or ""))
            parser.next()
            parser.skip_children()
    except JsonError:
        return None
    return keys
