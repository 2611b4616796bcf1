"""Structs: making one, and taking a field out."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from engine.expressions.argument_types import Rare
from engine.expressions.datum import to_array
from engine.expressions.registry import (
    ALL,
    Context,
    Datum,
    Evaluator,
    ValueFunction,
    lazy,
    strict,
)
from engine.expressions.tree import Expr
from engine.expressions.vectors import field_of


@strict("GetStructField", reads=("ordinal",), takes=Rare.ALL_AND_VARIANT)
def get_struct_field(expr: Expr, context: Context) -> ValueFunction:
    """Null if the struct is."""
    ordinal: int = expr.params["ordinal"]
    return lambda value: field_of(value, ordinal)


@lazy("CreateNamedStruct", takes=Rare.ALL_AND_VARIANT, always=ALL)
def create_named_struct(expr: Expr, children: Sequence[Evaluator], context: Context) -> Evaluator:
    """``children`` are name, value, name, value, ...; the names are in the result's type."""
    fields = list(expr.dtype)
    values = children[1::2]

    def make(batch: pa.RecordBatch) -> Datum:
        arrays = [
            to_array(value(batch), batch.num_rows, field.type)
            for value, field in zip(values, fields, strict=True)
        ]
        if not arrays:
            return pa.array([{}] * batch.num_rows, expr.dtype)
        return pa.StructArray.from_arrays(arrays, fields=fields)

    return make
