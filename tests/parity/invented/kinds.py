"""What may fill a hole: types without what two of a kind may differ in.

All DECIMALs are of one kind, so that precisions mix; so are all intervals of days, and of months.
"""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa
from pyspark.sql.types import DataType

DAYS: Final = "interval day to second"
MONTHS: Final = "interval year to month"
NEVER_ROOT: Final = frozenset({MONTHS, "void"})
"""PySpark has no Arrow column of these."""


def kind_of(dtype: DataType) -> str:
    """The kind of a type, e.g. ``array<decimal>``."""
    text = re.sub(r"decimal\(\d+,-?\d+\)", "decimal", dtype.simpleString())
    text = re.sub(r"interval (day|hour|minute|second)( to \w+)?", DAYS, text)
    return re.sub(r"interval (year|month)( to month)?", MONTHS, text)


def names_a_field_twice(dtype: pa.DataType) -> bool:
    """Whether a struct in the type has two fields of one name: Spark cannot hand it over."""
    fields = [dtype.field(index) for index in range(dtype.num_fields)]
    names = [field.name for field in fields]
    twice = pa.types.is_struct(dtype) and len(set(names)) < len(names)
    return twice or any(names_a_field_twice(field.type) for field in fields)
