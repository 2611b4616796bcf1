"""A sink of an Iceberg table, driven as the engine drives it; pyiceberg itself reads the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import StructType

from engine.expressions.types import schema_to_spark
from engine.sinks.builtin_sinks import sink_class
from engine.sinks.iceberg.writer import IcebergWriter
from tests.unit.lake_queries import SCHEMA, Query

NAME = "db.t"


class Lake:
    """A catalog, and the table :data:`NAME` in it.

    :param properties: of the catalog.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        self.properties = dict(properties)

    @classmethod
    def at(cls, folder: Path) -> Lake:
        """Its catalog is a database of SQLite."""
        folder.mkdir(parents=True, exist_ok=True)
        uri = f"sqlite:///{folder / 'catalog.db'}"
        return cls({"type": "sql", "uri": uri, "warehouse": str(folder / "warehouse")})

    @property
    def options(self) -> dict[str, str]:
        """Of a sink that writes to the table."""
        found = {f"catalog.{key}": value for key, value in self.properties.items()}
        return {"table": NAME, **found}

    @property
    def catalog(self) -> Catalog:
        return load_catalog("default", **self.properties)

    @property
    def table(self) -> Table:
        """As it is now."""
        return self.catalog.load_table(NAME)

    def read(self) -> list[dict[str, Any]]:
        """What a reader sees."""
        found: list[dict[str, Any]] = self.table.scan().to_arrow().to_pylist()
        return found

    def ids(self) -> list[int]:
        return sorted(row["id"] for row in self.read())

    def data_files(self) -> Sequence[Path]:
        """All that are in the warehouse, if it is a folder."""
        return sorted(Path(self.properties["warehouse"]).rglob("*part-*.parquet"))

    def writer(self, schema: pa.Schema = SCHEMA, **options: Any) -> IcebergWriter:
        """A sink that is not bound."""
        given = {**self.options, **{key: str(value) for key, value in options.items()}}
        source = sink_class("iceberg")(CaseInsensitiveDict(given))
        made = source.streamWriter(StructType.fromJson(schema_to_spark(schema)), overwrite=False)
        assert isinstance(made, IcebergWriter)
        return made

    def query(self, schema: pa.Schema = SCHEMA, **run: Any) -> Query:
        """One attempt to run a query.

        :param run: what :class:`Query` takes, and options of the sink.
        """
        of_query = {"generation", "timeline", "logged", "query_id", "prepared"} & run.keys()
        given = {name: run.pop(name) for name in of_query}
        return Query(self.writer(schema, **run), **given)
