"""The column for texts that do not fit their schema, of ``from_json`` and ``from_csv``.

Source: ``FailureSafeParser`` and ``ExprUtils.verifyColumnNameOfCorruptRecord`` of Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from engine.errors import TransformError
from engine.expressions.ansi import failure
from engine.expressions.options import OptionError

CORRUPT_RECORD: Final = "spark.sql.columnNameOfCorruptRecord"


def corrupt_field(dtype: pa.DataType, name: str) -> pa.Field | None:
    """The field of a schema that gets such texts; None if it has none."""
    if not pa.types.is_struct(dtype):
        return None
    return next((field for field in dtype if field.name == name), None)


def without_corrupt(dtype: pa.DataType, field: pa.Field | None) -> pa.DataType:
    """The schema of the texts themselves."""
    return (
        dtype if field is None else pa.struct([each for each in dtype if each.name != field.name])
    )


def check_corrupt_field(field: pa.Field | None, options: Mapping[str, Any]) -> None:
    """:raises OptionError: it cannot be what it is, or what Spark puts there is not certain."""
    if field is None:
        return
    if not pa.types.is_string(field.type):
        raise OptionError(f"the column {field.name} must be a nullable STRING")
    if not options:
        # Where only some fields of the result are used, and without options, Spark's optimizer
        # leaves the others out of the schema, and then sees nothing of what is wrong with them.
        raise OptionError(
            f"without options, Spark does not always fill the column {field.name}: add one, such as"
            " map('mode', 'PERMISSIVE')"
        )


def with_records(
    array: pa.StructArray, dtype: pa.StructType, name: str, records: pa.StringArray
) -> pa.StructArray:
    """The structs with that field among theirs.

    :param dtype: of the result.
    :param records: the texts of bad rows; the others have NULL.
    """
    columns = iter(array.flatten() if array.type.num_fields else [])
    fields = [records if field.name == name else next(columns) for field in dtype]
    return pa.StructArray.from_arrays(fields, fields=list(dtype), mask=array.is_null())


def malformed_record(text: str | None) -> TransformError:
    """Of the mode ``FAILFAST``."""
    return failure(
        "MALFORMED_RECORD_IN_PARSING",
        f"The record {text!r} does not follow the schema.",
        "Use the mode PERMISSIVE to get NULL instead.",
    )
