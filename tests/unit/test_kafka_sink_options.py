"""The options of the Kafka sink: what is refused, and what is said of those without effect."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from engine.errors import ConfigError
from engine.pipeline.fingerprint import compare, fingerprint, without_tuning
from engine.pipeline.pipeline import Pipeline, SourceRelation
from engine.sinks.kafka.data_source import KafkaSink, KafkaWriter
from engine.sources.kafka.data_source import KafkaDataSource
from engine.sources.kafka.rows import SCHEMA

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
