"""The Kafka sink against a real broker, without a query: what a reader sees, and what the driver is
told."""

from __future__ import annotations

import itertools
import pickle
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from typing import Any

import confluent_kafka
import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from engine.checkpoint.sink_context import SinkContext
from engine.clients.kafka_transactions import KafkaTransactions, Transaction
from engine.errors import (
    ConfigError,
    PreparedEpochLostError,
    SinkCommitRejectedError,
    SinkError,
    SinkUnavailableError,
)
from engine.expressions.types import schema_to_spark
from engine.sinks.contract import WriterContext
from engine.sinks.kafka import brokers
from engine.sinks.kafka.data_source import KafkaSink, KafkaWriter
from engine.sinks.kafka.task_writers import KafkaTransaction
from tests.servers.kafka import Kafka
from tests.waiting import wait_until

VALUES = pa.schema([("value", pa.string())])
_numbers = itertools.count()


@pytest.fixture
def topic(kafka: Kafka) -> str:
    name = f"sink-{next(_numbers)}"
    kafka.create_topic(name, 2)
    return name


def writer(kafka: Kafka, schema: pa.Schema = VALUES, **options: str) -> KafkaWriter:
    given = {name.replace("_", "."): text for name, text in options.items() if "_" in name}
    given |= {name: text for name, text in options.items() if "_" not in name}
    source = KafkaSink({"kafka.bootstrap.servers": kafka.bootstrap, **given})
    return source.streamWriter(spark(schema), overwrite=False)


def spark(schema: pa.Schema) -> StructType:
    return StructType.fromJson(schema_to_spark(schema))


def exactly_once(kafka: Kafka, topic: str, query_id: str | None = None, **options: str) -> Any:
    made = writer(kafka, topic=topic, delivery="exactly-once", **options)
    made.bind(SinkContext(query_id or topic, "run", 0, 0))
    return made


def task(made: KafkaWriter, topic: str, number: int = 0) -> Any:
    """The executor's side, as a task gets it."""
    found = pickle.loads(pickle.dumps(made.taskWriter()))
    found.open(WriterContext(topic, "run", 0, 0, number, 2))
    return found


def batches(*values: str) -> Iterator[pa.RecordBatch]:
    return iter([pa.RecordBatch.from_pydict({"value": list(values)}, VALUES)])


