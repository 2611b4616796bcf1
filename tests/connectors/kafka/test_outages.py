"""Brokers that are away: for a moment, for long, for ever, or that refuse the user."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from engine.errors import SourceUnavailableError
from engine.sources.kafka import reader as reader_module
from engine.sources.kafka import topics as topics_module
from engine.sources.latest import latest_offset
from tests.connectors.kafka.queries import Kept, committed, drained, given, reader_of, start
from tests.connectors.kafka.topics import Topic
from tests.model import HOUR_MS, ONE_ATTEMPT
from tests.servers.kafka import PASSWORD, USER, Kafka
from tests.servers.process import free_ports
from tests.waiting import wait_until

PATIENT = replace(ONE_ATTEMPT, retry_source_for_ms=HOUR_MS)
NO_ANSWER = "the query goes on without an answer, for now"
LOGIN = {
    "kafka__security__protocol": "SASL_PLAINTEXT",
    "kafka__sasl__mechanism": "PLAIN",
}


@pytest.fixture(autouse=True)
def _quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_module, "LOOK_S", 0.05)


@contextmanager
def impatient(monkeypatch: pytest.MonkeyPatch, away_s: float = 1.0) -> Iterator[None]:
    """What takes longer than this is an outage, in place of half a minute: while the brokers are
    away, and no longer, for those that are busy may take as long."""
    with monkeypatch.context() as patched:
        patched.setattr(topics_module, "TRIES_S", (0.3, 0.5))
        patched.setattr(topics_module, "AWAY_S", away_s)
        yield


@pytest.fixture
def quick_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those that are not there."""
    monkeypatch.setattr(topics_module, "TRIES_S", (0.3, 2.5))


def suspend(broker: Kafka) -> Callable[[], None]:
    broker.process.suspend()
    return broker.process.resume


def kill(broker: Kafka) -> Callable[[], None]:
    broker.process.kill()
    return broker.start


@pytest.mark.parametrize("strike", [suspend, kill])
def test_brokers_that_are_away_for_a_moment_end_nothing(
    broker: Kafka,
    topic: Topic,
    tmp_path: Path,
    strike: Callable[[Kafka], Callable[[], None]],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sink, as_long_as_it_takes_s = Kept(), 3_600.0
    topic.send(5)
    query = start(topic, tmp_path, sink)
    sink.await_all(topic)
    monkeypatch.setattr(topics_module, "AWAY_S", as_long_as_it_takes_s)  # to start a broker
    with impatient(monkeypatch, as_long_as_it_takes_s):
        come_back = strike(broker)
        wait_until(lambda: NO_ANSWER in caplog.text, "its absence is noticed")
    come_back()
    topic.send(5)
    sink.await_all(topic, seconds=60)
    wait_until(lambda: "is back" in caplog.text, "its return is noticed")
    assert query.status["restarts"] == 0
    drained(query)
    assert committed(tmp_path) == topic.offset


@pytest.mark.parametrize("strike", [suspend, kill])
def test_an_outage_is_borne_and_told(
    broker: Kafka,
    topic: Topic,
    tmp_path: Path,
    strike: Callable[[Kafka], Callable[[], None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sink = Kept()
    topic.send(5)
    query = start(topic, tmp_path, sink, PATIENT)
    sink.await_all(topic)
    with impatient(monkeypatch):
        come_back = strike(broker)
        wait_until(lambda: query.status["restarts"] >= 2, "it was restarted, and again", 60)
    assert f"Kafka at {broker.bootstrap}: cannot" in str(query.status["last_error"])
    assert query.status["failing_since_ms"] is not None
    come_back()
    topic.send(5)
    sink.await_all(topic, seconds=60)
    query.processAllAvailable()
    drained(query)
    assert committed(tmp_path) == topic.offset


def test_a_task_that_does_not_reach_the_brokers_says_so(
    broker: Kafka, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its machine may not, while the driver does."""
    topic.send(1)
    driver = reader_of(topic, kafka__socket__timeout__ms="1000")
    partitions = driver.partitions(driver.initialOffset())
    come_back = suspend(broker)
    reader = driver.openTogether(partitions)
    assert reader is not None
    with impatient(monkeypatch), pytest.raises(SourceUnavailableError) as error:
        wait_until(lambda: [reader.read(0.1)] == [], "it gives up")
    come_back()
    assert f"Kafka at {broker.bootstrap}: nothing is heard of {topic.name}-0" in str(error.value)
    reader.close()
    driver.stop()


# -- from the beginning ---------------------------------------------------------------------------


@pytest.mark.usefixtures("quick_tries")
def test_a_port_that_nobody_listens_on(topic: Topic) -> None:
    (port,) = free_ports(1)
    options = given(topic) | {"kafka.bootstrap.servers": f"127.0.0.1:{port}"}
    with pytest.raises(SourceUnavailableError) as error:
        latest_offset({"format": "kafka", "options": options})
    assert f"Kafka at 127.0.0.1:{port}: cannot tell its topics" in str(error.value)
    assert "Connection refused" in str(error.value)


@pytest.mark.usefixtures("quick_tries")
def test_a_host_that_nobody_knows(topic: Topic) -> None:
    options = given(topic) | {"kafka.bootstrap.servers": "no-such-host.invalid:9092"}
    with pytest.raises(SourceUnavailableError) as error:
        latest_offset({"format": "kafka", "options": options})
    assert "Failed to resolve 'no-such-host.invalid:9092'" in str(error.value)
    assert "kafka.bootstrap.servers names the brokers" in str(error.value)


def test_a_wrong_password_is_told_before_anything_runs(
    broker: Kafka, topic: Topic, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    wrong = f"{PASSWORD}-not"
    options = {
        **LOGIN, "kafka__bootstrap__servers": broker.bootstrap_sasl,
        "kafka__sasl__username": USER, "kafka__sasl__password": wrong,
    }  # fmt: skip
    with pytest.raises(SourceUnavailableError) as error:
        start(topic, tmp_path, Kept(), **options)
    assert "Authentication failed" in str(error.value)
    assert "the user are those that they want" in str(error.value)
    assert wrong not in str(error.value) + caplog.text


def test_a_user_logs_in_as_in_java(broker: Kafka, topic: Topic, tmp_path: Path) -> None:
    sink = Kept()
    topic.send(5)
    options = {
        **LOGIN, "kafka__bootstrap__servers": broker.bootstrap_sasl,
        "kafka__sasl__jaas__config": "org.apache.kafka.common.security.plain.PlainLoginModule "
        f'required username="{USER}" password="{PASSWORD}";',
    }  # fmt: skip
    query = start(topic, tmp_path, sink, **options)
    sink.await_all(topic)
    drained(query)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if PASSWORD.encode() in path.read_bytes()]


def test_a_broker_shows_its_certificate(broker: Kafka, topic: Topic, tmp_path: Path) -> None:
    """With Java's settings."""
    options = {
        "kafka__bootstrap__servers": broker.bootstrap_tls,
        "kafka__security__protocol": "SSL",
    }
    with pytest.raises(SourceUnavailableError) as error:
        start(topic, tmp_path, Kept(), **options)
    assert "certificate verify failed" in str(error.value)
    trust = {
        "kafka__ssl__truststore__type": "PEM",
        "kafka__ssl__truststore__location": str(broker.certificate),
        "kafka__ssl__endpoint__identification__algorithm": "HTTPS",
    }
    assert latest_offset({"format": "kafka", "options": given(topic, **options, **trust)})
