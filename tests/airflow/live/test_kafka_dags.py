"""Kafka, by a connection, in a real Airflow: the guide as a new user plays it, and the sensors."""

from __future__ import annotations

import io
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("confluent_kafka", reason="needs the extra kafka")
pytest.importorskip("deltalake", reason="needs the extra delta")

from airflow_provider_continuous.compat import AirflowFailException, TaskDeferred
from airflow_provider_continuous.sensors.health import QueryHealthSensor
from airflow_provider_continuous.sensors.offsets import OffsetsCommittedSensor
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.logs.commit_log import CommitEntry
from engine.checkpoint.logs.offset_log import OffsetEntry
from engine.errors import SourceError
from scripts.local_airflow.processes import AirflowProcesses
from scripts.local_airflow.rest import wait_for
from tests.airflow.live.dag_run import RUN_S, DagRun
from tests.airflow.live_checkpoint import LiveCheckpoint
from tests.airflow.pages import Page
from tests.connectors.kafka.topics import Topic
from tests.servers.jars import NoJarsError
from tests.servers.kafka import PASSWORD, USER, Kafka, running_kafka

pytestmark = pytest.mark.airflow
COMMAND_S = 300


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    try:
        with running_kafka(tmp_path_factory.mktemp("kafka") / "broker") as broker:
            yield broker
    except NoJarsError as exc:
        pytest.skip(f"no Kafka: {exc}")