def read(kafka: Kafka, topic: str, isolation: str = "read_committed") -> list[Any]:
    """Records up to the end of each partition, in the order of partitions."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": "tests",
            "isolation.level": isolation,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, each, 0) for each in (0, 1)])
    found: list[Any] = []
    ends: set[int] = set()

    def is_read() -> bool:
        for message in consumer.consume(100, 0.1):
            if message.error() is None:
                found.append(message)
            else:
                assert message.error().name() == "_PARTITION_EOF"
                ends.add(message.partition())
        return len(ends) == 2

    wait_until(is_read, f"{topic} is read", 30)
    consumer.close()
    return sorted(found, key=lambda message: (message.partition(), message.offset()))


def values(kafka: Kafka, topic: str, isolation: str = "read_committed") -> list[str]:
    return sorted(message.value().decode() for message in read(kafka, topic, isolation))


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
    name = f"sink-{next(_numbers)}"
    kafka.create_topic(name, 2, max_message_bytes="1000")
    made = writer(kafka, topic=name)
    with pytest.raises(SinkCommitRejectedError, match=f"a record for {name} was refused"):
        made.write(batches("x" * 5_000))
    with pytest.raises(SinkCommitRejectedError, match="cannot be sent"):
        made.write(batches("x" * 5_000_000))  # by the client itself


def test_a_partition_that_is_not_there_is_no_outage(kafka: Kafka, topic: str) -> None:
    schema = pa.schema([("value", pa.string()), ("partition", pa.int32())])
    patience = {"kafka_topic_metadata_propagation_max_ms": "500"}
    made = writer(kafka, schema, topic=topic, **patience)
    batch = pa.RecordBatch.from_pydict({"value": ["a"], "partition": [2]}, schema)
    with pytest.raises(SinkCommitRejectedError, match=f"a record for {topic} was refused"):
        made.write(iter([batch]))


# -- exactly once ---------------------------------------------------------------------------------


def test_an_epoch_is_seen_when_it_is_committed(kafka: Kafka, topic: str) -> None:
    made = exactly_once(kafka, topic)
    one = task(made, topic)
    message = one.write(0, batches("a", "b"))
    assert values(kafka, topic, "read_uncommitted") == ["a", "b"]
    assert values(kafka, topic) == []
    other = exactly_once(kafka, topic)  # of another process
    for _ in range(2):
        other.commit([message, None], 0)
        assert values(kafka, topic) == ["a", "b"]
    one.committed(0)
    one.close()


def test_epochs_take_turns(kafka: Kafka, topic: str) -> None:
    """The next ones begin before the last one is committed."""
    made = exactly_once(kafka, topic)
    one = task(made, topic)
    waiting: list[KafkaTransaction] = []
    for epoch in range(8):
        waiting.append(one.write(epoch, batches(str(epoch))))
        if len(waiting) == 3:
            oldest = epoch - 2
            made.commit([waiting.pop(0)], oldest)
            one.committed(oldest)
            assert values(kafka, topic) == [str(each) for each in range(oldest + 1)]
    assert len({each.transactional_id for each in waiting}) == 2
    assert made._transactions is not None
    assert len(made._transactions.ids(f"continuous-{topic}-0-")) == 3
    one.close()


def test_an_epoch_without_rows_has_no_transaction(kafka: Kafka, topic: str) -> None:
    made = exactly_once(kafka, topic)
    one = task(made, topic)
    assert one.write(0, iter([])) is None
    assert one.write(1, batches()) is None
    made.commit([None], 1)
    one.committed(1)
    one.close()


def prepared(kafka: Kafka, topic: str, tasks: int, **options: str) -> tuple[Any, Sequence[Any]]:
    """An epoch whose tasks have died."""
    made = exactly_once(kafka, topic, **options)
    messages = []
    for number in range(tasks):
        one = task(made, topic, number)
        messages.append(one.write(0, batches(f"of task {number}")))
        one.close()
    return made, messages


def timed_out(kafka: Kafka, message: KafkaTransaction) -> None:
    """Wait until the broker has aborted it."""
    transactions = KafkaTransactions({"bootstrap.servers": kafka.bootstrap})
    id = message.transactional_id

    def is_aborted() -> bool:
        return transactions.describe([id])[id].state == "CompleteAbort"

    wait_until(is_aborted, "the transaction times out", 30)
    transactions.close()


def test_a_transaction_that_has_timed_out_is_lost(kafka: Kafka, topic: str) -> None:
    made, messages = prepared(kafka, topic, 2, kafka_transaction_timeout_ms="1000")
    for message in messages:
        timed_out(kafka, message)
    with pytest.raises(PreparedEpochLostError, match="has aborted transaction") as caught:
        made.commit(messages, 0)
    assert caught.value.done == frozenset()
    assert values(kafka, topic) == []


def test_what_is_committed_is_told_when_the_rest_is_lost(kafka: Kafka, topic: str) -> None:
    made, messages = prepared(kafka, topic, 3)
    made.commit([messages[0], None, None], 0)
    made.abort([None, messages[1], None], 0)  # as the broker does in time
    with pytest.raises(PreparedEpochLostError) as caught:
        made.commit(messages, 0)
    assert caught.value.done == {0}
    assert values(kafka, topic) == ["of task 0"]


def test_all_or_nothing_where_that_can_be(kafka: Kafka, topic: str) -> None:
    """One has timed out and none is committed: the others are not, either."""
    made, messages = prepared(kafka, topic, 2)
    made.abort(messages[:1], 0)
    with pytest.raises(PreparedEpochLostError) as caught:
        made.commit(messages, 0)
    assert caught.value.done == frozenset()
    assert values(kafka, topic) == []
    found = made._transactions.describe([each.transactional_id for each in messages])
    assert {each.state for each in found.values()} <= {"CompleteAbort", "PrepareAbort"}


def test_an_id_that_the_broker_does_not_know_is_lost(kafka: Kafka, topic: str) -> None:
    made = exactly_once(kafka, topic)
    with pytest.raises(PreparedEpochLostError):
        made.commit([KafkaTransaction("nobody's", 1, 0, 1)], 0)


def test_earlier_tasks_are_shut_out(kafka: Kafka, topic: str) -> None:
    made = exactly_once(kafka, topic)
    zombie = task(made, topic, 7)
    message = zombie.write(0, batches("of a zombie"))
    made.fenceTasks()
    assert values(kafka, topic) == []  # and nobody waits for it
    with pytest.raises(PreparedEpochLostError):
        made.commit([message], 0)
    with pytest.raises(SinkError):
        zombie.write(1, batches("again"))
    assert values(kafka, topic) == []
    zombie.close()


def test_a_producer_that_has_given_up_between_two_batches_is_replaced(
    kafka: Kafka, topic: str
) -> None:
    """No record is at fault: a new attempt gets a new producer."""
    made = exactly_once(kafka, topic)
    one = task(made, topic)

    def has_given_up() -> bool:
        try:
            one._open[0]._sender.producer.produce(topic, b"late")
        except confluent_kafka.KafkaException as exc:
            return bool(exc.args[0].name() == "_FATAL")
        return False

    def more() -> Iterator[pa.RecordBatch]:
        yield from batches("a")
        made.fenceTasks()
        wait_until(has_given_up, "the producer notices", 30)
        yield from batches("b")

    with pytest.raises(SinkUnavailableError, match="_FATAL"):
        one.write(0, more())
    assert values(kafka, topic) == []
    one.close()


def sent(made: Any) -> bytes:
    """A task, on its way to an executor."""
    made.fenceTasks()
    return pickle.dumps(made.taskWriter())


def open_again(pickled: bytes, topic: str) -> Any:
    """It arrives."""
    found = pickle.loads(pickled)
    found.open(WriterContext(topic, "run", 0, 0, 0, 2))
    return found


def test_a_task_that_wakes_up_late_begins_nothing(kafka: Kafka, topic: str) -> None:
    zombie = sent(exactly_once(kafka, topic))
    made = exactly_once(kafka, topic)
    one = open_again(sent(made), topic)
    with pytest.raises(SinkUnavailableError, match="Later tasks of the query have taken over"):
        open_again(zombie, topic)
    made.commit([one.write(0, batches("a"))], 0)  # nor does it take the ids of others
    assert values(kafka, topic) == ["a"]
    one.committed(0)
    one.close()


def test_a_task_that_wakes_up_while_it_is_shut_out_begins_nothing(
    kafka: Kafka, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind the driver's look at which ids there are."""
    zombie = sent(exactly_once(kafka, topic))
    right = KafkaTransactions.ids
    opened: list[str] = []

    def ids(self: KafkaTransactions, prefix: str) -> list[str]:
        found = right(self, prefix)
        try:
            open_again(zombie, topic)
        except SinkUnavailableError as exc:
            opened.append(exc.message)
        return found

    monkeypatch.setattr(KafkaTransactions, "ids", ids)
    exactly_once(kafka, topic).fenceTasks()
    assert len(opened) == 1


