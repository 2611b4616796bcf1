"""``typeof``: the type of an expression as Spark's catalog writes it.

Source: ``DataType.catalogString`` of Spark.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from engine.expressions.argument_types import Rare
from engine.expressions.registry import Context, Evaluator, lazy
from engine.expressions.tree import Expr
from engine.expressions.types import is_variant, sql_name


def catalog_name(dtype: pa.DataType) -> str:
    """E.g. ``bigint``, ``struct<a:int,b:array<string>>``."""
    if pa.types.is_struct(dtype) and not is_variant(dtype):
        return f"struct<{','.join(f'{f.name}:{catalog_name(f.type)}' for f in dtype)}>"
    if pa.types.is_map(dtype):
        return f"map<{catalog_name(dtype.key_type)},{catalog_name(dtype.item_type)}>"
    if pa.types.is_list(dtype):
        return f"array<{catalog_name(dtype.value_type)}>"
    return sql_name(dtype).lower()


@lazy("TypeOf", takes=Rare.VOID | Rare.VARIANT)  # what units an interval's type has is not kept
def type_of(expr: Expr, children: Sequence[Evaluator], context: Context) -> Evaluator:
    """``typeof``: its argument is not evaluated."""
    name: pa.Scalar = pa.scalar(catalog_name(expr.children[0].dtype))
    return lambda batch: name
