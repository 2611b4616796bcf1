"""All roads that begin at a topic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from engine.execution.definition import StreamBinding
from tests.faults.roads import kept
from tests.faults.roads.kafka_topics import PARTITIONS, SETTINGS, all_of, feeding, stream_of
from tests.faults.roads.road import Road, Setup
from tests.servers.kafka import Kafka, running_kafka


def _kafka(folder: Path) -> AbstractContextManager[Kafka]:
    return running_kafka(folder / "kafka", SETTINGS)


class FromKafka(Road):
    """:ivar bootstrap: of the broker."""

    @contextmanager
    def serving(self, folder: Path) -> Iterator[None]:
        with kept.serving("kafka", folder, _kafka) as kafka:
            self._kafka, self.bootstrap = kafka, kafka.bootstrap
            self.servers["broker"] = kafka
            yield

    def make(self, name: str) -> dict[str, str]:
        return {"bootstrap": self.bootstrap, "source": self.new_topic(f"in-{name}")}

    def new_topic(self, name: str) -> str:
        """Its name."""
        self._kafka.create_topic(name, PARTITIONS)
        return name

    def feeding(self, setup: Setup) -> AbstractContextManager[None]:
        return feeding(setup.where["bootstrap"], setup.where["source"])

    def went_in(self, setup: Setup) -> Counter[bytes]:
        return all_of(setup.where["bootstrap"], setup.where["source"])

    @staticmethod
    def stream(setup: Setup) -> StreamBinding:
        return stream_of(setup.where["bootstrap"], setup.where["source"])
