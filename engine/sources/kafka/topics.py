"""What the driver asks the brokers: which partitions there are, and where they begin and end."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any, Final

from engine.clients.kafka import SERVERS, import_client, made_client, speaking_kafka
from engine.errors import SourceError, SourceUnavailableError
from engine.sources.kafka.offsets import EARLIEST, LATEST, Positions, TopicPartition
from engine.sources.kafka.options import OWNER, Subscription

ASK_S: Final = 30.0
"""So long a question may take, connecting included."""


class KafkaTopics:
    """The topics of one subscription. Safe to use from several threads; asks when first used.

    :param client: settings of librdkafka.
    """

    def __init__(self, client: Mapping[str, str], subscription: Subscription) -> None:
        self._client, self._subscription = dict(client), subscription
        self._lock = threading.Lock()
        self._consumer: Any = None

    def __reduce__(self) -> Any:
        return KafkaTopics, (self._client, self._subscription)

    def partitions(self) -> list[TopicPartition]:
        """All that are read now, in order.

        :raises SourceUnavailableError: no broker answers.
        :raises SourceError: it refuses; or a topic that is named is not there.
        """
        wanted = self._subscription
        metadata = self._ask(
            "cannot tell its topics", lambda consumer: consumer.list_topics(timeout=ASK_S)
        )
        there: dict[str, list[int]] = {}
        for name, topic in metadata.topics.items():
            if topic.error is not None:
                if wanted.has(name) and not wanted.pattern:
                    raise SourceUnavailableError(self._says(f"topic {name}: {topic.error.str()}"))
            elif wanted.has(name):
                there[name] = sorted(topic.partitions)
        missing = sorted({*wanted.topics, *(each.topic for each in wanted.assigned)} - set(there))
        if missing:
            raise SourceUnavailableError(
                self._says(f"there is no topic {', '.join(missing)}"),
                hint="Create it, or correct the option subscribe or assign.",
            )
        if wanted.assigned:
            unknown = [each for each in wanted.assigned if each.partition not in there[each.topic]]
            if unknown:
                raise SourceError(
                    self._says(f"there is no partition {', '.join(map(str, unknown))}"),
                    hint="Correct the option assign.",
                )
            return list(wanted.assigned)
        return [TopicPartition(name, number) for name in sorted(there) for number in there[name]]

    def earliest(self, partitions: Iterable[TopicPartition]) -> Positions:
        """The offset of the first record that is left."""
        return self.at(dict.fromkeys(partitions, EARLIEST))

    def latest(self, partitions: Iterable[TopicPartition]) -> Positions:
        """The offset behind the last record that may be read: with ``read_committed``, before the
        first transaction that is open."""
        return self.at(dict.fromkeys(partitions, LATEST))

    def at(self, times: Positions) -> Positions:
        """The offset of each partition's first record of a time, in milliseconds since 1970, or
        later; -1 if it has none. The times -1 and -2 stand for the end and the beginning.

        :raises SourceUnavailableError: no broker answers, or a partition has no leader.
        :raises SourceError: it refuses.
        """
        if not times:
            return {}
        kafka = import_client(OWNER)
        asked = [kafka.TopicPartition(*each, time) for each, time in times.items()]
        found = self._ask(
            "cannot tell where its partitions begin and end",
            lambda consumer: consumer.offsets_for_times(asked, timeout=ASK_S),
        )
        positions: Positions = {}
        for each in found:
            if each.error is not None:
                raise SourceUnavailableError(
                    self._says(f"{each.topic}-{each.partition}: {each.error.str()}")
                )
            positions[TopicPartition(each.topic, each.partition)] = int(each.offset)
        return positions

    def close(self) -> None:
        """Release the connection."""
        with self._lock:
            if self._consumer is not None:
                self._consumer.close()
                self._consumer = None

    def _ask(self, what: str, question: Any) -> Any:
        with (
            self._lock,
            speaking_kafka(SourceUnavailableError, SourceError, self._says(what)),
        ):
            if self._consumer is None:
                kafka = import_client(OWNER)
                self._consumer = made_client(kafka.Consumer, self._client, OWNER)
            return question(self._consumer)

    def _says(self, what: str) -> str:
        return f"Kafka at {self._client[SERVERS]}: {what}"
