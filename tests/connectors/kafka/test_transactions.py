"""The Kafka sink with a transaction per epoch and task, against a real broker."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from typing import Any

import confluent_kafka
import pyarrow as pa
import pytest

from engine.clients.kafka_transactions import KafkaTransactions, Transaction
from engine.errors import (
    PreparedEpochLostError,
    SinkError,
    SinkUnavailableError,
)
from engine.sinks.contract import WriterContext
from engine.sinks.kafka.task_writers import KafkaTransaction
from tests.connectors.kafka.sinks import (
    batches,
    exactly_once,
    new_topic,
    task,
    values,
)
from tests.servers.kafka import Kafka
from tests.waiting import wait_until


@pytest.fixture
def topic(kafka: Kafka) -> str:
    return new_topic(kafka)


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

    wait_until(is_aborted, "the transaction times out", 60)
    transactions.close()


def test_a_transaction_that_has_timed_out_is_lost(kafka: Kafka, topic: str) -> None:
    made, messages = prepared(kafka, topic, 2, kafka_transaction_timeout_ms="5000")
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
