"""The engine's own sinks by the name given to ``write_stream(df).format(...)``.

Loading this table loads no sink, and no pyspark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from engine.base.extras import needs_engine
from engine.base.output_modes import ALL_MODES, APPEND, COMPLETE, UPDATE
from engine.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSource


class Columns(Enum):
    """How a sink tells the columns of what it has: a changed query must fit them."""

    BY_NAME = "by name"
    BY_POSITION = "by position"
    NOT_KEPT = "it keeps none"


@dataclass(frozen=True)
class SinkKind:
    """What is known of a sink before it is loaded.

    :param data_source: ``module:class``; empty for those that are no data source: ``foreach``
        and its relatives come from methods of the same name.
    :param is_files: its epochs are files in the folder ``path``, with a log of Spark's: it can be a
        table of the catalog, and be cleaned up.
    :param has_partitions: ``partitionBy`` means something to it.
    :param is_ephemeral: needs no checkpoint location, as in Spark: a temporary one serves.
    :param reopen: ``module:function`` of the options: enough of the sink to take rows back, without
        its query; empty if only its own stream writer can.
    :param columns: of the rows that it has already.
    :param output_modes: of queries that keep state: what it can do with rows that come again. Those
        of Spark where Spark has the sink; of a registered data source, too.
    :param secret_options: those whose values are neither shown nor kept, whatever they look like,
        in lower case; with a dot at the end: all that begin so. The writer's ``secretOptions``.
    :param place: a pattern of as much of a secret ``url`` as tells where the rows go.
    """

    data_source: str = ""
    is_files: bool = False
    has_partitions: bool = False
    is_ephemeral: bool = False
    reopen: str = ""
    columns: Columns = Columns.BY_NAME
    output_modes: tuple[str, ...] = (APPEND, COMPLETE)
    secret_options: tuple[str, ...] = ()
    place: str = ""

    def is_secret(self, option: str) -> bool:
        """Whether the sink calls an option, in any case, a secret."""
        name = option.lower()
        return any(
            name.startswith(secret) if secret.endswith(".") else name == secret
            for secret in self.secret_options
        )


class KeepsNothing:
    """A sink whose rows end with the process that has them."""

    def rewind(self, epoch: int) -> None:
        """Nothing is there to be taken back."""


def _files(name: str, columns: Columns = Columns.BY_NAME) -> SinkKind:
    return SinkKind(
        f"engine.sinks.files.data_source:{name}",
        is_files=True,
        has_partitions=True,
        reopen="engine.sinks.files.file_sink_rewind:reopen",
        columns=columns,
        output_modes=(APPEND,),
    )


def _fleeting(data_source: str = "", reopen: str = "") -> SinkKind:
    """A sink whose rows nobody finds there later."""
    return SinkKind(
        data_source,
        is_ephemeral=True,
        reopen=reopen,
        columns=Columns.NOT_KEPT,
        output_modes=ALL_MODES,
    )


def _sending(data_source: str, secret_options: tuple[str, ...] = (), place: str = "") -> SinkKind:
    """A sink that passes rows on, each time they come."""
    return SinkKind(
        data_source,
        columns=Columns.NOT_KEPT,
        output_modes=ALL_MODES,
        secret_options=secret_options,
        place=place,
    )


def keeps_nothing(options: Mapping[str, str]) -> KeepsNothing:
    """The sink of these options."""
    return KeepsNothing()


HTTP_HEADER: Final = "header."
"""Of the names of options that are headers of requests."""
_NOTHING = "engine.sinks.builtin_sinks:keeps_nothing"
SINKS: Final[dict[str, SinkKind]] = {
    "parquet": _files("ParquetDataSource"),
    "json": _files("JsonDataSource"),
    "csv": _files("CsvDataSource", Columns.BY_POSITION),  # a file may have no header
    "kafka": _sending("engine.sinks.kafka.data_source:KafkaSink"),
    "delta": SinkKind(
        "engine.sinks.delta.data_source:DeltaDataSource",
        has_partitions=True,
        reopen="engine.sinks.delta.rewind:reopen",
        output_modes=(APPEND,),
    ),
    "http": _sending(
        "engine.sinks.http.data_source:HttpSink", ("url", HTTP_HEADER), r"https?://[^/?#]*"
    ),
    "redis": _sending("engine.sinks.redis.data_source:RedisSink"),
    "mqtt": _sending("engine.sinks.mqtt.data_source:MqttSink"),
    "iceberg": SinkKind(
        "engine.sinks.iceberg.data_source:IcebergDataSource",
        has_partitions=True,
        reopen="engine.sinks.iceberg.data_source:reopen",
        output_modes=(APPEND,),
    ),
    "postgres": SinkKind(
        "engine.sinks.postgres.data_source:PostgresSink",
        reopen="engine.sinks.postgres.epochs:reopen",
        output_modes=(APPEND, UPDATE),
    ),
    "sqlalchemy": SinkKind(
        "engine.sinks.sqlalchemy.data_source:SqlAlchemySink",
        reopen="engine.sinks.sqlalchemy.epochs:reopen",
        output_modes=(APPEND, UPDATE),
        secret_options=("url",),
        place=r"[\w+]+://[^?#]*",
    ),
    "console": _fleeting("engine.sinks.console:ConsoleDataSource"),
    "memory": _fleeting("engine.sinks.memory:MemoryDataSource", _NOTHING),
    "noop": _fleeting("engine.sinks.noop:NoopDataSource", _NOTHING),
    "foreach": _fleeting(),
    "foreachbatch": _fleeting(),
    "foreachbatcharrow": _fleeting(),
}
FILE_FORMATS: Final = tuple(name for name, kind in SINKS.items() if kind.is_files)
PARTITIONED: Final = tuple(name for name, kind in SINKS.items() if kind.has_partitions)


def sink_kind(name: str) -> SinkKind:
    """What is known of a format; nothing if it is not the engine's own."""
    return SINKS.get(name.lower(), SinkKind())


def sink_class(name: str) -> type[DataSource]:
    """:raises ConfigError: there is no such sink."""
    kind = sink_kind(name)
    if not kind.data_source:
        own = ", ".join(known for known, each in SINKS.items() if each.data_source)
        raise ConfigError(
            f"There is no sink {name!r}.",
            hint=f"There are {own}, and what was registered with spark.dataSource.register.",
        )
    found: type[DataSource] = load(kind.data_source)
    return found


def load(place: str) -> Any:
    """What is at ``module:name``.

    :raises ConfigError: it needs what is not installed.
    """
    module, _, name = place.partition(":")
    with needs_engine(f"The sink {module.removeprefix('engine.sinks.').partition('.')[0]}"):
        return getattr(import_module(module), name)
