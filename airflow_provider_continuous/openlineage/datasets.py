"""Which data a query reads and writes, under the names that OpenLineage gives it.

====================  ========================  ==========================
connector             namespace                 name
====================  ========================  ==========================
files on a disk       ``file``                  the path
files elsewhere       ``s3://bucket``           the path in it
Kafka                 ``kafka://host:port``     the topic, one per dataset
PostgreSQL            ``postgres://host:port``  ``database.schema.table``
MySQL                 ``mysql://host:port``     ``database.table``
====================  ========================  ==========================

Other connectors, such as ``rate`` and ``console``, have no data that somebody else could read.

Source: OpenLineage naming conventions, https://openlineage.io/docs/spec/naming.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.fingerprint_file import read_fingerprint

_SYSTEMS: Final = {
    "postgresql": ("postgres", "5432", "public."),
    "postgres": ("postgres", "5432", "public."),
    "mysql": ("mysql", "3306", ""),
    "mariadb": ("mysql", "3306", ""),
}
"""Scheme of a URL → name, port, and the schema of tables that name none."""


@dataclass(frozen=True)
class DataSet:
    """:param fields: name and SQL type of its columns, as far as they are known."""

    namespace: str
    name: str
    fields: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Lineage:
    """What a query reads, and what it writes."""

    inputs: tuple[DataSet, ...] = ()
    outputs: tuple[DataSet, ...] = ()


def recorded(checkpoint: Checkpoint) -> Lineage:
    """Tell it from what the query's last start has written into its checkpoint; empty for a query
    of Spark itself.

    :raises CheckpointError: it cannot be read.
    """
    return lineage_of(read_fingerprint(checkpoint.storage) or {})


def lineage_of(parts: Mapping[str, Any]) -> Lineage:
    """Tell it from the parts of a query: a fingerprint or a specification."""
    sources = parts.get("sources") or [parts.get("source") or {}]
    inputs = (each for source in sources for each in _datasets(source, source.get("schema")))
    outputs = _datasets(parts.get("sink") or {}, parts.get("schema"))
    return Lineage(tuple(inputs), tuple(outputs))


def _datasets(connector: Mapping[str, Any], schema: Any) -> Iterator[DataSet]:
    options = {
        str(key).lower(): str(value) for key, value in (connector.get("options") or {}).items()
    }
    columns = tuple(schema.items()) if isinstance(schema, Mapping) else ()
    if str(connector.get("format")).lower() == "kafka":
        server = options.get("kafka.bootstrap.servers", "").partition(",")[0].strip()
        for topic in (options.get("topic") or options.get("subscribe") or "").split(","):
            if server and topic.strip():
                yield DataSet(f"kafka://{server}", topic.strip(), columns)
    elif str(connector.get("format")).lower() in ("postgres", "sqlalchemy"):
        yield from _tables(options, columns)
    elif path := options.get("path"):
        parts = urlsplit(path)
        if parts.scheme in ("", "file"):
            yield DataSet("file", parts.path if parts.scheme else path, columns)
        else:
            # Without user and password, if they are there.
            host = parts.netloc.rpartition("@")[2]
            yield DataSet(f"{parts.scheme}://{host}", parts.path.strip("/") or "/", columns)


def _tables(options: Mapping[str, str], columns: tuple[tuple[str, str], ...]) -> Iterator[DataSet]:
    # Of a sink of SQLAlchemy the checkpoint knows the path alone: its url has a password.
    parts = urlsplit(options.get("url") or options.get("path", ""))
    system = _SYSTEMS.get(parts.scheme.partition("+")[0])
    table = options.get("table", "").replace('"', "")
    if table and system is not None:
        name, port, schema = system
        host = parts.netloc.rpartition("@")[2].partition(",")[0] or "localhost"
        host = host if ":" in host else f"{host}:{port}"
        table = table if "." in table else f"{schema}{table}"
        yield DataSet(f"{name}://{host}", f"{parts.path.strip('/')}.{table}", columns)
