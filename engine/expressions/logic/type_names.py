"""``typeof``: the type of an expression as Spark's catalog writes it.

Source: ``DataType.catalogString`` of Spark.
"""

from __future__ import annotations

import pyarrow as pa

from engine.expressions.registry import Context, ValueFunction, strict
from engine.expressions.tree import Expr
from engine.expressions.types import sql_name


def catalog_name(dtype: pa.DataType) -> str:
    """E.g. ``bigint``, ``struct<a:int,b:array<string>>``."""
    if pa.types.is_struct(dtype):
        return f"struct<{','.join(f'{f.name}:{catalog_name(f.type)}' for f in dtype)}>"
    if pa.types.is_map(dtype):
        return f"map<{catalog_name(dtype.key_type)},{catalog_name(dtype.item_type)}>"
    if pa.types.is_list(dtype):
        return f"array<{catalog_name(dtype.value_type)}>"
    return sql_name(dtype).lower()


def _supports(expr: Expr) -> str | None:
    if pa.types.is_duration(expr.children[0].dtype):
        return "the fields of an interval's type are not kept"
    return None


@strict("TypeOf", supports=_supports)
def type_of(expr: Expr, context: Context) -> ValueFunction:
    """``typeof``."""
    name = pa.scalar(catalog_name(expr.children[0].dtype))
    return lambda value: name
