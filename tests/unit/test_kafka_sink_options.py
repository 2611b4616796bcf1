"""The options of the Kafka sink: what is refused, and what is said of those without effect."""

from __future__ import annotations

import logging
import re
import shutil
import ssl
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from engine.clients.kafka_tls import trusting
from engine.errors import ConfigError
from engine.pipeline.fingerprint import compare, fingerprint, without_tuning
from engine.pipeline.pipeline import Pipeline, SourceRelation
from engine.sinks.kafka import data_source
from engine.sinks.kafka.data_source import KafkaSink, KafkaWriter
from engine.sources.kafka.data_source import KafkaDataSource
from engine.sources.kafka.rows import SCHEMA
from tests.servers.certificates import write_certificate

SERVERS = {"kafka.bootstrap.servers": "broker:9092"}
VALUES = StructType([StructField("value", StringType())])


def writer(**more: str) -> KafkaWriter:
    given = {name.replace("__", "."): text for name, text in more.items()}
    return KafkaSink({**SERVERS, "topic": "orders", **given}).streamWriter(VALUES, overwrite=False)


def warned(caplog: pytest.LogCaptureFixture) -> str:
    return "\n".join(each.getMessage() for each in caplog.records)


# -- without effect -------------------------------------------------------------------------------


def test_settings_of_the_java_client_alone_are_named(caplog: pytest.LogCaptureFixture) -> None:
    writer(kafka__max__block__ms="5", kafka__linger__ms="5")
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "kafka.max.block.ms of sink kafka has no effect" in record.getMessage()


def test_settings_of_a_consumer_are_named(caplog: pytest.LogCaptureFixture) -> None:
    """The client takes them, and says nothing."""
    writer(kafka__isolation__level="read_committed", kafka__acks="all")
    (record,) = caplog.records
    assert "isolation.level of sink kafka has no effect" in record.getMessage()


def test_settings_of_a_producer_are_named_by_the_source(caplog: pytest.LogCaptureFixture) -> None:
    source = KafkaDataSource({**SERVERS, "subscribe": "orders", "kafka.transactional.id": "x"})
    source.continuousReader(source.schema())
    assert "transactional.id of source kafka has no effect" in warned(caplog)


def test_transactions_are_named_where_there_are_none(caplog: pytest.LogCaptureFixture) -> None:
    given = {"kafka__Transaction__Timeout__ms": "1000", "transactionalIdPrefix": "mine"}
    writer(**given)
    said = warned(caplog)
    assert "option kafka.transaction.timeout.ms of sink kafka has no effect at least once" in said
    assert "option transactionalIdPrefix of sink kafka has no effect at least once" in said
    caplog.clear()
    writer(**given, delivery="exactly-once")
    assert not caplog.records


# -- wrong ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["abc", "", "0", "-1", "1e3", "nan", "2147483648"])
def test_a_timeout_that_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"Option kafka\.transaction\.timeout\.ms of sink kafka"):
        writer(kafka__transaction__timeout__ms=text, delivery="exactly-once")


def test_a_buffer_that_is_no_number_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"Option kafka\.buffer\.memory of sink kafka is '1 MB'"):
        writer(kafka__buffer__memory="1 MB")


def test_a_setting_that_the_client_refuses_is_refused_before_anything_is_tried() -> None:
    with pytest.raises(ConfigError, match="sink kafka: Kafka's client refuses its settings"):
        writer(kafka__linger__ms="soon")


# -- who is trusted -------------------------------------------------------------------------------

CLIENT_ID = "sasl.oauthbearer.client.id"
TLS = {"security.protocol": "SSL"}
BY_TOKENS = {
    "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER", CLIENT_ID: "me",
    "sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.client.secret": "c0rrect-h0rse",
    "sasl.oauthbearer.token.endpoint.url": "https://idp/token",
}  # fmt: skip
ASKED = [("ssl", TLS), ("https", BY_TOKENS)]


def validate(settings: dict[str, str]) -> None:
    """What a sink says of these before it asks any broker."""
    given = {f"kafka.{name}": text for name, text in settings.items()}
    writer(delivery="exactly-once", **given).validate()


