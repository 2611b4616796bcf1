"""Airflow's connections in specifications: where what they say goes, and where it never does."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_continuous.compat import AirflowFailException
from airflow_provider_continuous.decorators.continuous_query import continuous_query_task
from airflow_provider_continuous.deploy.submission import Submission
from airflow_provider_continuous.deploy.submitted import SubmittedQuery
from airflow_provider_continuous.errors import QueryFailedError
from airflow_provider_continuous.hooks.query import ContinuousQueryHook
from airflow_provider_continuous.operators.checkpoint import RewindCheckpointOperator
from airflow_provider_continuous.operators.query import (
    RestartContinuousQueryOperator,
    RunContinuousQueryOperator,
    StartContinuousQueryOperator,
    StopContinuousQueryOperator,
)
from engine import connection_options
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.storage.fsspec_storage import FsspecStorage
from engine.checkpoint.storage.opening import prove_create_if_absent
from engine.errors import ConfigError
from engine.query.connections import give
from engine.query.spec import load_spec
from engine.query.write_request import open_checkpoint, pop_storage
from tests.airflow.said_connections import AWS, KAFKA, SECRET, resolved
from tests.servers.s3 import S3


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


def test_queries_log_as_the_configuration_says(
    spec: dict[str, Any],
    written: list[dict[str, Any]],
    submitted: list[SubmittedQuery],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hook = ContinuousQueryHook()
    for asked, own in (("text", {}), ("json", {}), ("json", {"log_format": "text"})):
        monkeypatch.setenv("AIRFLOW__CONTINUOUS__LOG_FORMAT", asked)
        document = hook.specification(
            {**spec, **own, "checkpoint_location": f"{spec['checkpoint_location']}{len(written)}"}
        )
        submitted.append(hook.submit(document))
    assert [each.get("log_format") for each in written] == [None, "json", "text"]
    monkeypatch.setenv("AIRFLOW__CONTINUOUS__LOG_FORMAT", "xml")
    with pytest.raises(ConfigError, match=r"\[continuous\] log_format is 'xml'"):
        hook.submit(
            hook.specification({**spec, "checkpoint_location": f"{spec['checkpoint_location']}9"})
        )


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
    for query in submitted:  # they replace their files all the time
        query.process.terminate()
        query.process.wait()
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


def test_so_does_a_query_that_has_died(
    spec: dict[str, Any],
    connection: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    submitted: list[SubmittedQuery],
    context: Any,
) -> None:
    taken: list[str] = []
    really_write = Submission.write_specification

    def write(submission: Submission, document: Any = None) -> Path:
        taken.append(submission.document["source"]["options"]["kafka.sasl.password"])
        connection("kafka_main", "kafka", extra={**KAFKA, "sasl.password": "new"})
        return really_write(submission, document)

    monkeypatch.setattr(Submission, "write_specification", write)
    connection("kafka_main", "kafka", extra={**KAFKA, "sasl.password": "old"})
    spec["source"] = {"format": "kafka", "connection": "kafka_main"}
    spec["conf"] = {"stand_in": "fail"}
    task = RunContinuousQueryOperator(
        task_id="run", spec=spec, restarts=1, restart_delay=0.0, deferrable=False
    )

    with pytest.raises(QueryFailedError, match="the sink is full"):
        task.execute(context)

    assert taken == ["old", "new"]


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


# -- lineage --------------------------------------------------------------------------------------


@pytest.mark.parametrize("known", [True, False])
def test_lineage_names_the_brokers_of_a_connection(
    kafka_spec: dict[str, Any], connection: Callable[..., None], known: bool
) -> None:
    if known:
        connection("kafka_main", "kafka", extra=KAFKA)
    task = StartContinuousQueryOperator(task_id="start", spec=kafka_spec)

    inputs = [(each.namespace, each.name) for each in task.lineage().inputs]

    assert inputs == ([("kafka://broker:9092", "orders")] if known else [])


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
