"""PySpark's ``StructType`` as an Arrow schema."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa

from engine.errors import ConfigError
from engine.expressions.types import UnsupportedTypeError, schema_from_spark

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def to_arrow(schema: StructType, owner: str) -> pa.Schema:
    """The Arrow schema that the engine's batches have.

    :param owner: whose schema it is, for the error.
    :raises ConfigError: a column has a type that the engine does not know.
    """
    try:
        return schema_from_spark(schema.jsonValue())
    except UnsupportedTypeError as exc:
        raise ConfigError(f"{owner}: {exc}.") from exc


def to_pyspark_arrow(schema: StructType, owner: str) -> pa.Schema:
    """As :func:`to_arrow`, of rows that PySpark is to take from Arrow.

    :raises ConfigError: likewise; or a struct has two fields of one name, which it does not take.
    """
    found = to_arrow(schema, owner)
    for field in found:
        name = _twice(field.type)
        if name is not None:
            raise ConfigError(
                f"{owner}: in the column {field.name} is a struct with two fields {name}, which "
                "PySpark does not take from Arrow.",
                hint="Give one of them another name in the query, as named_struct('a', x, 'b', y).",
            )
    return found


def _twice(dtype: pa.DataType) -> str | None:
    """A name that two fields of a struct have, at any depth."""
    inner = [dtype.field(at) for at in range(dtype.num_fields)]
    if pa.types.is_struct(dtype):
        counts: Counter[str] = Counter(field.name for field in inner)
        for name, count in counts.items():
            if count > 1:
                return name
    for field in inner:
        if (found := _twice(field.type)) is not None:
            return found
    return None
