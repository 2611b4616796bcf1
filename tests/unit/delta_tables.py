"""A sink of a Delta table, driven as the engine drives it; deltalake itself reads the table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import StructType

from engine.expressions.types import schema_to_spark
from engine.sinks.builtin_sinks import sink_class
from engine.sinks.delta.data_source import DeltaWriter
from tests.unit.lake_queries import SCHEMA


def writer(location: Path | str, schema: pa.Schema = SCHEMA, **options: Any) -> DeltaWriter:
    """A sink that is not bound."""
    given = {"path": str(location), **{key: str(value) for key, value in options.items()}}
    source = sink_class("delta")(CaseInsensitiveDict(given))
    made = source.streamWriter(StructType.fromJson(schema_to_spark(schema)), overwrite=False)
    assert isinstance(made, DeltaWriter)
    return made


def read(location: Path | str, options: dict[str, str] | None = None) -> list[dict[str, Any]]:
    """What a reader sees."""
    table = DeltaTable(str(location), storage_options=options).to_pyarrow_table()
    found: list[dict[str, Any]] = table.to_pylist()
    return found


def ids(location: Path | str) -> list[int]:
    return sorted(row["id"] for row in read(location))


def data_files(folder: Path) -> Sequence[Path]:
    return sorted(folder.rglob("part-*"))
