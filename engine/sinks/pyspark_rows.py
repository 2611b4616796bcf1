"""Record batches as PySpark's: as a DataFrame, and as rows with the Python values of PySpark.

A timestamp becomes a naive ``datetime`` in the zone of the process, as everywhere in PySpark; a
struct a ``Row``; a map a dict; a binary ``bytes``; a VARIANT a ``VariantVal``; a text that
is no UTF-8 what Java reads there.

Source: PySpark's ArrowTableToRowsConversion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.types import ByteType, StructType, VariantVal

from engine.expressions.malformed import values_of
from engine.expressions.types import is_variant

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Converter = Callable[[Any], Any]


def data_frame_of(spark: SparkSession, rows: pa.Table, schema: StructType) -> DataFrame:
    """The rows as Spark has them, without a job."""
    if rows.num_columns:
        return spark.createDataFrame(rows, schema)
    # PySpark 4.1 loses the rows of a table without columns.
    counted = pa.table({"row": pa.nulls(rows.num_rows, pa.int8())})
    return spark.createDataFrame(counted, StructType().add("row", ByteType())).select([])


def rows_of(batch: pa.RecordBatch) -> Iterator[Row]:
    """The rows of a batch, in order."""
    row = Row(*batch.schema.names)
    if not batch.num_columns:
        return (row() for _ in range(batch.num_rows))
    columns = [_values(column, _converter(column.type)) for column in batch.columns]
    return (row(*values) for values in zip(*columns, strict=True))


def _values(column: pa.Array, convert: Converter | None) -> list[Any]:
    values = values_of(column)
    if convert is None:
        return values
    return [None if value is None else convert(value) for value in values]


def _converter(dtype: pa.DataType) -> Converter | None:
    """From Arrow's Python value, not null, to PySpark's; None if they are the same."""
    if pa.types.is_timestamp(dtype) and dtype.tz is not None:
        return lambda value: value.astimezone().replace(tzinfo=None)
    if is_variant(dtype):
        return lambda value: VariantVal(value["value"], value["metadata"])
    if pa.types.is_struct(dtype):
        row = Row(*(field.name for field in dtype))
        fields = [(field.name, _nullable(_converter(field.type))) for field in dtype]
        return lambda value: row(*(convert(value[name]) for name, convert in fields))
    if pa.types.is_map(dtype):
        item = _nullable(_converter(dtype.item_type))
        key = _nullable(_converter(dtype.key_type))
        return lambda pairs: {key(k): item(v) for k, v in pairs}
    if pa.types.is_list(dtype):
        element = _converter(dtype.value_type)
        if element is None:
            return None
        convert = _nullable(element)
        return lambda values: [convert(value) for value in values]
    return None


def _nullable(convert: Converter | None) -> Converter:
    if convert is None:
        return lambda value: value
    return lambda value: None if value is None else convert(value)