@pytest.fixture
def no_broker(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Who would have been asked."""
    asked: list[Any] = []
    monkeypatch.setattr(data_source, "check_brokers", lambda *given: asked.append(given))
    return asked


@pytest.mark.parametrize(("kind", "settings"), ASKED)
@pytest.mark.parametrize("place", ["folder", "file", "probe"])
def test_who_is_trusted_may_be_a_folder_a_file_or_the_systems_own(
    kind: str, settings: dict[str, str], place: str, tmp_path: Path, no_broker: list[Any]
) -> None:
    _, certificate = write_certificate(tmp_path)
    location = {"folder": str(tmp_path), "file": str(certificate), "probe": "probe"}[place]
    validate({**settings, f"{kind}.ca.location": location})
    assert len(no_broker) == 1


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the program openssl")
def test_certificates_of_a_folder_are_found(tmp_path: Path) -> None:
    """By the names that ``openssl rehash`` gives them: OpenSSL reads one when a peer has it."""
    with_key, certificate = write_certificate(tmp_path)
    hashed = subprocess.run(
        ["openssl", "x509", "-noout", "-hash", "-in", str(certificate)],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    (tmp_path / f"{hashed}.0").write_bytes(certificate.read_bytes())
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(with_key)
    sent, received = ssl.MemoryBIO(), ssl.MemoryBIO()
    asks = trusting({"ssl.ca.location": str(tmp_path)}, "ssl").wrap_bio(
        sent, received, server_hostname="127.0.0.1"
    )
    answers = serving.wrap_bio(received, sent, server_side=True)
    for side in (asks, answers, asks):
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    assert asks.getpeercert()


@pytest.mark.parametrize(("kind", "settings"), ASKED)
def test_who_is_trusted_and_cannot_be_read_is_told_before_a_broker_is_asked(
    kind: str, settings: dict[str, str], tmp_path: Path, no_broker: list[Any]
) -> None:
    (tmp_path / "empty.pem").touch()
    for given in (
        {f"{kind}.ca.location": str(tmp_path / "nothing.pem")},
        {f"{kind}.ca.location": str(tmp_path / "empty.pem")},
        {f"{kind}.ca.pem": "no certificate"},
        {f"{kind}.ca.pem": "kein Schlüssel"},
    ):
        (name,) = given
        with pytest.raises(ConfigError, match=re.escape(name)) as caught:
            validate({**settings, **given})
        assert caught.value.hint is not None
    assert not no_broker


def test_who_the_client_is_and_cannot_be_read_is_told_before_a_broker_is_asked(
    tmp_path: Path, no_broker: list[Any]
) -> None:
    _, without_key = write_certificate(tmp_path)
    for given in (
        {"ssl.certificate.location": str(tmp_path / "nothing.pem")},
        {"ssl.certificate.location": str(without_key)},
    ):
        with pytest.raises(ConfigError, match=r"kafka\.ssl\.certificate\.location"):
            validate({**TLS, **given})
    with pytest.raises(ConfigError, match="needs the client's certificate in files"):
        validate({**TLS, "ssl.certificate.pem": "x"})
    assert not no_broker


def test_a_token_that_is_wanted_in_another_way_is_told_before_a_broker_is_asked(
    no_broker: list[Any],
) -> None:
    with pytest.raises(ConfigError, match="cannot log in by OAUTHBEARER"):
        validate({name: text for name, text in BY_TOKENS.items() if name != CLIENT_ID})
    assert not no_broker


# -- a cluster that has moved ---------------------------------------------------------------------


def parts(servers: str, *, of_before: bool = False) -> dict[str, Any]:
    """The fingerprint of a query from topic to topic.

    :param of_before: by a release for which the servers were part of it.
    """
    read = {"kafka.bootstrap.servers": servers, "subscribe": "orders"}
    written = {"kafka.bootstrap.servers": servers, "topic": "out"}
    return fingerprint(
        [(Pipeline(SourceRelation("kafka", read, SCHEMA), (), SCHEMA), tuning(read, of_before))],
        sink_format="kafka",
        sink_options=written,
        sink_tuning=() if of_before else sink_tuning(written),
    )


def tuning(options: dict[str, str], of_before: bool = False) -> Any:
    source = KafkaDataSource(options)
    return () if of_before else source.continuousReader(source.schema()).tuningOptions


def sink_tuning(options: dict[str, str]) -> Any:
    return KafkaSink(options).streamWriter(VALUES, overwrite=False).tuningOptions


def test_the_brokers_may_have_moved() -> None:
    assert compare(parts("old:9092"), parts("new:9092")) == []


def test_the_brokers_may_have_moved_since_an_earlier_release() -> None:
    old, options = parts("old:9092", of_before=True), {**SERVERS, "subscribe": "orders"}
    assert "old:9092" in str(old)
    left = without_tuning(old, [tuning(options)], sink_tuning({**SERVERS, "topic": "out"}))
    assert compare(left, parts("new:9092")) == []


def test_another_topic_is_another_query() -> None:
    new = parts("old:9092")
    new["sources"][0]["options"]["subscribe"] = "payments"
    assert [change.part for change in compare(parts("old:9092"), new)] == [
        "source.options.subscribe"
    ]
