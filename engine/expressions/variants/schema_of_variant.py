"""``schema_of_variant``: the type that all values of a VARIANT fit, in SQL.

Source: ``SchemaOfVariant``, ``JsonInferSchema.compatibleType`` and
``TypeCoercion.findTightestCommonType`` of Spark.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa

from engine.errors import TransformError
from engine.expressions.argument_types import Rare
from engine.expressions.registry import Context, ValueFunction, always, strict
from engine.expressions.tree import Expr
from engine.expressions.types import TIMESTAMP, TIMESTAMP_NTZ, VARIANT, is_variant, sql_name
from engine.expressions.variants.casting import TYPES, decimal_type
from engine.expressions.variants.columns import of_rows
from engine.expressions.variants.encoding import java_order
from engine.expressions.variants.reading import Kind, Variant
from engine.expressions.variants.variant_errors import malformed

CASE_SENSITIVE: Final = "spark.sql.caseSensitive"
_PLAIN_NAME: Final = re.compile(r"(?![0-9]+\Z)[a-zA-Z0-9_]+\Z")
_UUID: Final = pa.binary(16)
_DIGITS_MAX: Final = 38
_LONG_AS_DECIMAL: Final = pa.decimal128(20, 0)
_NUMBERS: Final = (pa.int64(), pa.float32(), pa.float64())
"""Each takes up those before it."""
_MOMENTS: Final = (pa.date32(), TIMESTAMP_NTZ, TIMESTAMP)


@strict(
    "SchemaOfVariant",
    can_fail=always,
    loop=True,
    presumes=(CASE_SENSITIVE,),
    takes=Rare.VARIANT,
)
def schema_of_variant(expr: Expr, context: Context) -> ValueFunction:
    """A text."""

    def schema(variant: Variant | None) -> str | None:
        try:
            return None if variant is None else _sql(_type_of(variant))
        except RecursionError:
            raise TransformError(
                "a VARIANT is nested too deeply for schema_of_variant",
                hint="Leave such values out, or look at parts of them with variant_get.",
            ) from None

    return of_rows(schema, pa.string())


def _sql(dtype: pa.DataType) -> str:
    if dtype == _UUID:
        return "UUID"
    if pa.types.is_struct(dtype) and not is_variant(dtype):
        return f"OBJECT<{', '.join(f'{_quoted(f.name)}: {_sql(f.type)}' for f in dtype)}>"
    return f"ARRAY<{_sql(dtype.value_type)}>" if pa.types.is_list(dtype) else sql_name(dtype)


def _quoted(name: str) -> str:
    return name if _PLAIN_NAME.match(name) else f"`{name.replace('`', '``')}`"


def _type_of(variant: Variant) -> pa.DataType:
    kind = variant.kind
    if kind is Kind.OBJECT:
        fields = [pa.field(name, _type_of(value)) for name, value in variant.fields()]
        names = [java_order(field.name) for field in fields]
        if any(before >= after for before, after in pairwise(names)):
            raise malformed()
        return pa.struct(fields)
    if kind is Kind.ARRAY:
        found = pa.null()
        for item in variant.items():
            found = _common(found, _type_of(item))
        return pa.list_(found)
    if kind is Kind.NULL:
        return pa.null()
    if kind is Kind.DECIMAL:
        return decimal_type(variant.scalar())
    return _UUID if kind is Kind.UUID else TYPES[kind]


def _common(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """What has the values of both; VARIANT if nothing else has."""
    tightest = _tightest(left, right)
    if tightest is not None:
        return tightest
    if _is_object(left) and _is_object(right):
        return _merged(left, right)
    if pa.types.is_list(left) and pa.types.is_list(right):
        return pa.list_(_common(left.value_type, right.value_type))
    pair = [_LONG_AS_DECIMAL if dtype == pa.int64() else dtype for dtype in (left, right)]
    if all(map(pa.types.is_decimal, pair)):
        return _decimal(*pair)
    if any(map(pa.types.is_decimal, pair)) and any(map(pa.types.is_floating, pair)):
        return pa.float64()
    return VARIANT


def _tightest(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """One of both, or what is made of such; None if there is none."""
    if left.equals(right, check_metadata=True) or pa.types.is_null(right):
        return left
    if pa.types.is_null(left):
        return right
    for order in (_NUMBERS, _MOMENTS):
        if left in order and right in order:
            return max(left, right, key=order.index)
    for whole, decimal in ((left, right), (right, left)):
        if whole == pa.int64() and pa.types.is_decimal(decimal):
            return decimal if decimal.precision - decimal.scale >= 20 else None
    if pa.types.is_list(left) and pa.types.is_list(right):
        item = _tightest(left.value_type, right.value_type)
        return None if item is None else pa.list_(item)
    if _is_object(left) and _is_object(right):
        return _alike(left, right)
    return None


def _is_object(dtype: pa.DataType) -> bool:
    return pa.types.is_struct(dtype) and not is_variant(dtype)


def _alike(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Objects whose names differ in case at most."""
    if [_without_case(f.name) for f in left] != [_without_case(f.name) for f in right]:
        return None
    types = [_tightest(a.type, b.type) for a, b in zip(left, right, strict=True)]
    if any(dtype is None for dtype in types):
        return None
    return pa.struct([f.with_type(dtype) for f, dtype in zip(left, types, strict=True)])


def _without_case(name: str) -> str:
    """Equal for names that ``equalsIgnoreCase`` finds equal: characters are compared one by one."""
    return "".join([_upper(char).lower()[0] for char in name])


def _upper(char: str) -> str:
    return next((each for each in (char.upper(), char.title()) if len(each) == 1), char)


def _merged(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """Objects with the names of both, in their order."""
    fields: dict[str, Any] = {field.name: field.type for field in left}
    for field in right:
        known = fields.get(field.name)
        fields[field.name] = field.type if known is None else _common(known, field.type)
    return pa.struct([(name, fields[name]) for name in sorted(fields, key=java_order)])


def _decimal(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    scale = max(left.scale, right.scale)
    digits = max(left.precision - left.scale, right.precision - right.scale) + scale
    return pa.float64() if digits > _DIGITS_MAX else pa.decimal128(digits, scale)
