"""Checkpoints that Spark 4.2 wrote with its own Kafka source: the query goes on from them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from engine.checkpoint.checkpoint import Checkpoint
from tests.connectors.kafka.queries import Kept, committed, drained, start
from tests.connectors.kafka.topics import Topic
from tests.servers.kafka import Cluster

GOLDENS = Path(__file__).parents[2] / "golden/checkpoints"
READ = {"in": {"0": 9600, "1": 10400}}


@pytest.fixture(scope="module")
def topic(kafka: Cluster) -> Topic:
    """What Spark had read, and a little more."""
    if "in" in AdminClient({"bootstrap.servers": kafka.bootstrap}).list_topics(timeout=30).topics:
        pytest.skip("the brokers of KAFKA_BOOTSTRAP have a topic named in")
    topic = Topic(kafka, "in", 2)
    topic.send(10_405)
    return topic


@pytest.mark.parametrize("mode", ["microbatch", "continuous"])
def test_a_query_goes_on_where_spark_has_ended(topic: Topic, tmp_path: Path, mode: str) -> None:
    folder = shutil.copytree(GOLDENS / f"spark-4.2-kafka-{mode}", tmp_path / mode)
    newest = max(Checkpoint(str(folder)).commits.ids())
    first = (folder / "sources/0/0").read_bytes() if mode == "microbatch" else b""
    assert committed(folder) == READ
    sink = Kept()
    query = start(topic, folder, sink, startingOffsets="latest")
    query.processAllAvailable()
    drained(query)
    assert sink.values == {"in-0": list(range(9600, 10_405)), "in-1": list(range(10_400, 10_405))}
    assert min(epoch for epoch, rows in sink.epochs.items() if rows) > newest
    assert committed(folder) == topic.offset
    entry = Checkpoint(str(folder)).offsets.get(max(Checkpoint(str(folder)).offsets.ids()))
    assert entry is not None
    if mode == "microbatch":
        assert (folder / "sources/0/0").read_bytes() == first == b'\0v1\n{"in":{"0":0,"1":0}}'
        assert entry.metadata is not None
        assert entry.metadata["conf"]["spark.sql.shuffle.partitions"] == "2"
    else:
        assert entry.metadata is None