@pytest.fixture
def connection(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes the connection ``kafka_here``, with a login."""

    def make(password: str = PASSWORD) -> None:
        extra = {
            "bootstrap.servers": kafka.bootstrap_sasl,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": USER,
            "sasl.password": password,
        }
        said = json.dumps({"conn_type": "kafka", "extra": extra})
        monkeypatch.setenv("AIRFLOW_CONN_KAFKA_HERE", said)

    make()
    return make


@pytest.fixture
def topic(kafka: Kafka) -> Topic:
    topic = Topic.new(kafka, partitions=2)
    topic.send(5)
    return topic


def source_of(topic: Topic) -> dict[str, Any]:
    return {"format": "kafka", "connection": "kafka_here", "options": {"subscribe": topic.name}}


def commit(live: LiveCheckpoint, epoch: int, offset: Any) -> None:
    assert live.checkpoint.offsets.add(epoch, OffsetEntry((offset,)))
    assert live.checkpoint.commits.add(epoch, CommitEntry())


def test_what_is_in_a_topic_is_awaited(
    live: LiveCheckpoint, connection: Callable[..., None], topic: Topic, context: Any
) -> None:
    live.hold()
    commit(live, 0, {topic.name: {"0": 5, "1": 4}})
    sensor = OffsetsCommittedSensor(
        task_id="wait",
        checkpoint_location=live.location,
        offsets="latest",
        source=source_of(topic),
    )
    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute(context)
    topic.send(1)  # too late for it

    trigger = deferred.value.trigger
    assert trigger.observe() is None
    assert PASSWORD not in json.dumps(trigger.serialize())
    commit(live, 1, {topic.name: {"0": 5, "1": 5}})

    event = trigger.observe()
    assert sensor.execute_complete(context, event)["epoch"] == 1


def test_how_far_a_query_is_behind(
    live: LiveCheckpoint, connection: Callable[..., None], topic: Topic, context: Any
) -> None:
    live.hold()
    commit(live, 0, {topic.name: {"0": 5, "1": 2}})
    sensor = QueryHealthSensor(
        task_id="wait", checkpoint_location=live.location, lag_max=3, source=source_of(topic)
    )
    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute(context)
    trigger = deferred.value.trigger
    topic.send(1)

    commit(live, 1, {topic.name: {"0": 5, "1": 2}})
    assert trigger.observe() is None
    commit(live, 2, {topic.name: {"0": 6, "1": 3}})

    assert sensor.execute_complete(context, trigger.observe())["lag"] == 3
    assert PASSWORD not in json.dumps(trigger.serialize())


def test_a_sensor_without_its_connection_fails_for_good(
    live: LiveCheckpoint, topic: Topic, context: Any
) -> None:
    sensor = OffsetsCommittedSensor(
        task_id="wait", checkpoint_location=live.location, offsets="latest", source=source_of(topic)
    )
    with pytest.raises(AirflowFailException, match="no connection 'kafka_here'"):
        sensor.execute(context)


def test_a_password_that_has_changed_is_looked_up_again(
    live: LiveCheckpoint, connection: Callable[..., None], topic: Topic
) -> None:
    from airflow_provider_continuous.observing.source_ends import SourceEnds

    connection("0ld-h0rse")
    ends = SourceEnds(source_of(topic))
    with pytest.raises(SourceError, match="Authentication"):
        ends.lag([])
    connection()
    assert ends.lag([]) == 10


# -- the guide ------------------------------------------------------------------------------------


@pytest.fixture
def guide(airflow_processes: AirflowProcesses, kafka: Kafka) -> Page:
    places = {
        "/data": str(airflow_processes.home.parent / "data"),
        "localhost:9092": kafka.bootstrap,
        "localhost:9093": kafka.bootstrap_sasl,
    }
    return Page("kafka-to-delta.md", places)


@pytest.fixture
def shell(airflow_processes: AirflowProcesses, tmp_path: Path) -> Callable[[str], str]:
    """Runs commands, with the Airflow of the tests; returns what they have said."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, module in {"airflow": "airflow", "continuous": "engine"}.items():
        command = folder / name
        command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m {module} "$@"\n')
        command.chmod(0o700)
    path = os.pathsep.join([str(folder), str(Path(sys.executable).parent), os.environ["PATH"]])

    def run(command: str) -> str:
        done = subprocess.run(
            ["sh", "-ec", command],
            cwd=tmp_path,
            env={**airflow_processes.environment(), "PATH": path},
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


def test_the_guide(
    airflow_processes: AirflowProcesses,
    guide: Page,
    shell: Callable[[str], str],
    tmp_path: Path,
) -> None:
    install, connect, records, trigger, status, drain = guide.commands()
    extras = install.partition("[")[2].partition("]")[0].split(",")
    project = (Path(__file__).parents[3] / "pyproject.toml").read_text()
    assert all(f"\n{extra} = [" in project for extra in extras)
    guide.write_files(tmp_path)
    (tmp_path / "connections.json").write_text(guide.json())
    shell(connect)
    shell(records)
    airflow, home = airflow_processes.client, airflow_processes.home

    def begun_run() -> str | None:
        states = ("running", "success", "failed")
        return next((run for state in states for run in airflow.runs("orders", state)), None)

    shell(trigger)
    run_id = wait_for(begun_run, RUN_S, "a run of orders")
    run = DagRun.of(airflow, "orders", run_id)
    expected = {"orders": 1000, "total": sum(number / 4 for number in range(1000))}
    assert run.succeeds().result("report") == expected
    assert run.result("keeps_up")["lag"] == 0
    assert "RUNNING" in shell(status)
    (program,) = guide.programs()
    with redirect_stdout(io.StringIO()) as printed:
        exec(program, {})
    assert "customer-6" in printed.getvalue()
    shell(drain)
    checkpoint = Checkpoint(str(home.parent / "data" / "checkpoints" / "orders"))
    assert checkpoint.status().state.is_over
    assert places_of(PASSWORD, home.parent) == []


def places_of(secret: str, folder: Path) -> list[str]:
    """The files with a secret in them. Airflow goes on, so files and folders may go meanwhile."""
    found = []
    for inside, _, names in os.walk(folder):
        for path in (Path(inside, name) for name in names):
            with suppress(FileNotFoundError):
                if path.is_file() and secret.encode() in path.read_bytes():
                    found.append(str(path))
    return found


def test_a_trigger_uses_a_connection(
    airflow_processes: AirflowProcesses,
    shell: Callable[[str], str],
    live: LiveCheckpoint,
    kafka: Kafka,
    topic: Topic,
) -> None:
    extra = {"bootstrap.servers": kafka.bootstrap}
    said = json.dumps({"conn_type": "kafka", "extra": extra})
    shell(f"airflow connections add kafka_plain --conn-json {shlex.quote(said)}")
    live.hold()
    commit(live, 0, {topic.name: {"0": 0, "1": 0}})
    run = DagRun(
        airflow_processes.client,
        "keep_up_without_a_worker",
        checkpoint=live.location,
        topic=topic.name,
    )
    client = airflow_processes.client

    def has_looked() -> bool:
        return "the connection 'kafka_plain'" in client.log(run.dag_id, run.run_id, "keeps_up")

    wait_for(has_looked, RUN_S, "a look of the trigger")
    commit(live, 1, topic.offset)

    assert run.succeeds().result("keeps_up")["lag"] == 0
