"""Topics whose records tell where they are: the values of a partition are 0, 1, 2 and so on."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Sequence
from typing import Any

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import NewPartitions

from tests.servers.kafka import READY_S, Cluster

_NUMBERS = itertools.count()


def produced(kafka: Cluster, topic: str, values: Iterable[Any], **rest: Any) -> None:
    """Write records, and see that they are there."""
    errors: list[Any] = []
    # A slow answer of the broker must not make records of one: positions are what tests count by.
    settings = {"bootstrap.servers": kafka.bootstrap, "linger.ms": 5, "enable.idempotence": True}
    producer = Producer(settings)
    for value in values:
        producer.produce(
            topic, value, on_delivery=lambda error, _: error and errors.append(error), **rest
        )
    assert producer.flush(READY_S) == 0
    assert not errors, errors


class Topic:
    """:ivar counts: so many records each partition has."""

    def __init__(self, kafka: Cluster, name: str, partitions: int) -> None:
        self.kafka, self.name = kafka, name
        self.counts = [0] * partitions
        kafka.create_topic(name, partitions)

    @classmethod
    def new(cls, kafka: Cluster, partitions: int) -> Topic:
        """With a name that no other has."""
        return cls(kafka, f"t{os.getpid()}-{next(_NUMBERS)}", partitions)

    def send(self, count: int) -> None:
        """So many more to each partition."""
        for partition, have in enumerate(self.counts):
            values = [str(number) for number in range(have, have + count)]
            produced(self.kafka, self.name, values, partition=partition)
            self.counts[partition] += count

    def widen(self, partitions: int) -> None:
        """Have so many partitions."""
        admin = self.kafka.admin()  # its end would be that of what it was asked for
        wanted = admin.create_partitions([NewPartitions(self.name, partitions)])
        wanted[self.name].result(READY_S)
        self.counts += [0] * (partitions - len(self.counts))

    def expire(self, before: Sequence[int]) -> None:
        """Delete the records before these offsets."""
        places = [TopicPartition(self.name, number, offset) for number, offset in enumerate(before)]
        admin = self.kafka.admin()
        for done in admin.delete_records(places).values():
            done.result(READY_S)

    def delete(self) -> None:
        admin = self.kafka.admin()
        admin.delete_topics([self.name])[self.name].result(READY_S)

    @property
    def offset(self) -> dict[str, dict[str, int]]:
        """Behind all that were sent."""
        return {self.name: {str(number): count for number, count in enumerate(self.counts)}}
