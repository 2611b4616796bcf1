"""``is_variant_null`` and ``is_valid_variant``.

Source: ``VariantExpressionEvalUtils`` and ``VariantUtil.isValidVariant`` of Spark.
"""

from __future__ import annotations

import pyarrow as pa

from engine.errors import TransformError
from engine.expressions.argument_types import Rare
from engine.expressions.registry import Context, ValueFunction, always, strict
from engine.expressions.tree import Expr
from engine.expressions.variants.building import Octets
from engine.expressions.variants.columns import octets_of
from engine.expressions.variants.encoding import VERSION
from engine.expressions.variants.reading import VERSION_MASK, Kind, Metadata, Variant
from engine.expressions.variants.variant_errors import is_sparks, malformed
from engine.expressions.vectors import of_columns


@strict("IsVariantNull", can_fail=always, loop=True, takes=Rare.VARIANT)
def is_variant_null(expr: Expr, context: Context) -> ValueFunction:
    """Whether it is JSON's null. NULL is not."""
    return of_columns(lambda array: pa.array([_is_null(row) for row in octets_of(array)]))


def _is_null(row: Octets | None) -> bool:
    if row is None:
        return False
    if not row[0]:
        raise malformed()
    return row[0][0] == 0


@strict("IsValidVariant", can_fail=always, loop=True, takes=Rare.VARIANT)
def is_valid_variant(expr: Expr, context: Context) -> ValueFunction:
    """Whether all of it can be read."""
    return of_columns(
        lambda array: pa.array(
            [None if row is None else _is_valid(row) for row in octets_of(array)], pa.bool_()
        )
    )


def _is_valid(row: Octets) -> bool:
    value, metadata = row
    if not metadata or metadata[0] & VERSION_MASK != VERSION:
        return False
    try:
        _read_all(Variant(value, Metadata(metadata), 0))
    except TransformError as error:
        if not is_sparks(error):
            raise
        return False
    return True


def _read_all(variant: Variant) -> None:
    """:raises TransformError: it is malformed."""
    ahead = [variant]
    while ahead:
        present = ahead.pop()
        kind = present.kind
        if kind is Kind.OBJECT:
            ahead += [value for _, value in present.fields()]
        elif kind is Kind.ARRAY:
            ahead += present.items()
        else:
            present.scalar()
