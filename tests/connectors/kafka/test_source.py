"""What the Kafka source reads: everything, once, in order, from where it should begin."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka import KafkaProducer

from engine.errors import (
    BadRecordError,
    ConfigError,
    SourceUnavailableError,
)
from engine.sources.kafka import reader as reader_module
from engine.sources.kafka import topics as topics_module
from engine.sources.kafka.partition_reader import KafkaPartitionsReader
from engine.sources.latest import lag, latest_offset
from tests.connectors.kafka.queries import (
    Kept,
    batches_of,
    committed,
    drained,
    given,
    reader_of,
    start,
)
from tests.connectors.kafka.topics import Topic, produced
from tests.model import ONE_ATTEMPT
from tests.servers.kafka import READY_S, Cluster
from tests.waiting import wait_until


@pytest.fixture(autouse=True)
def _quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_module, "LOOK_S", 0.05)


# -- once, and in order ---------------------------------------------------------------------------


def test_every_record_is_read_once_over_restarts(topic: Topic, tmp_path: Path) -> None:
    sink = Kept()
    topic.send(20)
    for _ in range(2):
        query = start(topic, tmp_path, sink)
        topic.send(20)
        sink.await_all(topic)
        drained(query)
        assert committed(tmp_path) == topic.offset
        topic.send(5)  # while it does not run


def test_the_first_offset_has_sparks_bytes(topic: Topic, tmp_path: Path) -> None:
    topic.send(3)
    query = start(topic, tmp_path, Kept(), startingOffsets="latest")
    drained(query)
    assert (tmp_path / "sources/0/0").read_bytes() == (
        b'\0v1\n{"' + topic.name.encode() + b'":{"0":3,"1":3}}'
    )


def test_partitions_share_a_task(kafka: Cluster, tmp_path: Path) -> None:
    topic, sink = Topic.new(kafka, partitions=5), Kept()
    topic.send(300)
    query = start(topic, tmp_path, sink, replace(ONE_ATTEMPT, partitions_per_task=5))
    topic.send(300)
    sink.await_all(topic)
    drained(query)
    assert committed(tmp_path) == topic.offset


def test_only_what_is_committed_is_read_and_offsets_stand_behind_markers(
    kafka: Cluster, tmp_path: Path
) -> None:
    topic, sink = Topic.new(kafka, partitions=1), Kept()
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": topic.name})
    producer.init_transactions(READY_S)
    for value, commits in (("0", True), ("9", False), ("1", True)):
        producer.begin_transaction()
        producer.produce(topic.name, value)
        producer.flush(READY_S)
        if commits:
            producer.commit_transaction(READY_S)
        else:
            producer.abort_transaction(READY_S)
    topic.counts = [2]
    query = start(topic, tmp_path, sink)
    sink.await_all(topic)
    producer.begin_transaction()
    producer.produce(topic.name, "2")
    producer.flush(READY_S)
    query.processAllAvailable()  # the open one is not there yet
    sink.await_all(topic)
    producer.commit_transaction(READY_S)
    topic.counts = [3]
    sink.await_all(topic)
    query.processAllAvailable()
    drained(query)
    assert committed(tmp_path) == {topic.name: {"0": 8}}  # four records, four markers


def test_an_offset_within_an_open_transaction_is_no_loss(kafka: Cluster) -> None:
    """Spark's default reads what is not committed: so may be the offset of its checkpoint."""
    topic = Topic.new(kafka, partitions=1)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": topic.name})
    producer.init_transactions(READY_S)
    producer.begin_transaction()
    for value in range(3):
        producer.produce(topic.name, str(value))
    producer.flush(READY_S)
    driver = reader_of(topic)
    assert driver.latestOffset({}) == {topic.name: {"0": 0}}
    (partition,) = driver.partitions({topic.name: {"0": 2}})
    reader = driver.openTogether([partition], until={topic.name: {"0": 3}})
    assert reader is not None
    assert reader.read(0.5) is None
    assert not reader.exhausted
    producer.commit_transaction(READY_S)
    assert [row["offset"] for row in batches_of(reader, 1)] == [2]
    assert reader.exhausted
    reader.close()
    driver.stop()


