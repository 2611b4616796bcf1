"""What Spark makes of the results of a Python UDF without Arrow (``useArrow=False``).

Python does not enforce the declared type, so the JVM looks at each value that the worker has
pickled: what fits is taken, what does not is null. Whole numbers wrap around in a narrower type; a
STRING takes anything by Java's ``toString``.

A map keeps the order of the dict, where Java's has one of its own. Where Java's text is not a
function of the value (the address of an array, the order of a hash map), or Java cannot read the
pickle at all, this is an error.

Source: Spark's ``EvaluatePython.makeFromJava``.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from engine.errors import TransformError
from engine.expressions.java_utf8 import decoded
from engine.expressions.types import sql_name
from engine.expressions.whole_columns import caster

Taken = Callable[[Any], Any]
_READABLE: Final = (
    bool, int, float, str, bytes, bytearray, Decimal, list, tuple, dict, set, frozenset,
    date, datetime, time, timedelta,
)  # fmt: skip


def to_column(values: Sequence[Any], dtype: pa.DataType) -> pa.Array:
    """Results that have passed the declared type's ``toInternal``, as a column.

    :raises TransformError: see the module; or a decimal with too many digits, or a struct with
        another number of fields.
    """
    take = _taking(dtype)
    return pa.array([None if value is None else take(_readable(value)) for value in values], dtype)


def taker(dtype: pa.DataType) -> Taken:
    """From one result, which has passed ``toInternal``, to what ``pa.array`` takes; None stays. It
    raises as :func:`to_column`."""
    return _nullable(_taking(dtype))


def _readable(value: Any) -> Any:
    if type(value) not in _READABLE:
        raise TransformError(
            f"A Python function returned a {type(value).__module__}.{type(value).__name__}, which "
            "Spark cannot read.",
            hint="Return plain Python values, for example int(x) or str(x).",
        )
    return value


def _taking(dtype: pa.DataType) -> Taken:
    """From a value that is not null to what ``pa.array`` takes."""
    if pa.types.is_integer(dtype):
        return lambda value: _wrapped(value, dtype.bit_width)
    if pa.types.is_floating(dtype):
        return lambda value: value if type(value) is float else None
    if pa.types.is_boolean(dtype):
        return lambda value: value if type(value) is bool else None
    if pa.types.is_string(dtype):
        return _java_text
    if pa.types.is_binary(dtype):
        return _binary
    if pa.types.is_decimal(dtype):
        return lambda value: _decimal(value, dtype) if type(value) is Decimal else None
    if pa.types.is_temporal(dtype):
        return lambda value: _wrapped(value, 32 if pa.types.is_date32(dtype) else 64)
    if pa.types.is_struct(dtype):
        fields = [(field.name, _nullable(_taking(field.type))) for field in dtype]
        return lambda value: _struct(value, fields)
    if pa.types.is_map(dtype):
        key, item = _nullable(_taking(dtype.key_type)), _nullable(_taking(dtype.item_type))
        return lambda value: (
            [(key(k), item(v)) for k, v in value.items()] if type(value) is dict else None
        )
    if pa.types.is_list(dtype):
        element = _nullable(_taking(dtype.value_type))
        return lambda value: _list(value, element)
    return lambda value: None


def _nullable(take: Taken) -> Taken:
    return lambda value: None if value is None else take(_readable(value))


def _wrapped(value: Any, bits: int) -> int | None:
    if type(value) is not int or not -(1 << 63) <= value < 1 << 63:
        return None
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half


def _binary(value: Any) -> bytes | None:
    if type(value) is str:
        return value.encode()
    return bytes(value) if type(value) in (bytes, bytearray) else None


def _list(value: Any, element: Taken) -> list[Any] | None:
    if type(value) in (bytes, bytearray):  # Java's bytes have a sign
        value = memoryview(value).cast("b").tolist()
    return [element(each) for each in value] if type(value) in (list, tuple) else None


def _decimal(value: Decimal, dtype: pa.DataType) -> Decimal:
    wide = decimal.Context(prec=200, rounding=decimal.ROUND_HALF_UP)
    rounded = wide.plus(value.quantize(Decimal(1).scaleb(-dtype.scale), context=wide))  # no -0
    if len(rounded.as_tuple().digits) > dtype.precision:
        raise TransformError(
            f"[NUMERIC_VALUE_OUT_OF_RANGE] A Python function returned {value}, which does not fit "
            f"into {sql_name(dtype)}."
        )
    return rounded


def _struct(value: Any, fields: Sequence[tuple[str, Taken]]) -> dict[str, Any] | None:
    if type(value) is not tuple:
        return None
    if len(value) != len(fields):
        raise TransformError(
            f"Input row doesn't have expected number of values required by the schema. "
            f"{len(fields)} fields are required while {len(value)} values are provided."
        )
    return {name: take(each) for (name, take), each in zip(fields, value, strict=True)}


def java_string(text: str) -> str:
    """As Java reads what is pickled of it: half of a surrogate pair is no character there."""
    if text.isascii():
        return text
    return decoded(text.encode("utf-8", "surrogatepass"))


def _java_text(value: Any) -> str:
    kind = type(value)
    if kind is str:
        return java_string(value)
    if kind is bool:
        return "true" if value else "false"
    if kind in (int, Decimal):
        return str(value)
    if kind is float:
        text: str = caster(pa.float64(), pa.string(), "UTC")(pa.array([value]))[0].as_py()
        return text
    if kind is list:
        shown = ("null" if each is None else _java_text(_readable(each)) for each in value)
        return f"[{', '.join(shown)}]"
    raise TransformError(
        f"A Python function returned a {kind.__name__} where a STRING was declared.",
        hint="Return str(...); Spark would write Java's description of the object.",
    )
