"""Other types into VARIANT: ``CAST(x AS VARIANT)``, and ``to_variant_object`` for STRUCT and MAP.

Source: ``VariantExpressionEvalUtils.castToVariant`` of Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from engine.expressions.argument_types import Rare
from engine.expressions.casts.rules import Casting, Convert, conversion
from engine.expressions.decimals import EXACT
from engine.expressions.json.jackson import Members
from engine.expressions.lists import Lists
from engine.expressions.registry import Context, ValueFunction, always, strict
from engine.expressions.tree import Expr
from engine.expressions.types import TIMESTAMP, TIMESTAMP_NTZ, is_integral, is_variant
from engine.expressions.variants import encoding
from engine.expressions.variants.building import Octets, SizeError, VariantBuilder, append
from engine.expressions.variants.columns import array_of, variants_of
from engine.expressions.variants.encoding import NULL_PIECE, SIZE_MAX, Piece
from engine.expressions.variants.reading import Variant, events_of
from engine.expressions.variants.variant_errors import too_large
from engine.expressions.vectors import of_columns, to_list

_SCALARS: Final[dict[pa.DataType, Callable[[Any], Piece]]] = {
    pa.bool_(): encoding.truth,
    pa.float32(): encoding.single,
    pa.float64(): encoding.double,
    pa.string(): lambda text: encoding.text(text.encode()),
    pa.binary(): encoding.binary,
    pa.date32(): encoding.date,
    TIMESTAMP: encoding.timestamp,
    TIMESTAMP_NTZ: encoding.timestamp_ntz,
}


@strict("ToVariantObject", can_fail=always, loop=True, takes=Rare.VARIANT)
def to_variant_object(expr: Expr, context: Context) -> ValueFunction:
    """Of an ARRAY, a MAP or a STRUCT."""
    return of_columns(to_variants)


@conversion(
    *(
        (source, "variant")
        for source in (
            *("boolean", "integral", "floating", "decimal", "string", "binary", "date"),
            *("timestamp", "timestamp_ntz", "array"),
        )
    )
)
def into_variant(casting: Casting) -> Convert:
    """Value by value."""
    return to_variants


@conversion(("variant", "variant"))
def unchanged(casting: Casting) -> Convert:
    """Inside of types that differ elsewhere."""
    return lambda array: array


def to_variants(array: pa.Array) -> pa.StructArray:
    """A column of any type as VARIANT.

    :raises TransformError: a name occurs twice in a STRUCT, or a value is too large.
    """
    return array_of([None if node is None else _octets(node) for node in _nodes(array)])


def _octets(node: Any) -> Octets:
    builder = VariantBuilder()
    try:
        _write(builder, node)
        return builder.result()
    except SizeError:
        raise too_large(SIZE_MAX, "a cast to VARIANT") from None


def _nodes(array: pa.Array) -> list[Any]:
    """Each value as a :data:`Piece`, list, :class:`Members` or :class:`Variant`; None is NULL."""
    dtype = array.type
    if is_variant(dtype):
        return list(variants_of(array))
    if pa.types.is_struct(dtype):
        return _objects(array)
    if pa.types.is_map(dtype):
        keys, values = Lists.of(array).items.flatten()
        pairs = list(zip(to_list(keys), _nodes(values), strict=True))
        return _grouped(Lists.of(array), pairs, Members)
    if pa.types.is_list(dtype):
        return _grouped(Lists.of(array), _nodes(Lists.of(array).items), list)
    if pa.types.is_decimal(dtype):
        return [None if v is None else _decimal(v, dtype.scale) for v in to_list(array)]
    piece = encoding.whole if is_integral(dtype) else _SCALARS[dtype]
    return [None if value is None else piece(value) for value in to_list(array)]


def _decimal(value: Decimal, scale: int) -> Piece:
    piece = encoding.decimal(int(value.scaleb(scale, EXACT)), scale)
    assert piece is not None
    return piece


def _objects(array: pa.StructArray) -> list[Any]:
    names = [field.name for field in array.type]
    columns = [_nodes(column) for column in array.flatten()] if names else []
    rows = zip(*columns, strict=True) if columns else ((),) * len(array)
    known = array.is_valid().to_pylist()
    return [
        Members(zip(names, row, strict=True)) if ok else None
        for row, ok in zip(rows, known, strict=True)
    ]


def _grouped(lists: Lists, nodes: list[Any], group: Callable[[list[Any]], Any]) -> list[Any]:
    spans = zip(lists.starts.tolist(), lists.lengths.tolist(), lists.valid.tolist(), strict=True)
    return [group(nodes[start : start + size]) if known else None for start, size, known in spans]


def _write(builder: VariantBuilder, node: Any) -> None:
    if isinstance(node, Members):
        start, fields = builder.position, []
        for name, value in node:
            fields.append((name, builder.id_of(name), builder.position - start))
            _write(builder, value)
        builder.close_object(start, fields)
    elif isinstance(node, list):
        start, offsets = builder.position, []
        for item in node:
            offsets.append(builder.position - start)
            _write(builder, item)
        builder.close_array(start, offsets)
    elif isinstance(node, Variant):
        append(builder, events_of(node))
    else:
        builder.add(NULL_PIECE if node is None else node)
