"""PySpark's ``StructType`` as an Arrow schema."""

from __future__ import annotations

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
