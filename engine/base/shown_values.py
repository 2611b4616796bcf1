"""Values of Arrow as Python's, for people: one that Python has not is told as text."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def shown_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Those of a column."""
    try:
        values: list[Any] = column.to_pylist()
    except (OverflowError, ValueError):  # a date beyond the year 9999, which Spark allows
        return [shown_value(each) for each in column]
    return values


def shown_value(value: pa.Scalar) -> Any:
    """One of them."""
    try:
        return value.as_py()
    except (OverflowError, ValueError):
        if isinstance(value, pa.StructScalar):
            return {name: shown_value(each) for name, each in value.items()}
        if isinstance(value, pa.ListScalar):
            return shown_values(value.values)
        try:
            return value.cast(pa.string()).as_py()
        except pa.ArrowException:
            return f"a {value.type} that cannot be shown"