def test_a_partition_has_caught_up_where_it_ends(topic: Topic) -> None:
    topic.send(1)
    produced(topic.kafka, topic.name, map(str, range(1, 30_000)), partition=0)
    driver = reader_of(topic)
    reader = driver.openTogether(driver.partitions(driver.initialOffset()))
    assert isinstance(reader, KafkaPartitionsReader)
    seen = set()

    def position() -> int:
        (first, _) = reader.offsets
        return int(first[topic.name]["0"])

    def look() -> bool:
        reader.read(0.1)
        assert (0 in reader.caught_up) <= (position() == 30_000)
        seen.add(frozenset(reader.caught_up))
        return reader.caught_up == {0, 1}

    with contextlib.closing(reader):
        wait_until(look, "both have")
        assert frozenset() in seen
        assert reader.read(0.05) is None
        assert reader.caught_up == {0, 1}, "an end is told once"
        produced(topic.kafka, topic.name, ["0"], partition=1)
        wait_until(lambda: reader.read(0.1), "a record")
        wait_until(lambda: reader.read(0.1) or reader.caught_up == {0, 1}, "they have again")
    driver.stop()


def test_a_partition_that_is_not_asked_tells_that_it_has_more(topic: Topic) -> None:
    """What the client has fetched of it stands behind what it has of others."""
    driver = reader_of(topic)
    reader = driver.openTogether(driver.partitions(driver.initialOffset()))
    assert isinstance(reader, KafkaPartitionsReader)
    with contextlib.closing(reader):
        wait_until(lambda: reader.read(0.05) or reader.caught_up == {0, 1}, "both have caught up")
        assert reader.having_more([0, 1]) == []
        produced(topic.kafka, topic.name, map(str, range(20_000)), partition=0)
        produced(topic.kafka, topic.name, ["0"], partition=1)
        wait_until(lambda: reader.having_more([1]) == [1], "it has more")
        assert 1 not in reader.caught_up
        assert len(batches_of(reader, 20_001)) == 20_001
        wait_until(lambda: reader.read(0.05) or reader.caught_up == {0, 1}, "they have again")
    driver.stop()


def test_of_a_transaction_that_is_open_there_is_nothing_yet(topic: Topic) -> None:
    producer = Producer(
        {"bootstrap.servers": topic.kafka.bootstrap, "transactional.id": topic.name}
    )
    producer.init_transactions(READY_S)
    producer.begin_transaction()
    driver = reader_of(topic)
    reader = driver.openTogether(driver.partitions(driver.initialOffset()))
    assert isinstance(reader, KafkaPartitionsReader)
    with contextlib.closing(reader):
        wait_until(lambda: reader.read(0.05) or reader.caught_up == {0, 1}, "both have caught up")
        producer.produce(topic.name, "0", partition=1)
        producer.flush(READY_S)
        wait_until(lambda: reader.having_more([1]) == [1], "it may have more")
        wait_until(lambda: reader.read(0.05) or reader.caught_up == {0, 1}, "a rest tells")
        assert reader.having_more([1]) == [1]
        producer.commit_transaction(READY_S)
        assert len(batches_of(reader, 1)) == 1
        wait_until(lambda: reader.read(0.05) or reader.caught_up == {0, 1}, "they have again")
        assert reader.having_more([0, 1]) == []
    driver.stop()


@pytest.mark.parametrize("in_transactions", [False, True])
def test_a_partition_in_which_something_always_comes_has_caught_up(
    kafka: Cluster, in_transactions: bool
) -> None:
    """The broker never has nothing for as long as a fetch waits, so the client tells no end."""
    topic = Topic.new(kafka, partitions=1)
    settings = {"transactional.id": topic.name} if in_transactions else {}
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "linger.ms": 0, **settings})
    if in_transactions:
        producer.init_transactions(READY_S)
    over = threading.Event()

    def produce() -> None:
        while not over.wait(0.01):
            if in_transactions:
                producer.begin_transaction()
            producer.produce(topic.name, "now")
            producer.flush(READY_S)
            if in_transactions:
                producer.commit_transaction(READY_S)

    driver = reader_of(topic)
    reader = driver.openTogether(driver.partitions(driver.initialOffset()))
    assert isinstance(reader, KafkaPartitionsReader)
    told: list[bool] = []

    def look() -> bool:
        if reader.read(0.1) is not None:
            told.append(0 in reader.caught_up)
        return len(told) >= 100

    producing = threading.Thread(target=produce, daemon=True)
    producing.start()
    try:
        with contextlib.closing(reader):
            wait_until(look, "many batches")
    finally:
        over.set()
        producing.join()
        driver.stop()
    assert sum(told[50:]) > 10


