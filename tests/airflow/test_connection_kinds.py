"""Airflow's connections in specifications: what each type means, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from airflow_provider_continuous.compat import RELEASE, AirflowFailException
from airflow_provider_continuous.connections.fields import Fields
from airflow_provider_continuous.connections.kinds import CONNECTORS, STORAGES
from airflow_provider_continuous.connections.lookup import find
from airflow_provider_continuous.deploy.submitted import SubmittedQuery
from airflow_provider_continuous.hooks.query import ContinuousQueryHook
from airflow_provider_continuous.operators.query import StartContinuousQueryOperator
from engine.errors import ConfigError
from engine.query.spec import load_spec
from tests.airflow.said_connections import AWS, KAFKA, SECRET, resolved

GOOGLE_KEY = {"type": "service_account", "private_key": "-----BEGIN PRIVATE KEY-----"}


@pytest.mark.parametrize(
    ("content", "options"),
    [
        (
            {
                "conn_type": "aws",
                "extra": {
                    "role_arn": "arn:aws:iam::1:role/lake",
                    "assume_role_kwargs": {"RoleSessionName": "orders"},
                    "service_config": {"s3": {"endpoint_url": "https://s3", "bucket_name": "b"}},
                    "verify": False,
                },
            },
            {
                "storage.AWS_IAM_ROLE_ARN": "arn:aws:iam::1:role/lake",
                "storage.AWS_IAM_ROLE_SESSION_NAME": "orders",
                "storage.AWS_ENDPOINT_URL": "https://s3",
                "storage.AWS_FORCE_CREDENTIAL_LOAD": "true",
                "storage.AWS_ALLOW_INVALID_CERTIFICATES": "true",
            },
        ),
        ({"conn_type": "aws"}, {}),
        (
            {"conn_type": "google_cloud_platform", "extra": {"keyfile_dict": GOOGLE_KEY}},
            {"storage.google_service_account_key": json.dumps(GOOGLE_KEY)},
        ),
        (
            {"conn_type": "google_cloud_platform", "extra": {"key_path": "/key.json"}},
            {"storage.google_service_account": "/key.json"},
        ),
        (
            {"conn_type": "wasb", "login": "lake", "password": SECRET},
            {
                "storage.azure_storage_account_name": "lake",
                "storage.azure_storage_account_key": SECRET,
            },
        ),
        (
            {
                "conn_type": "adls",
                "host": "https://lake.blob.core.windows.net",
                "login": "id",
                "password": SECRET,
                "extra": {"tenant_id": "t"},
            },
            {
                "storage.azure_storage_account_name": "lake",
                "storage.azure_storage_tenant_id": "t",
                "storage.azure_storage_client_id": "id",
                "storage.azure_storage_client_secret": SECRET,
            },
        ),
    ],
)
def test_to_delta(
    spec: dict[str, Any],
    connection: Callable[..., None],
    content: dict[str, Any],
    options: dict[str, str],
) -> None:
    connection("lake", **content)
    spec["sink"] = {"format": "delta", "connection": "lake", "options": {"path": "s3://b/t"}}

    assert load_spec(resolved(spec)).sink.options == {"path": "s3://b/t", **options}  # type: ignore[union-attr]


@pytest.mark.parametrize("format_", ["continuous_delta", "continuous_iceberg"])
def test_from_tables_of_lakes(
    spec: dict[str, Any], connection: Callable[..., None], format_: str
) -> None:
    connection("lake", **AWS)
    spec["source"] = {"format": format_, "connection": "lake", "options": {}}

    said = load_spec(resolved(spec)).source.options  # type: ignore[union-attr]

    prefix = "storage." if format_ == "continuous_delta" else "catalog.s3."
    assert said
    assert all(name.startswith(prefix) for name in said)


def test_to_files(spec: dict[str, Any], connection: Callable[..., None]) -> None:
    connection("lake", "aws", login="AKIA", password=SECRET, extra={"endpoint_url": "http://s3"})
    spec["sink"] = {"format": "parquet", "connection": "lake", "options": {"path": "s3a://b/t"}}

    assert load_spec(resolved(spec)).sink.options == {  # type: ignore[union-attr]
        "path": "s3a://b/t",
        "storage.key": "AKIA",
        "storage.secret": SECRET,
        "storage.client_kwargs.endpoint_url": "http://s3",
    }


@pytest.mark.parametrize(
    ("format_", "content", "options"),
    [
        (
            "postgres",
            {
                "conn_type": "postgres",
                "host": "db",
                "port": 5433,
                "schema": "sales/eu",
                "login": "me",
                "password": SECRET,
                "extra": {"sslmode": "verify-full", "connect_timeout": 5},
            },
            {
                "url": "postgresql://db:5433/sales%2Feu",
                "user": "me",
                "password": SECRET,
                "libpq.sslmode": "verify-full",
                "libpq.connect_timeout": "5",
            },
        ),
        (
            "sqlalchemy",
            {
                "conn_type": "postgres",
                "host": "db",
                "schema": "sales/eu",
                "login": "m@e",
                "password": f"{SECRET}/@",
                "extra": {"sslmode": "verify-full"},
            },
            {
                "url": f"postgresql+psycopg://m%40e:{quote(SECRET)}%2F%40@db:5432/sales%2Feu"
                "?sslmode=verify-full"
            },
        ),
        (
            "sqlalchemy",
            {
                "conn_type": "mysql",
                "host": "db",
                "schema": "shop",
                "password": SECRET,
                "login": "me",
                "extra": {"client": "pymysql", "charset": "utf8mb4"},
            },
            {"url": f"mysql+pymysql://me:{quote(SECRET)}@db:3306/shop?charset=utf8mb4"},
        ),
        (
            "sqlalchemy",
            {"conn_type": "sqlite", "host": "/data/shop.db"},
            {"url": "sqlite:////data/shop.db"},
        ),
        (
            "sqlalchemy",
            {"conn_type": "generic", "extra": {"url": f"duckdb://me:{SECRET}@/d"}},
            {"url": f"duckdb://me:{SECRET}@/d"},
        ),
        (
            "redis",
            {
                "conn_type": "redis",
                "host": "::1",
                "password": SECRET,
                "extra": {"db": 2, "ssl": True, "ssl_ca_certs": "/ca.pem"},
            },
            {"url": "rediss://[::1]:6379/2?ssl_ca_certs=%2Fca.pem", "password": SECRET},
        ),
        (
            "redis",
            {"conn_type": "redis", "host": "h", "extra": {"ssl": "True"}},
            {"url": "rediss://h:6379/0"},
        ),
        (
            "mqtt",
            {"conn_type": "mqtt", "host": "h", "extra": {"tls": 0}},
            {"url": "mqtt://h:1883"},
        ),
        (
            "mqtt",
            {
                "conn_type": "mqtt",
                "host": "broker",
                "login": "me",
                "password": SECRET,
                "extra": {"tls": True, "caFile": "/ca.pem"},
            },
            {
                "url": "mqtts://broker:8883",
                "username": "me",
                "password": SECRET,
                "caFile": "/ca.pem",
            },
        ),
        (
            "mqtt",
            {"conn_type": "generic", "host": "broker", "port": 1884},
            {"url": "mqtt://broker:1884"},
        ),
        (
            "http",
            {
                "conn_type": "http",
                "host": "hooks.example",
                "schema": "https",
                "port": 8443,
                "login": "me",
                "password": "it",
                "extra": {"X-Api-Key": SECRET},
            },
            {
                "url": "https://hooks.example:8443",
                "header.Authorization": "Basic bWU6aXQ=",
                "header.X-Api-Key": SECRET,
            },
        ),
        (
            "http",
            {"conn_type": "http", "host": "https://hooks.example/in"},
            {"url": "https://hooks.example/in"},
        ),
        (
            "iceberg",
            AWS,
            {
                "catalog.s3.access-key-id": "AKIA",
                "catalog.s3.secret-access-key": SECRET,
                "catalog.s3.region": "eu-central-1",
                "catalog.s3.endpoint": "http://s3:9000",
            },
        ),
    ],
)
def test_to_others(
    spec: dict[str, Any],
    connection: Callable[..., None],
    format_: str,
    content: dict[str, Any],
    options: dict[str, str],
) -> None:
    connection("it", **content)
    spec["sink"] = {"format": format_, "connection": "it"}

    assert load_spec(resolved(spec), {}).sink.options == options  # type: ignore[union-attr]


def test_a_google_key_opens_a_checkpoint(
    spec: dict[str, Any], connection: Callable[..., None]
) -> None:
    connection("lake", "google_cloud_platform", extra={"keyfile_dict": json.dumps(GOOGLE_KEY)})
    spec["checkpoint_location"] = "gs://lake@bucket/orders"

    assert resolved(spec)["checkpoint_storage"] == {
        f"token.{key}": value for key, value in GOOGLE_KEY.items()
    }


def test_a_generic_connection_has_any_connectors_options(
    spec: dict[str, Any], connection: Callable[..., None]
) -> None:
    connection("sky", "generic", extra={"region": "EU", "apiKey": SECRET})
    spec["source"] = {"format": "opensky", "connection": "sky", "options": {"region": "US"}}

    assert resolved(spec)["source"]["options"] == {
        "region": "US",
        "apiKey": "c0rrect-$${HOME}-h0rse",
    }


def test_single_values_of_any_connection(
    spec: dict[str, Any], connection: Callable[..., None]
) -> None:
    connection("sky", "http", host="sky.example", password=SECRET, extra={"tier": "free"})
    places = {"address": "host", "accessToken": "password", "tier": "extra.tier"}
    spec["source"] = {"format": "opensky", "connection": {"id": "sky", "options": places}}

    options = load_spec(resolved(spec), {}).source.options  # type: ignore[union-attr]

    assert options == {"address": "sky.example", "accessToken": SECRET, "tier": "free"}


# -- what is wrong with them ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("format_", "content", "why"),
    [
        ("kafka", None, "There is no connection 'it', which source kafka names"),
        ("kafka", {"conn_type": "aws"}, r"\(aws\) is none of the types .* kafka"),
        ("kafka", {"conn_type": "kafka"}, "no bootstrap.servers"),
        (
            "kafka",
            {"conn_type": "kafka", "extra": {**KAFKA, "sasl.passwort": "x"}},
            'No such configuration property: "sasl.passwort"',
        ),
        (
            "kafka",
            {"conn_type": "kafka", "extra": {**KAFKA, "security.protocol": "TLS"}},
            "security.protocol",
        ),
        (
            "kafka",
            {"conn_type": "kafka", "extra": {**KAFKA, "error_cb": "my.function"}},
            "error_cb, a function",
        ),
        ("kafka", {"conn_type": "kafka", "extra": {**KAFKA, "a": {"b": 1}}}, r"extra\.a what is"),
        ("kafka", {"conn_type": "kafka", "extra": KAFKA, "host": "broker"}, "has host, which"),
        (
            "kafka",
            {"conn_type": "kafka", "extra": "{bootstrap"},
            # Before 3.2 Airflow itself leaves such a connection out.
            "no JSON object" if RELEASE >= (3, 2) else "There is no connection",
        ),
        ("kafka", {"conn_type": "generic", "login": "me", "extra": KAFKA}, "has login, which"),
        ("delta", {"conn_type": "kafka", "extra": KAFKA}, r"\(kafka\) is none of .* delta"),
        ("delta", {"conn_type": "generic"}, r"\(generic\) is none of .* delta"),
        ("delta", {"conn_type": "aws", "login": "AKIA"}, "only one of login"),
        ("delta", {**AWS, "extra": {"role_arn": "arn:aws:iam::1:role/lake"}}, "keys and a role"),
        (
            "delta",
            {"conn_type": "aws", "extra": {"role_arn": "a", "endpoint_url": "http://aws"}},
            "endpoint of STS",
        ),
        ("delta", {"conn_type": "aws", "extra": {"profile_name": "x"}}, r"extra\.profile_name"),
        ("delta", {"conn_type": "aws", "extra": {"assume_role_method": "saml"}}, "assume_role_m"),
        (
            "delta",
            {"conn_type": "aws", "extra": {"assume_role_kwargs": {"ExternalId": "x"}}},
            r"assume_role_kwargs\.ExternalId",
        ),
        (
            "delta",
            {"conn_type": "google_cloud_platform", "extra": {"keyfile_dict": "{"}},
            "keyfile_dict what is no JSON object",
        ),
        ("delta", {"conn_type": "wasb", "password": SECRET}, "names no account"),
        ("postgres", {"conn_type": "postgres", "host": "db"}, "names no database"),
        ("sqlalchemy", {"conn_type": "mysql", "host": "db"}, "names no database"),
        ("sqlalchemy", {"conn_type": "sqlite"}, "names no file"),
        ("sqlalchemy", {"conn_type": "mysql", "extra": {"client": "x"}}, "extra.client 'x'"),
        ("redis", {"conn_type": "redis"}, "names no host"),
        ("mqtt", {"conn_type": "mqtt"}, "names no host"),
        ("redis", {"conn_type": "redis", "host": "h", "extra": {"ssl": "yes"}}, "extra.ssl 'yes'"),
        ("mqtt", {"conn_type": "mqtt", "host": "h", "extra": {"tls": "on"}}, "extra.tls 'on'"),
        ("http", {"conn_type": "http"}, "names no host"),
        ("http", {"conn_type": "http", "extra": {"verify": False}}, r"extra\.verify"),
        ("rate", {"conn_type": "http", "host": "x"}, r"\(http\) is none of the types"),
        ("rate", {"conn_type": "generic", "login": "x"}, "has login, which source rate"),
    ],
)
def test_what_cannot_be_used_is_told_before_anything_starts(
    spec: dict[str, Any],
    connection: Callable[..., None],
    submitted: list[SubmittedQuery],
    context: Any,
    format_: str,
    content: dict[str, Any] | None,
    why: str,
) -> None:
    if content is not None:
        connection("it", **content)
    spec["source"] = {"format": format_, "connection": "it", "options": {"subscribe": "orders"}}

    with pytest.raises(AirflowFailException, match=why) as caught:
        StartContinuousQueryOperator(task_id="start", spec=spec).execute(context)

    assert "h0rse" not in str(caught.value)
    assert submitted == []


@pytest.mark.parametrize(
    ("named", "why"),
    [
        (7, "neither a name nor"),
        ({"id": "it"}, "neither a name nor"),
        ({"id": "it", "options": {"a": "pass"}}, "asks for 'pass'"),
        ({"id": "it", "options": {"a": "login"}}, "has no login"),
        ({"id": "it", "options": {"pin": "password"}}, "no secret's name"),
    ],
)
def test_names_that_are_none(
    spec: dict[str, Any], connection: Callable[..., None], named: Any, why: str
) -> None:
    connection("it", "http", password=SECRET)
    spec["source"]["connection"] = named

    with pytest.raises(ConfigError, match=why):
        ContinuousQueryHook().specification(spec)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "no connection 'lake'"),
        ({"conn_type": "kafka"}, "none of the types .* aws"),
        ({"conn_type": "aws", "extra": {"profile_name": "x"}}, r"extra\.profile_name"),
    ],
)
def test_a_checkpoint_that_cannot_be_opened_so(
    spec: dict[str, Any],
    connection: Callable[..., None],
    content: dict[str, Any] | None,
    why: str,
) -> None:
    if content is not None:
        connection("lake", **content)
    spec["checkpoint_location"] = "s3://lake@bucket/orders"

    with pytest.raises(ConfigError, match=why):
        ContinuousQueryHook().specification(spec)


def test_a_function_reads_its_source_itself(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the argument connections"):
        ContinuousQueryHook().specification(
            {}, query="a:b", checkpoint_location=str(tmp_path), source_connection="kafka_main"
        )


def test_the_engine_alone_knows_no_connections(spec: dict[str, Any]) -> None:
    spec["source"]["connection"] = "kafka_main"
    with pytest.raises(ConfigError, match=r"source.connection: 'kafka_main' is .* of Airflow"):
        load_spec(spec)


def test_every_reader_refuses_what_it_does_not_know(connection: Callable[..., None]) -> None:
    for kinds in (*CONNECTORS.values(), *STORAGES.values()):
        for conn_type in kinds:
            needed: dict[str, Any] = {
                "host": "here",
                "extra": {"bootstrap.servers": "here:9092", "no such": 1},
            }
            if conn_type not in ("postgres", "mysql", "sqlite", "redis", "mqtt", "wasb", "adls"):
                del needed["host"]
            if conn_type in ("postgres", "mysql"):
                needed["schema"] = "orders"
            connection("odd", conn_type, **needed)
            owner = Fields(find("odd", "this test"), "this test")
            if conn_type in ("http", "generic"):
                continue  # all of its extra are headers, or options
            with pytest.raises(ConfigError, match=r"no such"):
                kinds[conn_type](owner)
