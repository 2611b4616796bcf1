"""Airflow's connections in specifications: what becomes of them, and where they never go."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_continuous.compat import AirflowFailException
from airflow_provider_continuous.connections.fields import Fields
from airflow_provider_continuous.connections.kinds import CONNECTORS, STORAGES
from airflow_provider_continuous.connections.lookup import find
from airflow_provider_continuous.decorators.continuous_query import continuous_query_task
from airflow_provider_continuous.hooks.query import ContinuousQueryHook
from airflow_provider_continuous.operators.checkpoint import RewindCheckpointOperator
from airflow_provider_continuous.operators.query import (
    RestartContinuousQueryOperator,
    StartContinuousQueryOperator,
    StopContinuousQueryOperator,
)
from airflow_provider_continuous.submission import Submission, SubmittedQuery
from engine import connection_options
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.storage.fsspec_storage import FsspecStorage
from engine.checkpoint.storage.opening import prove_create_if_absent
from engine.errors import ConfigError
from engine.query.connections import give
from engine.query.spec import load_spec
from engine.query.write_request import open_checkpoint, pop_storage
from tests.servers.s3 import S3, s3_server

SECRET = "c0rrect-${HOME}-h0rse"
KAFKA = {
    "bootstrap.servers": "broker:9092",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "me",
    "sasl.password": SECRET,
    "group.id": "orders",
    "auto.offset.reset": "earliest",
    "socket.timeout.ms": 5000,
    "socket.keepalive.enable": True,
}
AWS = {
    "conn_type": "aws",
    "login": "AKIA",
    "password": SECRET,
    "extra": {"region_name": "eu-central-1", "endpoint_url": "http://s3:9000"},
}


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def make(name: str, conn_type: str, **content: Any) -> None:
        said = json.dumps({"conn_type": conn_type, **content})
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", said)

    return make


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The specifications that were given to queries' processes."""
    found: list[dict[str, Any]] = []
    really_write = Submission.write_specification

    def write(submission: Submission, document: Any = None) -> Path:
        path = really_write(submission, document)
        found.append(json.loads(path.read_text()))
        return path

    monkeypatch.setattr(Submission, "write_specification", write)
    return found


@pytest.fixture
def kafka_spec(spec: dict[str, Any]) -> dict[str, Any]:
    source = {"format": "kafka", "connection": "kafka_main", "options": {"subscribe": "orders"}}
    return {**spec, "source": source}


def resolved(document: Any) -> dict[str, Any]:
    return ContinuousQueryHook()._for_the_query(document)


# -- where they go --------------------------------------------------------------------------------


