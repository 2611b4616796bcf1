"""The engine's own sinks by the name given to ``write_stream(df).format(...)``.

``foreach`` and ``foreachBatch`` have no name: they come from methods of the same name.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql.datasource import DataSource

from engine.errors import ConfigError
from engine.sinks.console import ConsoleDataSource
from engine.sinks.files.data_source import CsvDataSource, JsonDataSource, ParquetDataSource
from engine.sinks.memory import MemoryDataSource
from engine.sinks.noop import NoopDataSource

SINKS: Final[dict[str, type[DataSource]]] = {
    "console": ConsoleDataSource,
    "csv": CsvDataSource,
    "json": JsonDataSource,
    "memory": MemoryDataSource,
    "noop": NoopDataSource,
    "parquet": ParquetDataSource,
}


def sink_class(name: str) -> type[DataSource]:
    """:raises ConfigError: there is no such sink."""
    found = SINKS.get(name.lower())
    if found is None:
        raise ConfigError(
            f"There is no sink {name!r}.",
            hint=f"There are {', '.join(SINKS)}, and what was registered with "
            "spark.dataSource.register.",
        )
    return found