def test_a_gate_that_kafka_has_forgotten_holds_nobody_up(kafka: Kafka, topic: str) -> None:
    made = exactly_once(kafka, topic)
    made.taskWriter().gate = Transaction("nobody's", 1, 0)
    one = task(made, topic)
    made.commit([one.write(0, batches("a"))], 0)
    assert values(kafka, topic) == ["a"]
    one.close()


def test_tasks_of_other_queries_are_not(kafka: Kafka, topic: str) -> None:
    other = exactly_once(kafka, topic)
    one = task(other, topic)
    message = one.write(0, batches("a"))
    made = exactly_once(kafka, topic, "another")
    made.fenceTasks()
    other.commit([message], 0)
    assert values(kafka, topic) == ["a"]
    one.close()


def test_a_task_that_fails_leaves_nothing_open(kafka: Kafka, topic: str) -> None:
    made = exactly_once(kafka, topic)
    one = task(made, topic)

    def failing() -> Iterator[pa.RecordBatch]:
        yield from batches("a")
        raise ValueError("a bad record")

    with pytest.raises(ValueError, match="a bad record"):
        one.write(0, failing())
    one.aborted(0)
    transactions = KafkaTransactions({"bootstrap.servers": kafka.bootstrap})
    ids = transactions.ids(f"continuous-{topic}-")
    assert not any(each.is_open for each in transactions.describe(ids).values())
    transactions.close()
    one.close()


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


def test_micro_batches_cannot_be_exactly_once(kafka: Kafka, topic: str) -> None:
    with pytest.raises(ConfigError, match="in continuous queries only"):
        exactly_once(kafka, topic).write(batches("a"))
