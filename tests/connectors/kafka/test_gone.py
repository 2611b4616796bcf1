"""What the Kafka source makes of records and partitions that are gone, or were not there yet."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.base.text_tables import count
from engine.errors import OffsetOutOfRangeError
from tests.connectors.kafka.queries import Kept, batches_of, drained, reader_of, start
from tests.connectors.kafka.topics import Topic
from tests.servers.kafka import Cluster
from tests.waiting import wait_until


def test_expired_records_are_an_error_that_tells_them(topic: Topic, tmp_path: Path) -> None:
    sink = Kept()
    topic.send(10)
    drained(start(topic, tmp_path, sink, startingOffsets="earliest"))
    topic.send(10)
    topic.expire([15, 0])
    read = sink.values[f"{topic.name}-0"][-1] + 1 if sink.rows else 0
    with pytest.raises(OffsetOutOfRangeError) as error:
        start(topic, tmp_path, sink)
    gone = f"{count(15 - read, 'record')}, {read}"
    assert f"partition {topic.name}-0 cannot be read on: {gone}" in str(error.value)
    assert "failOnDataLoss" in str(error.value)
    query = start(topic, tmp_path, sink, failOnDataLoss="false")
    query.processAllAvailable()
    drained(query)
    assert sink.values[f"{topic.name}-0"] == [*range(read), *range(15, 20)]
    assert sink.values[f"{topic.name}-1"] == list(range(20))


@pytest.mark.parametrize("fails", ["true", "false"])
def test_records_that_expire_while_the_query_runs(
    kafka: Cluster, fails: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = Topic.new(kafka, partitions=2)
    topic.send(10)
    driver = reader_of(topic, failOnDataLoss=fails)
    partitions = driver.partitions(driver.initialOffset())
    topic.expire([4, 0])
    reader = driver.openTogether(partitions)
    assert reader is not None
    if fails == "true":
        with pytest.raises(OffsetOutOfRangeError, match="4 records, 0 to 3, are gone"):
            batches_of(reader, 20)
    else:
        rows = batches_of(reader, 16)
        assert [row["offset"] for row in rows if row["partition"] == 0] == list(range(4, 10))
        assert [row["offset"] for row in rows if row["partition"] == 1] == list(range(10))
        assert "4 records, 0 to 3, are gone" in caplog.text
        assert reader.offsets == ({topic.name: {"0": 10}}, {topic.name: {"1": 10}})
    reader.close()
    driver.stop()


def test_a_topic_that_was_made_anew_is_told(topic: Topic) -> None:
    topic.send(3)
    driver = reader_of(topic)
    with pytest.raises(OffsetOutOfRangeError, match="it ends at 3, and the query stands at 7"):
        driver.partitions({topic.name: {"0": 7, "1": 0}})
    driver.stop()


@pytest.mark.parametrize("fails", ["true", "false"])
def test_an_end_that_is_not_there_any_more_is_not_waited_for(topic: Topic, fails: str) -> None:
    """An epoch is run again to the end that is logged, and the topic was made anew meanwhile."""
    topic.send(3)
    driver = reader_of(topic, failOnDataLoss=fails)
    partitions = driver.partitions({topic.name: {"0": 0, "1": 0}})
    reader = driver.openTogether(partitions, until={topic.name: {"0": 9, "1": 3}})
    assert reader is not None
    if fails == "true":
        with pytest.raises(OffsetOutOfRangeError, match="it ends at 3, and the query stands at 9"):
            wait_until(lambda: reader.read(0.1) is None and reader.exhausted, "the end")
    else:
        batches_of(reader, 6)
        wait_until(lambda: reader.read(0.1) is None and reader.exhausted, "the end")
    reader.close()
    driver.stop()


def test_an_epoch_is_run_again_beside_a_partition_that_is_new(topic: Topic) -> None:
    topic.send(3)
    logged = topic.offset
    topic.widen(3)
    topic.send(2)
    driver = reader_of(topic)
    wait_until(lambda: len(driver.partitions({})) == 3, "the broker tells of it")
    partitions = driver.partitions({topic.name: {"0": 0, "1": 0}})
    reader = driver.openTogether(partitions, until=logged)
    assert reader is not None
    assert len(batches_of(reader, 6)) == 6
    wait_until(lambda: reader.read(0.1) is None and reader.exhausted, "the end")
    assert driver.mergeOffsets(reader.offsets) == logged
    reader.close()
    driver.stop()
