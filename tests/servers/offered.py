"""The servers that ``make servers`` starts: a line each. Whoever adds a server adds one.

A server is a context manager of a folder of its own; it gives :class:`Shown`.
"""

from __future__ import annotations

import json
import os
import shlex
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

POSTGRESQL_PORT: Final = 5432


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


class MissingError(Exception):
    """It cannot be had here; says why, and which command provides it."""


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
        from tests.servers.jars import NoJarsError
        from tests.servers.kafka import PASSWORD, USER, running_kafka
    except ImportError as error:
        raise MissingError(f"{error}: make install") from error
    try:
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
    except NoJarsError as error:
        raise MissingError(f"{error}; it needs Java 17 and a Maven repository") from error


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
    from tests.postgresql import PostgreSQL, find_program, missing

    if reason := missing():
        raise MissingError(f"{reason}: make install, or apt-get install postgresql")
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", POSTGRESQL_PORT)) == 0:
            raise MissingError(f"port {POSTGRESQL_PORT} is taken by another program")
    user, password, name = "me", "c0rrect-h0rse", "orders"
    made = {"POSTGRES_USER": user, "POSTGRES_PASSWORD": password, "POSTGRES_DB": name}
    database, server = PostgreSQL(made), None
    words = ["-c", "listen_addresses=127.0.0.1", "-c", "wal_level=logical"]
    try:
        server = database.start(["postgres", *words])
        address = f"postgresql://{user}:{password}@127.0.0.1/{name}"
        ask = [str(find_program("psql")), address, "-c", "SELECT version()"]
        yield Shown(
            {"PostgreSQL": f"127.0.0.1:{POSTGRESQL_PORT}, database {name}"},
            f"user {user}, password {password}",
            {
                "a query": shlex.join(ask),
                "Airflow's connection": add_connection(
                    "sales",
                    "postgres",
                    host="127.0.0.1",
                    login=user,
                    password=password,
                    schema=name,
                ),
            },
        )
    finally:
        if server is not None:
            server.terminate()
            server.wait()
        database.remove()


SERVERS: Final[Mapping[str, Offer]] = {"Kafka": kafka, "S3": s3, "PostgreSQL": postgresql}
