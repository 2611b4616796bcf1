"""Columns that the names of folders tell: ``/data/in/day=2026-11-22/hour=7/a.json``.

Source: Spark's PartitioningUtils.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from urllib.parse import unquote

import pyarrow as pa

from engine.errors import SourceError, TransformError
from engine.expressions.types import sql_name
from engine.expressions.whole_columns import caster
from engine.sources.tail.tail_offset import shown_name

_NULL = "__HIVE_DEFAULT_PARTITION__"


def partition_values(path: str, root: str) -> dict[str, str | None]:
    """What the folders between ``root`` and the file say: column, lower case, and its value."""
    try:
        folders = PurePosixPath(path).relative_to(root).parts[:-1]
    except ValueError:  # a sink's log may name files of anywhere
        return {}
    found: dict[str, str | None] = {}
    for folder in folders:
        name, is_one, value = folder.partition("=")
        if is_one:
            found[unquote(name).lower()] = None if value == _NULL else unquote(value)
    return found


def constants(
    values: dict[str, str | None], schema: pa.Schema, path: str, session_timezone: str
) -> dict[str, pa.Scalar]:
    """The columns of the schema whose value is told, by their names there.

    :raises SourceError: a value is none of its column's type.
    """
    found = {}
    for field in schema:
        if field.name.lower() in values:
            value = values[field.name.lower()]
            try:
                text = pa.array([value], pa.string())
                cast = caster(pa.string(), field.type, session_timezone)
                found[field.name] = (cast(text) if field.type != pa.string() else text)[0]
            except (TransformError, pa.ArrowException, UnicodeEncodeError) as exc:
                raise SourceError(
                    f"Source files: the folder of {shown_name(path)} tells {field.name}={value!r}, "
                    f"which is no {sql_name(field.type)}.",
                    hint="Correct the schema that the stream is read with, or the folder's name.",
                ) from exc
    return found


def with_constants(
    batch: pa.RecordBatch, constants: dict[str, pa.Scalar], schema: pa.Schema
) -> pa.RecordBatch:
    """The batch with these columns in the places that the schema gives them."""
    arrays = [
        pa.repeat(constants[field.name], batch.num_rows)
        if field.name in constants
        else batch.column(field.name)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
