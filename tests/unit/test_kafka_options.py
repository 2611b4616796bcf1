"""The options of the Kafka source: what is taken, what is refused, and what is said of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.errors import ConfigError
from engine.sources.kafka.data_source import KafkaDataSource
from engine.sources.kafka.offsets import EARLIEST, LATEST, TopicPartition
from engine.sources.kafka.options import KafkaSourceOptions, Start, Subscription, source_options
from engine.sources.kafka.reader import KafkaReader

SERVERS = {"kafka.bootstrap.servers": "broker:9092"}
ORDERS = {**SERVERS, "subscribe": "orders"}


def options(**more: str) -> KafkaSourceOptions:
    return source_options({**ORDERS, **more})


def refused(given: dict[str, str]) -> str:
    with pytest.raises(ConfigError) as error:
        source_options(given)
    return str(error.value)


# -- which topics ---------------------------------------------------------------------------------


def test_topics_are_named_with_commas() -> None:
    found = source_options({**SERVERS, "subscribe": " orders, payments,orders,"})
    assert found.subscription == Subscription(topics=("orders", "payments"))


def test_a_pattern_matches_whole_names_as_java_does() -> None:
    found = source_options({**SERVERS, "subscribePattern": r"orders[.\-]\p{Lower}+"}).subscription
    assert found.has("orders.eu")
    assert not found.has("orders.eu2")
    assert not found.has("my-orders.eu")


def test_a_pattern_does_not_match_kafkas_own_topics() -> None:
    found = source_options({**SERVERS, "subscribePattern": ".*"}).subscription
    assert found.has("__mine")
    assert not found.has("__consumer_offsets")


def test_a_pattern_may_match_kafkas_own_topics() -> None:
    given = {**SERVERS, "subscribePattern": ".*", "kafka.exclude.internal.topics": "false"}
    assert source_options(given).subscription.has("__consumer_offsets")


def test_partitions_are_assigned() -> None:
    found = source_options({**SERVERS, "assign": '{"b":[1],"a":[2,0,2]}'}).subscription
    assert found.assigned == (
        TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("b", 1),
    )  # fmt: skip
    assert found.names == ("a", "b")


@pytest.mark.parametrize(
    "text",
    ["", "orders", "[]", "{}", '{"a":[]}', '{"a":0}', '{"a":["x"]}', '{"a":[-1]}', '{"a":[true]}'],
)  # fmt: skip
def test_what_is_no_assignment_is_refused(text: str) -> None:
    assert "Option assign of source kafka is" in refused({**SERVERS, "assign": text})


@pytest.mark.parametrize("text", ["(", "a{2", r"\p{IsGreek}x", r"\Gb"])
def test_a_pattern_that_is_not_understood_is_refused(text: str) -> None:
    assert "subscribePattern" in refused({**SERVERS, "subscribePattern": text})


@pytest.mark.parametrize("name", ["subscribe", "subscribePattern"])
def test_an_empty_subscription_is_refused(name: str) -> None:
    assert "at least one topic" in refused({**SERVERS, name: " " if name == "subscribe" else ""})


def test_exactly_one_subscription_is_needed() -> None:
    assert "none is set" in refused(SERVERS)
    assert "subscribe, assign is set" in refused({**ORDERS, "assign": '{"a":[0]}'})


def test_the_servers_are_needed() -> None:
    assert "needs the option kafka.bootstrap.servers" in refused({"subscribe": "orders"})


# -- where it begins ------------------------------------------------------------------------------


def test_a_query_begins_at_the_end_unless_told_otherwise() -> None:
    assert options().start == Start(everywhere=LATEST)
    assert options(startingOffsets=" Earliest ").start == Start(everywhere=EARLIEST)


def test_a_query_begins_at_offsets() -> None:
    assert options(startingOffsets='{"orders":{"0":23,"1":-2}}').start.positions == {
        TopicPartition("orders", 0): 23, TopicPartition("orders", 1): -2,
    }  # fmt: skip


def test_a_query_begins_at_times() -> None:
    found = options(
        startingOffsetsByTimestamp='{"orders":{"0":1000}}',
        startingOffsetsByTimestampStrategy="latest",
        startingOffsets="earliest",
    )
    times = {TopicPartition("orders", 0): 1000}
    assert found.start == Start(timestamps_ms=times, or_latest=True)
    assert options(startingTimestamp="5", startingOffsets="earliest").start.timestamp_ms == 5


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("startingOffsets", "newest"),
        ("startingOffsets", '{"orders":{"0":-3}}'),
        ("startingOffsets", '{"orders":{"x":0}}'),
        ("startingOffsets", '{"orders":{"0":"0"}}'),
        ("startingOffsets", '{"orders":[0]}'),
        ("startingOffsetsByTimestamp", '{"orders":{"0":-1}}'),
        ("startingTimestamp", "yesterday"),
        ("startingOffsetsByTimestampStrategy", "earliest"),
        ("failOnDataLoss", "perhaps"),
        ("maxOffsetsPerTrigger", "0"),
    ],
)
def test_a_wrong_value_is_refused_with_its_name(name: str, text: str) -> None:
    said = refused({**ORDERS, name: text})
    assert f"Option {name} of source kafka is" in said


# -- what cannot be honoured ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["minPartitions", "maxRecordsPerPartition"])
def test_partitions_cannot_be_split(name: str) -> None:
    assert f"Option {name} of source kafka cannot be honoured" in refused({**ORDERS, name: "9"})


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_a_stream_has_no_end(name: str) -> None:
    assert f"Option {name} of source kafka is for batch" in refused({**ORDERS, name: "latest"})


@pytest.mark.parametrize(
    "name",
    [
        "kafka.auto.offset.reset",
        "kafka.enable.auto.commit",
        "kafka.enable.partition.eof",
        "KAFKA.key.deserializer",
    ],
)
def test_what_is_the_sources_own_is_refused(name: str) -> None:
    assert f"Option {name} of source kafka is not supported" in refused({**ORDERS, name: "x"})


def test_an_option_that_is_not_known_is_refused() -> None:
    assert "Did you mean startingOffsets?" in refused({**ORDERS, "startingOffset": "earliest"})


@pytest.mark.parametrize("name", ["minOffsetsPerTrigger", "maxTriggerDelay", "maxBytesPerTrigger"])
def test_micro_batches_refuse_what_they_cannot_honour(name: str) -> None:
    source = KafkaDataSource({**ORDERS, name: "10"})
    with pytest.raises(ConfigError, match=name):
        source.streamReader(source.schema())


def test_options_without_effect_are_named(caplog: pytest.LogCaptureFixture) -> None:
    source = KafkaDataSource(
        {**ORDERS, "maxOffsetsPerTrigger": "9", "kafka.max.poll.records": "5",
         "fetchOffset.numRetries": "3"}
    )  # fmt: skip
    source.continuousReader(source.schema())
    assert sorted(record.args[0] for record in caplog.records if record.args) == [  # type: ignore[index]
        "fetchOffset.numRetries", "kafka.max.poll.records", "maxOffsetsPerTrigger",
    ]  # fmt: skip


# -- rows, and what a query is known by -----------------------------------------------------------


def test_the_columns_are_sparks() -> None:
    columns = {
        field.name: field.dataType.simpleString() for field in KafkaDataSource(ORDERS).schema()
    }
    assert columns == {
        "key": "binary", "value": "binary", "topic": "string", "partition": "int",
        "offset": "bigint", "timestamp": "timestamp", "timestampType": "int",
    }  # fmt: skip


def test_headers_are_a_column_if_asked_for() -> None:
    schema = KafkaDataSource({**ORDERS, "includeHeaders": "true"}).schema()
    assert schema["headers"].dataType.simpleString() == "array<struct<key:string,value:binary>>"


def test_how_it_is_read_may_change_and_what_is_read_may_not() -> None:
    given = {
        **ORDERS, "kafka.sasl.password": "x", "kafka.fetch.min.bytes": "5",
        "failOnDataLoss": "false", "startingOffsets": "earliest", "includeHeaders": "true",
    }  # fmt: skip
    source: Any = KafkaDataSource(given)
    reader = source.continuousReader(source.schema())
    assert isinstance(reader, KafkaReader)
    assert set(given) - set(reader.tuningOptions) == {"subscribe"}


def test_a_reader_is_sent_without_what_it_has_seen() -> None:
    import pickle

    source = KafkaDataSource(ORDERS)
    reader = source.continuousReader(source.schema())
    reader._reads = [TopicPartition("orders", number) for number in range(10_000)]
    assert len(pickle.dumps(reader)) < 10_000
    assert json.dumps(pickle.loads(pickle.dumps(reader)).mergeOffsets([])) == "{}"
