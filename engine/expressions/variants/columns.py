"""Columns of VARIANT: structs of a value and its metadata, as PySpark has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from engine.expressions.registry import Datum
from engine.expressions.types import VARIANT
from engine.expressions.variants.building import Octets
from engine.expressions.variants.reading import Metadata, Variant
from engine.expressions.vectors import of_columns


def octets_of(array: pa.StructArray) -> list[Octets | None]:
    """Value and metadata of each row, None for NULL."""
    values, metadata = (array.field(index).to_pylist() for index in range(2))
    if array.null_count == 0:
        return list(zip(values, metadata, strict=True))
    rows = zip(values, metadata, array.is_valid().to_pylist(), strict=True)
    return [(value, names) if known else None for value, names, known in rows]


def variants_of(array: pa.StructArray) -> list[Variant | None]:
    """Each row to be read from, None for NULL.

    :raises TransformError: metadata is of another version.
    """
    known: dict[bytes, Metadata] = {}
    result: list[Variant | None] = []
    for row in octets_of(array):
        if row is None:
            result.append(None)
            continue
        value, octets = row
        metadata = known.get(octets)
        if metadata is None:
            metadata = known[octets] = Metadata(octets)
        result.append(Variant.of(value, metadata))
    return result


def array_of(rows: Sequence[Octets | None]) -> pa.StructArray:
    """The column of these rows."""
    missing = pa.array([row is None for row in rows], pa.bool_())
    columns = [
        pa.array([b"" if row is None else row[index] for row in rows], pa.binary())
        for index in range(2)
    ]
    return pa.StructArray.from_arrays(columns, fields=list(VARIANT), mask=missing)


def of_rows(
    function: Callable[[Variant | None], object], dtype: pa.DataType
) -> Callable[[Datum], Datum]:
    """A kernel from a function of one VARIANT, which gets None for NULL."""
    return of_columns(lambda array: pa.array([function(row) for row in variants_of(array)], dtype))