def test_the_querys_process_alone_gets_what_they_say(
    kafka_spec: dict[str, Any],
    connection: Callable[..., None],
    written: list[dict[str, Any]],
    submitted: list[SubmittedQuery],
    context: Any,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    caplog.set_level(logging.DEBUG)
    connection("kafka_main", "kafka", extra=KAFKA)
    task = StartContinuousQueryOperator(task_id="start", spec=kafka_spec, wait_for=0)
    task.deferrable = False

    result = task.execute(context)

    (document,) = written
    read = load_spec(document, {"HOME": "/root"})
    assert read.source is not None
    assert read.source.options == {
        "kafka.bootstrap.servers": "broker:9092",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.username": "me",
        "kafka.sasl.password": SECRET,
        "kafka.group.id": "orders",
        "kafka.socket.timeout.ms": "5000",
        "kafka.socket.keepalive.enable": "true",
        "subscribe": "orders",
    }
    told = [json.dumps(result), json.dumps(context["task_state_store"]), caplog.text]
    told += [json.dumps(getattr(task, name), default=str) for name in task.template_fields]
    told += [" ".join(map(str, query.process.args)) for query in submitted]
    assert "of the connection 'kafka_main'" in caplog.text
    assert "h0rse" not in "".join(told)
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or b"h0rse" not in path.read_bytes(), path


def test_what_the_query_says_goes_first(
    kafka_spec: dict[str, Any], connection: Callable[..., None]
) -> None:
    connection("kafka_main", "kafka", extra=KAFKA)
    kafka_spec["source"]["options"]["Kafka.Bootstrap.Servers"] = "another:9092"

    options = resolved(kafka_spec)["source"]["options"]

    servers = {key: value for key, value in options.items() if key.lower().endswith("servers")}
    assert servers == {"Kafka.Bootstrap.Servers": "another:9092"}


def test_a_new_start_takes_the_new_password(
    kafka_spec: dict[str, Any],
    connection: Callable[..., None],
    written: list[dict[str, Any]],
    submitted: list[SubmittedQuery],
    context: Any,
) -> None:
    for password, kind in (("old", "kafka"), ("new", "generic")):
        connection("kafka_main", kind, extra={**KAFKA, "sasl.password": password})
        task = RestartContinuousQueryOperator(task_id="again", spec=kafka_spec, deferrable=False)
        context["task_state_store"].clear()
        task.execute(context)

    passwords = [each["source"]["options"]["kafka.sasl.password"] for each in written]
    assert passwords == ["old", "new"]


def test_an_operators_own_connections(
    spec: dict[str, Any],
    connection: Callable[..., None],
    written: list[dict[str, Any]],
    submitted: list[SubmittedQuery],
    context: Any,
) -> None:
    connection("kafka_main", "kafka", extra=KAFKA)
    connection("lake", **AWS)
    spec["source"] = {"format": "kafka", "options": {"subscribe": "orders"}, "connection": "none"}
    spec["sink"] = {"format": "delta", "options": {"path": "s3://lake/orders"}}
    task = StartContinuousQueryOperator(
        task_id="start",
        spec=spec,
        source_connection="kafka_main",
        sink_connection="lake",
        deferrable=False,
    )

    task.execute(context)

    (document,) = written
    assert document["source"]["options"]["kafka.sasl.username"] == "me"
    assert document["sink"]["options"]["storage.AWS_ACCESS_KEY_ID"] == "AKIA"


def test_a_function_gets_them_by_name(
    tmp_path: Path,
    connection: Callable[..., None],
    written: list[dict[str, Any]],
    submitted: list[SubmittedQuery],
    context: Any,
) -> None:
    connection("kafka_main", "kafka", extra=KAFKA)
    connection("lake", **AWS)

    @continuous_query_task(
        checkpoint_location=str(tmp_path / "checkpoint"),
        connections={"kafka_main": "kafka", "lake": "delta"},
        deferrable=False,
    )
    def orders(spark: Any) -> Any:
        raise AssertionError("it is not called here")

    orders().operator.execute(context)

    (document,) = written
    give(load_spec(document, {}).connections)
    assert connection_options("kafka_main")["kafka.sasl.password"] == SECRET
    assert connection_options("lake")["storage.AWS_REGION"] == "eu-central-1"
    with pytest.raises(ConfigError, match=r"connection 'other'.*\n?.*kafka_main, lake"):
        connection_options("other")


@pytest.mark.parametrize("named", ["inside", "apart"])
def test_the_checkpoints_storage(
    spec: dict[str, Any], connection: Callable[..., None], named: str
) -> None:
    connection("lake", **AWS)
    inside = "lake@" if named == "inside" else ""
    spec["checkpoint_location"] = f"s3://{inside}bucket/orders"
    hook = ContinuousQueryHook(storage_conn_id=None if inside else "lake")

    document = hook._for_the_query(spec)

    assert document["checkpoint_location"] == "s3://bucket/orders"
    assert load_spec(document, {}).checkpoint_storage == {
        "key": "AKIA",
        "secret": SECRET,
        "client_kwargs.region_name": "eu-central-1",
        "client_kwargs.endpoint_url": "http://s3:9000",
    }


@pytest.mark.parametrize("role", [False, True])
def test_a_store_is_opened_so(
    spec: dict[str, Any], connection: Callable[..., None], s3: S3, role: bool
) -> None:
    extra = {"region_name": "eu-central-1", "endpoint_url": s3.endpoint}
    if role:
        extra["role_arn"] = "arn:aws:iam::123456789012:role/lake"
    connection("lake", "aws", login="AKIA", password=SECRET, extra=extra)
    spec["checkpoint_location"] = f"s3://lake@{s3.bucket()}/orders"
    document = resolved(spec)
    options = {
        f"checkpointStorage.{key}": value
        for key, value in load_spec(document, {}).checkpoint_storage.items()
    }

    storage = open_checkpoint(document["checkpoint_location"], pop_storage(options)).storage

    prove_create_if_absent(storage)
    assert isinstance(storage, FsspecStorage)
    credentials = asyncio.run(storage._fs.session.get_credentials())
    assert getattr(credentials, "method", None) == ("assume-role" if role else None)
    assert storage._fs.key == (None if role else "AKIA")


def test_a_checkpoint_elsewhere_is_opened_as_the_machine_can(spec: dict[str, Any]) -> None:
    spec["checkpoint_location"] = "hdfs://some_conn@namenode/orders"
    assert "checkpoint_storage" not in resolved(spec)


# -- what they say --------------------------------------------------------------------------------

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
        ("kafka", {"conn_type": "kafka", "extra": "{bootstrap"}, "no JSON object"),
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
        ("redis", {"conn_type": "redis"}, "names no host"),
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


def test_the_engine_alone_knows_no_connections(kafka_spec: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"source.connection: 'kafka_main' is .* of Airflow"):
        load_spec(kafka_spec)


def test_every_reader_refuses_what_it_does_not_know(connection: Callable[..., None]) -> None:
    for kinds in (*CONNECTORS.values(), *STORAGES.values()):
        for conn_type in kinds:
            needed: dict[str, Any] = {
                "host": "here",
                "extra": {"bootstrap.servers": "here:9092", "no such": 1},
            }
            if conn_type not in ("postgres", "redis", "wasb", "adls"):
                del needed["host"]
            if conn_type == "postgres":
                needed["schema"] = "orders"
            connection("odd", conn_type, **needed)
            owner = Fields(find("odd", "this test"), "this test")
            with pytest.raises(ConfigError, match=r"no such"):
                kinds[conn_type](owner)


# -- rewinding ------------------------------------------------------------------------------------


def test_a_rewind_reaches_the_sink_by_its_connection(
    spec: dict[str, Any],
    connection: Callable[..., None],
    submitted: list[SubmittedQuery],
    context: Any,
) -> None:
    connection("lake", **AWS)
    location = spec["checkpoint_location"]
    spec["sink"] = {"format": "delta", "connection": "lake", "options": {"path": "s3://b/t"}}
    StartContinuousQueryOperator(task_id="start", spec=spec, wait_for=2, deferrable=False).execute(
        context
    )
    StopContinuousQueryOperator(
        task_id="stop", checkpoint_location=location, deferrable=False
    ).execute(context)
    recorded = Checkpoint(location)
    assert recorded.committed_epoch() >= 2
    connection("lake", "aws", login="half")
    again = {"checkpoint_location": location, "deferrable": False}
    context["task_state_store"].clear()

    with pytest.raises(AirflowFailException, match="only one of login"):
        RestartContinuousQueryOperator(task_id="again", spec=spec, from_epoch=1, **again).execute(
            context
        )
    with pytest.raises(AirflowFailException, match="only one of login"):
        RewindCheckpointOperator(
            task_id="back", checkpoint_location=location, to_epoch=1, sink=spec["sink"]
        ).execute(context)
