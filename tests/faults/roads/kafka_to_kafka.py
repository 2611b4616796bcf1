"""Kafka to Kafka, exactly once. What is open may time out meanwhile, some of an epoch's perhaps
when others are committed."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import ClassVar

from pyspark.sql.types import StructType

from engine.checkpoint.checkpoint import Checkpoint
from engine.clients import kafka_transactions
from engine.clients.kafka_transactions import KafkaTransactions
from engine.query.binding import bind_writer
from engine.sinks.contract import SinkBinding
from engine.sinks.kafka.data_source import KafkaSink
from tests.faults.roads import kafka_mutants
from tests.faults.roads.from_kafka import FromKafka
from tests.faults.roads.kafka_topics import COLUMNS, all_of
from tests.faults.roads.road import BETWEEN, PLACES, Meanwhile, Setup

TRANSACTION_MS = 10_000
"""Longer than an epoch may take on a busy machine, shorter than the broker is away at times."""
GONE_S = 2.0 + TRANSACTION_MS / 1000
"""By then the broker has aborted what is not ended."""
TOLD = "transactions.told"
"""Behind each request: first those that shut out earlier tasks, then those that end an epoch."""
ABORTED = "transactions aborted meanwhile"


class KafkaToKafka(FromKafka):
    """Each world has topics of its own."""

    level = "L5 Kafka to Kafka"
    places = (*PLACES, TOLD)
    between = (*BETWEEN, TOLD)
    visits = (1, 2, 5, 6, 7, 11, 12, 13, 14)
    mutants = kafka_mutants.MUTANTS
    brought_out: ClassVar = {
        kafka_mutants.GONE: (ABORTED,),
        kafka_mutants.BLINDLY: (TOLD,),
        kafka_mutants.FORGETS: (TOLD, ABORTED),
    }

    def make(self, name: str) -> dict[str, str]:
        return {**super().make(name), "sink": self.new_topic(f"out-{name}")}

    def came_out(self, setup: Setup) -> Counter[bytes]:
        return all_of(setup.where["bootstrap"], setup.where["sink"])

    @staticmethod
    def sink(setup: Setup) -> SinkBinding:
        return sink_of(setup, COLUMNS)

    def meanwhile(self, setup: Setup, draw: Callable[[], float]) -> Mapping[str, Meanwhile]:
        def abort_some() -> None:
            """As the broker does in time: each of them, or some."""
            share = 0.5 if draw() < 0.5 else 1.0
            _end_open(setup, lambda: draw() < share)

        return {
            ABORTED: Meanwhile(14, abort_some),
            "transactions timed out": Meanwhile(1, lambda: _pause(GONE_S)),
        }

    def at_end(self, setup: Setup) -> Mapping[str, int]:
        # Else readers would wait until they time out.
        return {"transactions left open by a drain": _end_open(setup, lambda: True)}


def sink_of(setup: Setup, columns: StructType) -> SinkBinding:
    """The topic that the road ends in."""
    # One after the other, so that a process can be killed between two of an epoch.
    kafka_transactions.AT_ONCE = 1  # type: ignore[misc]
    sink = KafkaSink(
        {
            "kafka.bootstrap.servers": setup.where["bootstrap"],
            "topic": setup.where["sink"],
            "delivery": "exactly-once",
            "kafka.transaction.timeout.ms": str(TRANSACTION_MS),
        }
    )
    return bind_writer(sink.streamWriter(columns, overwrite=False), "kafka")


def _end_open(setup: Setup, which: Callable[[], bool]) -> int:
    """Abort transactions of the query that are open; how many."""
    transactions = KafkaTransactions({"bootstrap.servers": setup.where["bootstrap"]})
    query_id = Checkpoint(setup.checkpoint).query_id()
    found = transactions.describe(transactions.ids(f"continuous-{query_id}-"))
    doomed = [id for id, each in found.items() if each.is_open and which()]
    transactions.fence(doomed)
    transactions.close()
    return len(doomed)


def _pause(seconds: float) -> None:
    """A fault has to last for a while."""
    threading.Event().wait(seconds)


ROAD = KafkaToKafka
