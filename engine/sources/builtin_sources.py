"""The engine's own sources by the name given to ``readStream.format(...)``."""

from __future__ import annotations

from typing import Final

from pyspark.sql.datasource import DataSource

from engine.errors import ConfigError
from engine.sources.delta.data_source import DeltaSource
from engine.sources.files.data_source import FORMATS
from engine.sources.iceberg.data_source import IcebergSource
from engine.sources.kafka.data_source import KafkaDataSource
from engine.sources.mqtt.data_source import MqttSource
from engine.sources.postgres.data_source import PostgresDataSource
from engine.sources.rate import RateDataSource
from engine.sources.redis.data_source import RedisSource
from engine.sources.socket import SocketDataSource
from engine.sources.tail.data_source import TailDataSource

SOURCES: Final[dict[str, type[DataSource]]] = {
    "rate": RateDataSource,  # Spark's own name, seen in the plan of readStream.format("rate")
    RateDataSource.name(): RateDataSource,
    TailDataSource.name(): TailDataSource,
    KafkaDataSource.name(): KafkaDataSource,
    RedisSource.name(): RedisSource,
    MqttSource.name(): MqttSource,
    SocketDataSource.name(): SocketDataSource,  # Spark's own name, likewise
    PostgresDataSource.name(): PostgresDataSource,
    **FORMATS,
    DeltaSource.name(): DeltaSource,
    IcebergSource.name(): IcebergSource,
}


def source_class(name: str) -> type[DataSource]:
    """:raises ConfigError: there is no such source."""
    found = SOURCES.get(name.lower())
    if found is None:
        raise ConfigError(
            f"There is no source {name!r} that can be read continuously.",
            hint=f"There are {', '.join(SOURCES)}, and registered Python data sources that have "
            "a method continuousReader(schema).",
        )
    return found