# -- rows -----------------------------------------------------------------------------------------


def test_rows_are_those_of_spark(kafka: Cluster) -> None:
    topic = Topic.new(kafka, partitions=1)
    headers: Any = [("kind", b"new"), ("kind", None)]
    produced(kafka, topic.name, [b"\xff"], key="k", timestamp=1_700_000_000_123, headers=headers)
    produced(kafka, topic.name, [None])
    driver = reader_of(topic, includeHeaders="true")
    reader = driver.openTogether(driver.partitions(driver.initialOffset()))
    assert reader is not None
    first, second = batches_of(reader, 2)
    assert str(first.pop("timestamp")) == "2023-11-14 22:13:20.123000+00:00"
    assert first == {
        "key": b"k", "value": b"\xff", "topic": topic.name, "partition": 0, "offset": 0,
        "timestampType": 0,
        "headers": [{"key": "kind", "value": b"new"}, {"key": "kind", "value": None}],
    }  # fmt: skip
    assert second["key"] is None
    assert second["value"] is None
    assert second["headers"] is None
    reader.close()
    driver.stop()


# -- where it begins ------------------------------------------------------------------------------


class NotUtf8(str):
    """A header's key of another client."""

    def encode(self, *_: Any) -> bytes:
        return b"\xff\xfe"


def test_a_header_that_is_no_text_makes_a_bad_record(kafka: Cluster) -> None:
    topic = Topic.new(kafka, partitions=1)
    with contextlib.closing(KafkaProducer(bootstrap_servers=kafka.bootstrap)) as producer:
        for key in ("good", NotUtf8("bad"), "fine"):
            producer.send(topic.name, b"v", headers=[(key, b"x")]).get(30)
    source = reader_of(topic, includeHeaders="true")

    def offsets(bad: Callable[[BadRecordError], None] | None) -> list[int]:
        tasks = source.openTogether(source.partitions(source.initialOffset()))
        tasks.on_bad_record = bad
        found: list[int] = []

        def came() -> bool:
            if (read := tasks.read(0.1)) is not None:
                found.extend(read[1].column("offset").to_pylist())
            return tasks.offsets == ({topic.name: {"0": 3}},)

        with contextlib.closing(tasks):
            wait_until(came, "all is read")
        return found

    bad: list[BadRecordError] = []
    assert offsets(bad.append) == [0, 2]
    assert [each.offset for each in bad] == [{topic.name: {"0": 2}}]
    with pytest.raises(BadRecordError, match=r"record 1 of .* cannot be read: a header's key"):
        offsets(None)


def test_where_a_query_begins(topic: Topic) -> None:
    def begins(**options: str) -> Any:
        driver = reader_of(topic, **options)
        try:
            return driver.initialOffset()[topic.name]
        finally:
            driver.stop()

    for second in (1, 2, 3):
        for partition in (0, 1)[: 3 - second] or (0,):
            produced(topic.kafka, topic.name, ["x"], partition=partition, timestamp=second * 1000)
    name = topic.name  # partition 0: at 1, 2 and 3 s; partition 1: at 1 s
    assert begins(startingOffsets="earliest") == {"0": 0, "1": 0}
    assert begins(startingOffsets="latest") == {"0": 3, "1": 1}
    assert begins(startingOffsets=json.dumps({name: {"0": 2, "1": -1}})) == {"0": 2, "1": 1}
    assert begins(startingOffsets=json.dumps({name: {"0": -2, "1": 0}})) == {"0": 0, "1": 0}
    assert begins(startingTimestamp="1000") == {"0": 0, "1": 0}
    by_partition = json.dumps({name: {"0": 2001, "1": 500}})
    assert begins(startingOffsetsByTimestamp=by_partition) == {"0": 2, "1": 0}
    with pytest.raises(ConfigError, match=f"{name}-1 has no record of the time"):
        begins(startingTimestamp="1500")
    latest = begins(startingTimestamp="1500", startingOffsetsByTimestampStrategy="latest")
    assert latest == {"0": 1, "1": 1}
    with pytest.raises(ConfigError, match=f"begin at offsets of {name}-0, and the subscription"):
        begins(startingOffsets=json.dumps({name: {"0": 2}}))


