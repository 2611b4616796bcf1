"""The Kafka sink against a real broker, without a query: what a reader sees, and what the driver is
told."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime, timezone
from typing import Any

import confluent_kafka
import pyarrow as pa
import pytest

from engine.errors import (
    ConfigError,
    SinkCommitRejectedError,
    SinkError,
)
from engine.sinks.contract import WriterContext
from engine.sinks.kafka import brokers
from engine.sinks.kafka.data_source import KafkaSink
from tests.connectors.kafka.sinks import (
    VALUES,
    batches,
    exactly_once,
    new_topic,
    read,
    spark,
    values,
    writer,
)
from tests.servers.kafka import Kafka


@pytest.fixture
def topic(kafka: Kafka) -> str:
    return new_topic(kafka)


# -- at least once --------------------------------------------------------------------------------


def test_columns_of_a_row_make_its_record(kafka: Kafka, topic: str) -> None:
    at = datetime(2024, 5, 6, 7, 8, 9, 123_000, tzinfo=timezone.utc)
    rows = {
        "key": [b"k", None],
        "value": ["v", None],
        "partition": [1, 0],
        "timestamp": [at, None],
        "headers": [[{"key": "h", "value": b"\x00"}, {"key": "h", "value": None}], None],
        "other": [1.5, None],
    }
    types = pa.schema(
        [
            ("key", pa.binary()), ("value", pa.string()), ("partition", pa.int32()),
            ("timestamp", pa.timestamp("us", tz="UTC")),
            ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
            ("other", pa.float64()),
        ]
    )  # fmt: skip
    made = writer(kafka, types, topic=topic)
    message = made.write(iter([pa.RecordBatch.from_pydict(rows, types)]))
    assert message.records == 2
    empty, full = read(kafka, topic)
    assert (full.key(), full.value(), full.partition()) == (b"k", b"v", 1)
    assert full.timestamp() == (confluent_kafka.TIMESTAMP_CREATE_TIME, at.timestamp() * 1000)
    assert full.headers() == [("h", b"\x00"), ("h", None)]
    assert (empty.key(), empty.value(), empty.partition(), empty.headers()) == (None, None, 0, None)


HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@pytest.mark.parametrize(
    ("name", "dtype", "value", "said"),
    [
        ("partition", pa.int32(), -1, "partition is negative"),
        ("timestamp", pa.timestamp("us", tz="UTC"), 999, "the beginning of 1970"),
        ("timestamp", pa.timestamp("us", tz="UTC"), -1, "the beginning of 1970"),
        ("headers", HEADERS, [{"key": None, "value": b"x"}], "a header without a key"),
        ("headers", HEADERS, [None], "a header without a key"),
    ],
)
def test_what_the_client_would_replace_by_something_else_is_refused(
    kafka: Kafka, topic: str, name: str, dtype: pa.DataType, value: Any, said: str
) -> None:
    schema = pa.schema([("value", pa.string()), (name, dtype)])
    rows = pa.RecordBatch.from_arrays([pa.array(["a"]), pa.array([value], dtype)], schema=schema)
    with pytest.raises(SinkCommitRejectedError, match=said):
        writer(kafka, schema, topic=topic).write(iter([rows]))


def test_times_before_1970_are_sent(kafka: Kafka, topic: str) -> None:
    schema = pa.schema([("value", pa.string()), ("timestamp", pa.timestamp("us", tz="UTC"))])
    times = pa.array([-1_500, 1_000], schema.field("timestamp").type)
    rows = pa.RecordBatch.from_arrays([pa.array(["a", "a"]), times], schema=schema)
    writer(kafka, schema, topic=topic).write(iter([rows]))
    assert sorted(each.timestamp()[1] for each in read(kafka, topic)) == [-2, 1]


def test_a_record_that_is_larger_than_the_queue_is_not_waited_for(kafka: Kafka, topic: str) -> None:
    room = {"kafka_max_request_size": "10000000", "kafka_buffer_memory": "1048576"}
    made = writer(kafka, topic=topic, **room)
    with pytest.raises(SinkCommitRejectedError, match="larger than the queue"):
        made.write(batches("a", "x" * 2_000_000, "b"))


def test_a_row_may_name_its_topic(kafka: Kafka, topic: str) -> None:
    kafka.create_topic(f"{topic}-b", 2)
    schema = pa.schema([("topic", pa.string()), ("value", pa.binary())])
    made = writer(kafka, schema)
    names = [topic, f"{topic}-b"]
    made.write(iter([pa.RecordBatch.from_pydict({"topic": names, "value": [b"a", b"b"]}, schema)]))
    assert (values(kafka, topic), values(kafka, f"{topic}-b")) == (["a"], ["b"])
    with pytest.raises(SinkError, match="null topic"):
        made.write(iter([pa.RecordBatch.from_pydict({"topic": [None], "value": [b"a"]}, schema)]))


def test_the_partition_of_a_key_is_that_of_the_java_client(kafka: Kafka, topic: str) -> None:
    schema = pa.schema([("key", pa.string()), ("value", pa.string())])
    made = writer(kafka, schema, topic=topic)
    keys = ["alpha", "beta", "gamma", "delta"]
    made.write(iter([pa.RecordBatch.from_pydict({"key": keys, "value": keys}, schema)]))
    # org.apache.kafka.common.utils.Utils.toPositive(murmur2(key)) % 2
    found = {message.key().decode(): message.partition() for message in read(kafka, topic)}
    assert found == {key: _murmur2(key.encode()) % 2 for key in keys}


def _murmur2(data: bytes) -> int:
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    h = (0x9747B28C ^ len(data)) & mask
    for at in range(0, len(data) // 4 * 4, 4):
        k = int.from_bytes(data[at : at + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        h = h * m & mask ^ k
    rest = data[len(data) // 4 * 4 :]
    if rest:
        h = (h ^ int.from_bytes(rest, "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return (h ^ h >> 15) & 0x7FFFFFFF


def test_a_record_that_the_broker_refuses_fails_the_epoch(kafka: Kafka) -> None:
    name = new_topic(kafka, max_message_bytes="1000")
    made = writer(kafka, topic=name)
    with pytest.raises(SinkCommitRejectedError, match=f"a record for {name} was refused"):
        made.write(batches("x" * 5_000))
    with pytest.raises(SinkCommitRejectedError, match="larger than Kafka's client may send"):
        made.write(batches("x" * 5_000_000))  # by the client itself


@pytest.mark.parametrize("is_known", [False, True])
def test_a_partition_that_is_not_there_is_no_outage(
    kafka: Kafka, topic: str, is_known: bool
) -> None:
    """A client that knows the topic refuses the record at once."""
    schema = pa.schema([("value", pa.string()), ("partition", pa.int32())])
    patience = {"kafka_topic_metadata_propagation_max_ms": "500"}
    made = writer(kafka, schema, topic=topic, **patience).taskWriter()
    made.open(WriterContext(topic, "run", 0, 0, 0, 1))
    there, nowhere = (
        pa.RecordBatch.from_pydict({"value": ["a"], "partition": [number]}, schema)
        for number in (0, 2)
    )
    if is_known:
        made.write(0, iter([there]))
    with pytest.raises(
        SinkCommitRejectedError, match=r"a record .*was refused: .*nknown partition"
    ):
        made.write(1, iter([nowhere]))
    made.close()


# -- before anything starts -----------------------------------------------------------------------


def test_what_cannot_work_is_refused_at_start(kafka: Kafka, topic: str) -> None:
    writer(kafka, topic=topic).validate()
    with pytest.raises(ConfigError, match="has no topic nowhere"):
        writer(kafka, topic="nowhere").validate()
    long = exactly_once(kafka, topic, kafka_transaction_timeout_ms="3600000")
    with pytest.raises(ConfigError, match="transactions of 900 s at most"):
        long.validate()
    exactly_once(kafka, topic).validate()


@pytest.mark.parametrize(
    ("schema", "options", "says"),
    [
        (VALUES, {}, "topic option required"),
        (pa.schema([("other", pa.string())]), {"topic": "t"}, "'value' not found"),
        (pa.schema([("value", pa.int32())]), {"topic": "t"}, "value is INT"),
        (VALUES, {"topic": "t", "delivery": "twice"}, "delivery"),
        (VALUES, {"topic": "t", "acks": "0"}, "acks"),
        (VALUES, {"topic": "t", "kafka.transactional.id": "x"}, "not supported"),
        (VALUES, {"topic": "t", "kafka.no.such.thing": "x"}, "refuses its settings"),
    ],
)
def test_wrong_options_and_columns(schema: pa.Schema, options: dict[str, str], says: str) -> None:
    def try_out() -> None:
        sink = KafkaSink({"kafka.bootstrap.servers": "127.0.0.1:1", **options})
        sink.streamWriter(spark(schema), overwrite=False).validate()

    with pytest.raises(ConfigError, match=says):
        try_out()


def test_brokers_that_are_not_there_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brokers, "ASK_S", 1.0)
    made = KafkaSink({"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t"}).streamWriter(
        spark(VALUES), overwrite=False
    )
    with pytest.raises(ConfigError, match=r"127\.0\.0\.1:1 does not answer"):
        made.validate()


_AWAY = """
import threading
import engine.clients.kafka_transactions as kafka_transactions
kafka_transactions.CONNECT_S = 0.5
try:
    kafka_transactions.KafkaTransactions({"bootstrap.servers": "127.0.0.1:1"}).ids("")
