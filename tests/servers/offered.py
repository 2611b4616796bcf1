"""The servers that ``make servers`` starts: a line each. Whoever adds a server adds one.

A server is a context manager of a folder of its own; it gives :class:`Shown`.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from tests.servers.process import NoServerError


@dataclass(frozen=True)
class Shown:
    """What a person needs to know of a server that runs.

    :param places: what it is → its address.
    :param tries: what it does → a command for a shell, that does it.
    """

    places: Mapping[str, str]
    login: str = ""
    tries: Mapping[str, str] = field(default_factory=dict)


Offer: TypeAlias = Callable[[Path], AbstractContextManager[Shown]]


class MissingError(NoServerError):
    """As its base; says which command provides it, too."""


def add_connection(
    name: str, kind: str, *, extra: Mapping[str, str] | None = None, **own: str
) -> str:
    """The command that tells Airflow of a server."""
    # By JSON: --conn-type makes a generic one of a type whose provider is not installed.
    said = {"conn_type": kind, **own, **({} if extra is None else {"extra": extra})}
    return shlex.join(["airflow", "connections", "add", name, "--conn-json", json.dumps(said)])


def python(program: str) -> str:
    """The command that runs a program with the Python of the tests."""
    return shlex.join([os.path.relpath(sys.executable), "-c", program])


@contextmanager
def kafka(folder: Path) -> Iterator[Shown]:
    try:
        from tests.servers.kafka import PASSWORD, USER, running_kafka
    except ImportError as error:
        raise MissingError(f"{error}: make install") from error
    with running_kafka(folder, {"auto.create.topics.enable": "true"}) as broker:
        login = {
            "bootstrap.servers": broker.bootstrap_sasl,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": USER,
            "sasl.password": PASSWORD,
        }
        yield Shown(
            {
                "without login": broker.bootstrap,
                "SASL_PLAINTEXT, PLAIN": broker.bootstrap_sasl,
                f"TLS, certificate {broker.certificate}": broker.bootstrap_tls,
            },
            f"user {USER}, password {PASSWORD}",
            {
                "a record to the topic orders": python(
                    "from confluent_kafka import Producer; "
                    f'p = Producer({{"bootstrap.servers": "{broker.bootstrap}"}}); '
                    'p.produce("orders", "12.5", key="customer-1"); p.flush()'
                ),
                "Airflow's connection": add_connection("kafka_main", "kafka", extra=login),
            },
        )


@contextmanager
def s3(folder: Path) -> Iterator[Shown]:
    try:
        import moto.server  # noqa: F401

        from tests.servers.s3 import s3_server
    except ImportError as error:
        raise MissingError(f"{error}: make install") from error
    folder.mkdir()
    with s3_server(folder) as server:
        bucket, options = server.bucket(), server.delta_options
        key, secret = options["AWS_ACCESS_KEY_ID"], options["AWS_SECRET_ACCESS_KEY"]
        yield Shown(
            {"S3": server.endpoint, "a bucket": f"s3://{bucket}"},
            f"access key {key}, secret key {secret}, region {options['AWS_REGION']}",
            {
                "a Delta table": python(
                    "import pyarrow as pa; from deltalake import DeltaTable, write_deltalake; "
                    f'at, how = "s3://{bucket}/orders", {json.dumps(options)}; '
                    'rows = pa.table({"amount": [12.5]}); '
                    'write_deltalake(at, rows, mode="append", storage_options=how); '
                    "print(DeltaTable(at, storage_options=how).to_pyarrow_table())"
                ),
                "Airflow's connection": add_connection(
                    "lake",
                    "aws",
                    login=key,
                    password=secret,
                    extra={"endpoint_url": server.endpoint, "region_name": options["AWS_REGION"]},
                ),
            },
        )


@contextmanager
def postgresql(folder: Path) -> Iterator[Shown]:
    from tests.servers.postgresql import (
        PASSWORD,
        USER,
        find_program,
        missing,
        running_postgresql,
    )

    if reason := missing("psycopg"):
        raise MissingError(f"{reason}: make install, or apt-get install postgresql")
    with running_postgresql() as server:
        address = f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{server.port}/postgres"
        yield Shown(
            {"PostgreSQL": f"127.0.0.1:{server.port}, database postgres, its changes can be read"},
            f"user {USER}, password {PASSWORD}",
            {
                "a query": shlex.join([str(find_program("psql")), address, "-c", "SELECT 1"]),
                "Airflow's connection": add_connection(
                    "sales",
                    "postgres",
                    host="127.0.0.1",
                    port=str(server.port),
                    login=USER,
                    password=PASSWORD,
                    schema="postgres",
                ),
            },
        )


@contextmanager
def redis(folder: Path) -> Iterator[Shown]:
    try:
        from tests.servers.redis import running_redis
    except ImportError as error:
        raise MissingError(f"{error}: make install") from error
    with running_redis(folder) as server:
        yield Shown(
            {"Redis": server.url},
            tries={
                "an entry of the stream orders": python(
                    f'import redis; r = redis.Redis.from_url("{server.url}"); '
                    'print(r.xadd("orders", {"amount": "12.5"}))'
                ),
            },
        )


@contextmanager
def iceberg(folder: Path) -> Iterator[Shown]:
    from tests.servers.iceberg_catalog import iceberg_catalog

    with iceberg_catalog(folder) as server:
        yield Shown(
            {"Iceberg's REST catalog": server.uri},
            tries={
                "its namespaces": python(
                    "from pyiceberg.catalog import load_catalog; "
                    f'print(load_catalog("play", type="rest", uri="{server.uri}")'
                    ".list_namespaces())"
                ),
            },
        )


@contextmanager
def registry(folder: Path) -> Iterator[Shown]:
    from tests.servers.apicurio import running_apicurio

    with running_apicurio(folder) as server:
        yield Shown(
            {"schema registry": server.url},
            tries={
                "its subjects": python(
                    "from urllib.request import urlopen; "
                    f'print(urlopen("{server.url}/subjects").read())'
                ),
            },
        )


@contextmanager
def mqtt(folder: Path) -> Iterator[Shown]:
    try:
        from tests.servers.mqtt import PASSWORD, USER, running_mqtt
    except ImportError as error:
        raise MissingError(f"{error}: make install") from error
    with running_mqtt(folder) as broker:
        port = broker.url_login.rpartition(":")[2]
        yield Shown(
            {
                "without login": broker.url,
                "with login": broker.url_login,
                f"TLS, certificate {broker.certificate}": broker.url_tls,
            },
            f"user {USER}, password {PASSWORD}",
            {
                "a message to the topic orders": python(
                    "from paho.mqtt.publish import single; "
                    f'single("orders", "12.5", qos=1, hostname="127.0.0.1", port={broker.port})'
                ),
                "Airflow's connection": add_connection(
                    "plant", "mqtt", host="127.0.0.1", port=port, login=USER, password=PASSWORD
                ),
            },
        )


SERVERS: Final[Mapping[str, Offer]] = {
    "Kafka": kafka,
    "S3": s3,
    "PostgreSQL": postgresql,
    "Redis": redis,
    "MQTT": mqtt,
    "Iceberg": iceberg,
    "Registry": registry,
}
