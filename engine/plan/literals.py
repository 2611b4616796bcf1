"""What a ``Literal`` of Spark's holds, as :func:`engine.expressions.datum.constant` takes it.

``array(1, 2)`` in a query is no literal; one of an array, a map or a struct is what Spark's
optimizer has computed: what a correlated subquery, such as ``SELECT collect_list(w) ...``, is for a
row without a match. Java's text of such a value is no value.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from py4j.java_gateway import JavaObject

from engine.expressions.types import YEAR_MONTH_INTERVAL, is_variant, months_value
from engine.plan.catalyst import scala_seq


def literal_value(literal: JavaObject, dtype: pa.DataType) -> Any:
    """Plain Python data: it travels to the tasks, and its text tells equal constants from others.

    :param dtype: the type of the literal; ``pa.null()`` for one that the engine does not have.
    """
    if pa.types.is_null(dtype):
        return None
    return _plain(literal.value(), literal.dataType(), dtype)


def _plain(value: Any, data_type: JavaObject, dtype: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_string(dtype):
        return _text(bytes(value.getBytes()))
    if pa.types.is_decimal(dtype):
        return value.toJavaBigDecimal()  # which py4j turns into a decimal.Decimal
    if is_variant(dtype):
        return bytes(value.getValue()), bytes(value.getMetadata())
    if pa.types.is_map(dtype):
        keys = _items(value.keyArray(), data_type.keyType(), dtype.key_type)
        items = _items(value.valueArray(), data_type.valueType(), dtype.item_type)
        return list(zip(keys, items, strict=True))
    if pa.types.is_list(dtype):
        return _items(value, data_type.elementType(), dtype.value_type)
    if pa.types.is_struct(dtype):
        types = [field.dataType() for field in scala_seq(data_type)]
        return tuple(
            _plain(value.get(index, each), each, dtype.field(index).type)
            for index, each in enumerate(types)
        )  # by position: two fields may have one name
    if dtype == YEAR_MONTH_INTERVAL:
        return months_value(value)
    return bytes(value) if isinstance(value, bytearray) else value


def _items(array: JavaObject, data_type: JavaObject, dtype: pa.DataType) -> list[Any]:
    return [
        _plain(array.get(index, data_type), data_type, dtype)
        for index in range(array.numElements())
    ]


def _text(octets: bytes) -> str | bytes:
    try:
        return octets.decode()
    except UnicodeDecodeError:  # Java would read it as another text
        return octets
