"""Which connection types a connector or a storage takes, and what reads them.

A format that is not here takes ``generic``, whose extra has its options by their own names, and any
type by ``connection: {id: ..., options: {OPTION: PLACE}}``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from airflow_provider_continuous.connections import aws, azure, databases, google, kafka, web
from airflow_provider_continuous.connections.fields import Fields, Reader


def _as_they_are(fields: Fields) -> dict[str, str]:
    found = fields.all_extras()
    fields.refuse_others(
        f"Options are in its extra; others with connection: {{id: {fields.conn_id}, options: "
        "{OPTION: login}}."
    )
    return found


_S3: Final = {"aws": aws.of_s3fs}
_GCS: Final = {"google_cloud_platform": google.of_gcsfs}
_AZURE: Final = {"wasb": azure.of_adlfs, "adls": azure.of_adlfs}


def _prefixed(reader: Reader) -> Reader:
    return lambda fields: {f"storage.{name}": value for name, value in reader(fields).items()}


_FILES: Final = {kind: _prefixed(reader) for kind, reader in {**_S3, **_GCS, **_AZURE}.items()}
GENERIC: Final[Mapping[str, Reader]] = {"generic": _as_they_are}
_DELTA: Final[Mapping[str, Reader]] = {
    "aws": aws.of_delta,
    "google_cloud_platform": google.of_delta,
    "wasb": azure.of_delta,
    "adls": azure.of_delta,
}
_ICEBERG: Final[Mapping[str, Reader]] = {"aws": aws.of_iceberg}
CONNECTORS: Final[Mapping[str, Mapping[str, Reader]]] = {
    "kafka": {"kafka": kafka.options},
    "delta": _DELTA,
    "continuous_delta": _DELTA,
    "parquet": _FILES,
    "json": _FILES,
    "csv": _FILES,
    "http": {"http": web.of_http},
    "iceberg": _ICEBERG,
    "continuous_iceberg": _ICEBERG,
    "postgres": {"postgres": databases.of_postgres},
    "redis": {"redis": databases.of_redis},
    "mqtt": {"mqtt": databases.of_mqtt},
    "sqlalchemy": {
        "postgres": databases.postgres_url,
        "mysql": databases.mysql_url,
        "sqlite": databases.sqlite_url,
        **GENERIC,
    },
}
"""Format → connection type → what reads it; sources and sinks of one format have the same."""

STORAGES: Final[Mapping[str, Mapping[str, Reader]]] = {
    "s3": _S3,
    "s3a": _S3,
    "gs": _GCS,
    "gcs": _GCS,
    "abfs": _AZURE,
    "abfss": _AZURE,
    "az": _AZURE,
}
"""A checkpoint's scheme → connection type → what reads it."""


def read(kinds: Mapping[str, Reader], fields: Fields) -> dict[str, str]:
    """Read a connection as the kinds of one connector or storage say.

    A generic one is taken for the only type that fits: Airflow's command line and forms make those
    of types whose provider is not installed.

    :raises ConfigError: it is of another type, or says what cannot be used.
    """
    reader = kinds.get(fields.conn_type)
    if reader is None and fields.conn_type == "generic" and len(kinds) == 1:
        (reader,) = kinds.values()
    if reader is None:
        raise fields.wrong(
            f"is none of the types that {fields.owner} takes",
            f"It takes {', '.join(kinds)}; of any type with connection: "
            f"{{id: {fields.conn_id}, options: {{OPTION: password}}}}.",
        )
    return reader(fields)