except Exception as exc:
    print(type(exc).__name__, threading.active_count(), exc)
"""


def test_coordinators_that_are_not_there_leave_nothing_behind() -> None:
    # In a process of its own: kafka-python forgets sockets that it could not connect.
    done = subprocess.run([sys.executable, "-c", _AWAY], capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("SinkUnavailableError 1 Kafka at 127.0.0.1:1"), done.stderr


_AT_ONCE = """
import sys, threading
from importlib import _bootstrap
import engine.clients.kafka_transactions as kafka_transactions
kafka_transactions.CONNECT_S = 0.5
PART = "kafka.protocol.producer"
loading, told = threading.Event(), []

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "kafka":
            loading.set()
            for _ in range(100):  # until the other one has begun with a part, if it does so
                threading.Event().wait(0.01 if PART not in _bootstrap._module_locks else 0)

def ask(question):
    try:
        question(kafka_transactions.KafkaTransactions({"bootstrap.servers": "127.0.0.1:1"}))
    except Exception as exc:
        told.append(type(exc).__name__)

sys.meta_path.insert(0, Slow())
threads = [threading.Thread(target=ask, args=[each]) for each in (
    lambda transactions: transactions.ids(""), lambda transactions: transactions.fence(["an id"])
)]
threads[0].start()
loading.wait()
threads[1].start()
for thread in threads:
    thread.join()
print(*told)
"""


def test_two_queries_may_load_the_client_at_once() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _AT_ONCE], capture_output=True, text=True, timeout=300
    )
    assert done.stdout.split() == ["SinkUnavailableError"] * 2, done.stderr


def test_micro_batches_cannot_be_exactly_once(kafka: Kafka, topic: str) -> None:
    with pytest.raises(ConfigError, match="in continuous queries only"):
        exactly_once(kafka, topic).write(batches("a"))