def test_only_the_partitions_that_are_assigned_are_read(topic: Topic, tmp_path: Path) -> None:
    topic.send(5)
    sink = Kept()
    query = start(topic, tmp_path, sink, assign=json.dumps({topic.name: [1]}))
    query.processAllAvailable()
    drained(query)
    assert sink.values == {f"{topic.name}-1": [0, 1, 2, 3, 4]}


# -- new partitions, new topics -------------------------------------------------------------------


def test_new_partitions_are_read_from_their_beginning(topic: Topic, tmp_path: Path) -> None:
    sink = Kept()
    topic.send(5)
    query = start(topic, tmp_path, sink)
    sink.await_all(topic)
    topic.widen(4)
    topic.send(5)
    sink.await_all(topic)
    assert query.status["restarts"] == 0
    drained(query)
    assert committed(tmp_path) == topic.offset


def test_topics_of_a_pattern_come_and_go(
    kafka: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first when the query runs already."""
    monkeypatch.setattr(topics_module, "GONE_S", 0.5)
    missing, sink = Topic.new(kafka, partitions=1), Kept()
    options = {"subscribePattern": f"{missing.name}[.]new.*", "failOnDataLoss": "false"}
    query = start(missing, tmp_path, sink, **options)
    wait_until(lambda: query.status["epoch"] >= 1, "it runs")
    first, second = (Topic(kafka, f"{missing.name}.new{n}", 1) for n in (1, 2))
    for topic in (first, second):
        topic.send(4)
    sink.await_all(first, second)
    wait_until(lambda: committed(tmp_path).keys() == {first.name, second.name}, "both are read")
    first.delete()
    second.send(4)
    sink.await_all(first, second)
    wait_until(lambda: committed(tmp_path) == second.offset, "only one topic is left")
    query.processAllAvailable()
    drained(query)


# -- what is wrong from the beginning -------------------------------------------------------------


def test_a_topic_that_is_not_there(topic: Topic, tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailableError, match=r"there is no topic nowhere\. Create it"):
        start(topic, tmp_path, Kept(), subscribe=f"{topic.name},nowhere")


def test_a_partition_that_is_not_there(topic: Topic, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"there is no partition {topic.name}-7"):
        start(topic, tmp_path, Kept(), assign=json.dumps({topic.name: [0, 7]}))


# -- where it ends --------------------------------------------------------------------------------


def test_lag_is_told_by_partition(topic: Topic, tmp_path: Path) -> None:
    topic.send(7)
    source = {"format": "kafka", "options": given(topic)}
    assert latest_offset(source) == topic.offset
    assert lag([], [source]) == 14
    assert lag([{topic.name: {"0": 3, "1": 7}}], [source]) == 4
    sink = Kept()
    query = start(topic, tmp_path, sink)
    sink.await_all(topic)

    def is_told() -> bool:
        told = (query.lastProgress or {"sources": [{}]})["sources"][0]
        return bool(
            told.get("latestOffset") == json.dumps(topic.offset, separators=(",", ":"))
            and told["lag"] == f'{{"{topic.name}":{{"0":0,"1":0}}}}'
            and told["metrics"]["maxOffsetsBehindLatest"] == "0"
        )

    wait_until(is_told, "the report tells where the topic ends")
    wait_until(lambda: query.status["lag"] == [{topic.name: {"0": 0, "1": 0}}], "so does status")
    drained(query)
