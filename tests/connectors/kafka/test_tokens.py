"""Brokers that want a token: OAUTHBEARER by client credentials, for the source and for both
deliveries of the sink."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.errors import ConfigError, SinkUnavailableError
from engine.sinks.kafka import brokers
from tests.connectors.kafka.queries import Kept, drained, start
from tests.connectors.kafka.sinks import batches, exactly_once, task, values
from tests.connectors.kafka.topics import Topic
from tests.servers.kafka import Kafka
from tests.servers.tokens import CLIENT, SECRET

LOGIN = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


@pytest.fixture
def login(broker: Kafka) -> Iterator[dict[str, str]]:
    """Options as Java's client takes them, ``__`` for a dot."""
    with broker.tokens.serving() as url:
        yield {
            "kafka__bootstrap__servers": broker.bootstrap_oauth,
            "kafka__security__protocol": "SASL_PLAINTEXT",
            "kafka__sasl__mechanism": "OAUTHBEARER",
            "kafka__sasl__oauthbearer__token__endpoint__url": url,
            "kafka__sasl__jaas__config": f'{LOGIN} required clientId="{CLIENT}" '
            f'clientSecret="{SECRET}";',
        }


def of_the_sink(login: dict[str, str]) -> dict[str, str]:
    return {name.replace("__", "_"): text for name, text in login.items()}


def test_a_source_logs_in_with_a_token(topic: Topic, tmp_path: Path, login: dict[str, str]) -> None:
    topic.send(5)
    sink = Kept()
    query = start(topic, tmp_path / "checkpoint", sink, **login)
    sink.await_all(topic)
    drained(query)
    kept = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert kept
    assert not any(SECRET.encode() in content for content in kept)


def test_exactly_once_logs_in_with_tokens(
    broker: Kafka, topic: Topic, login: dict[str, str]
) -> None:
    """The driver's, which is kept until it is old, and the producers'."""
    made = exactly_once(broker, topic.name, **of_the_sink(login))
    made.validate()
    made.fenceTasks()
    one = task(made, topic.name)
    for epoch, value in enumerate("ab"):
        made.commit([one.write(epoch, batches(value))], epoch)
        one.committed(epoch)
        made._transactions._tokens.good_until_s = 0.0  # it is old by now
    one.close()
    assert values(broker, topic.name) == ["a", "b"]


def test_a_secret_that_is_refused_is_told_and_not_shown(
    broker: Kafka,
    topic: Topic,
    login: dict[str, str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(brokers, "ASK_S", 8.0)
    text = login["kafka__sasl__jaas__config"].replace(SECRET, "hunter2-hunter2")
    made = exactly_once(
        broker, topic.name, **of_the_sink({**login, "kafka__sasl__jaas__config": text})
    )
    with pytest.raises(ConfigError, match="token") as at_start:
        made.validate()
    with pytest.raises(SinkUnavailableError, match="No token for Kafka") as later:
        made.fenceTasks()
    assert "hunter2" not in f"{at_start.value} {later.value} {caplog.text}"
