"""``json_tuple``: several members of a JSON object at once, as texts.

To the plan it is an array of one struct, which ``inline`` takes apart: a row always gives one row.

Source: ``JsonTuple`` and ``JsonTupleEvaluator`` of Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.expressions.json.jackson import JsonError, Members, as_utf8
from engine.expressions.json.json_trees import read_tree
from engine.expressions.json.json_writing import written
from engine.expressions.registry import Context, Datum, ValueFunction, strict
from engine.expressions.tree import Expr
from engine.expressions.vectors import per_row_with_nulls


@strict("JsonTuple", loop=True)
def json_tuple(expr: Expr, context: Context) -> ValueFunction:
    """An array of one struct, for NULL too."""
    names = [field.name for field in expr.dtype.value_type]

    def of_row(text: str | None, *fields: str | None) -> list[dict[str, str | None]]:
        values = [None] * len(fields) if text is None else members(text, fields)
        return [dict(zip(names, values, strict=True))]

    def function(*values: Datum) -> Datum:
        return per_row_with_nulls(of_row, expr.dtype, *values)

    return function


def members(text: str, names: Sequence[str | None]) -> list[str | None]:
    """The values under these names: texts without quotes, other values as JSON. All of them are
    NULL if the text is malformed, or no object."""
    missing: list[str | None] = [None] * len(names)
    try:
        tree = read_tree(text)
        if isinstance(tree, dict):
            return [_text(tree.get(name)) for name in names]
        if isinstance(tree, Members):
            # Of equal names the last one counts that is not null.
            known = {key: _text(value) for key, value in tree if value is not None and key in names}
            return [known.get(name) if name is not None else None for name in names]
    except JsonError:
        pass
    return missing


def _text(value: Any) -> str | None:
    """:raises JsonError: a text has half of a surrogate pair."""
    if value is None:
        return None
    if not isinstance(value, str):
        return written(value)
    if as_utf8(value) != value:
        raise JsonError("half of a surrogate pair cannot be written")
    return value
