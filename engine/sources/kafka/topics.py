"""What the driver asks the brokers: which partitions there are, and where they begin and end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

from engine.clients.kafka import (
    PAUSE,
    PAUSE_MAX,
    SERVERS,
    fitting_pause,
    import_client,
    is_passing,
    made_client,
    speaking_kafka,
)
from engine.clients.kafka_complaints import Complaints
from engine.errors import ConfigError, SourceError, SourceUnavailableError
from engine.sources.kafka.offsets import EARLIEST, LATEST, Positions, TopicPartition
from engine.sources.kafka.options import OWNER, Subscription

_TUNED: Final = {
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "auto.offset.reset": "error",
    "enable.partition.eof": "true",
    "isolation.level": "read_committed",
    "check.crcs": "true",  # as the Java client does: a damaged record is no row
    # By default librdkafka stops fetching for up to a second once 100,000 records wait for us.
    "fetch.queue.backoff.ms": "5",
    # By default brokers that are away are looked for twenty times a second, and one that is back
    # may be looked for after ten.
    PAUSE: "500",
    PAUSE_MAX: "1000",
}
TRIES_S: tuple[float, ...] = (1.0, 2.0, 5.0)
"""So long each try of a question may take, connecting included."""
AWAY_S = GONE_S = 30.0
"""Without an answer for so long, the brokers are away. A broker that is restarted, or a leader that
moves, is back before: the client finds it again by itself, and tasks that wait for records need not
know. What takes longer ends the run, and is borne and told as every outage of a source
(:mod:`engine.execution.restart_budget`).

What they leave out for so long is gone: one that has just started may tell what was there long ago,
and then does."""


class KafkaTopics:
    """The topics of one subscription. Safe to use from several threads; asks when first used.

    :param client: settings of librdkafka.
    """

    def __init__(self, client: Mapping[str, str], subscription: Subscription) -> None:
        self._client, self._subscription = dict(client), subscription
        self._lock = threading.Lock()
        self._complaints = Complaints()
        self._consumer: Any = None

    def __reduce__(self) -> Any:
        return KafkaTopics, (self._client, self._subscription)

    def partitions(self, known: Collection[TopicPartition] = ()) -> list[TopicPartition]:
        """All that are read now, in order. Of a pattern that may be none.

        :param known: were there before. Of those that are assigned, only they may be missing.
        :raises SourceUnavailableError: no broker answers, a topic is not there, or a partition has
            no leader.
        :raises ConfigError: a partition that is assigned is not there, nor was.
        :raises SourceError: the brokers refuse to tell.
        """
        wanted = self._subscription
        there: dict[str, list[int]] = {}
        for name, topic in self._metadata().items():
            if topic.error is not None:
                self._refuse(name, topic.error)
            leaderless = [number for number, each in topic.partitions.items() if each.leader < 0]
            if leaderless:
                raise SourceUnavailableError(
                    self._says(f"partition {TopicPartition(name, min(leaderless))} has no leader.")
                )
            there[name] = sorted(topic.partitions)
        if not wanted.assigned:
            return [
                TopicPartition(name, number) for name in sorted(there) for number in there[name]
            ]
        missing = [each for each in wanted.assigned if each.partition not in there[each.topic]]
        if unknown := [each for each in missing if each not in known]:
            raise ConfigError(
                self._says(f"there is no partition {', '.join(map(str, unknown))}."),
                hint="Correct the option assign.",
            )
        return [each for each in wanted.assigned if each not in missing]

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
            lambda consumer, wait_s: consumer.offsets_for_times(asked, timeout=wait_s),
        )
        positions: Positions = {}
        for each in found:
            at = TopicPartition(each.topic, each.partition)
            if each.error is not None:
                raise SourceUnavailableError(self._says(f"{at}: {each.error.str()}."))
            positions[at] = int(each.offset)
        return positions

    def close(self) -> None:
        """Release the connection. The next question opens it again."""
        with self._lock:
            self._release()

    def _release(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

    def _metadata(self) -> dict[str, Any]:
        """Of the topics that are read, by name."""
        wanted, what = self._subscription, "cannot tell its topics"
        if wanted.pattern:
            found = self._ask(what, lambda consumer, wait_s: consumer.list_topics(timeout=wait_s))
            # One that may not be described is none of ours, or there would be no error.
            return {
                name: topic
                for name, topic in found.topics.items()
                if topic.error is None and wanted.has(name)
            }
        named: dict[str, Any] = {}
        for name in wanted.names:  # by name: of others nothing is told, and there may be thousands
            named |= self._ask(what, _topic(name)).topics
        return named

    def _refuse(self, name: str, error: Any) -> None:
        if error.name() in ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC"):
            raise SourceUnavailableError(
                self._says(f"there is no topic {name}."),
                hint="Create it, or correct the option subscribe or assign.",
            )
        kind = SourceUnavailableError if is_passing(error) else SourceError
        raise kind(self._says(f"topic {name}: {error.str()}."))

    def _ask(self, what: str, question: Callable[[Any, float], Any]) -> Any:
        """Ask again where there is no answer: the client may be connecting still. What only people
        can mend is not tried again; the next question has another client, which reads certificates
        anew."""
        complaints = self._complaints
        with (
            self._lock,
            speaking_kafka(SourceUnavailableError, SourceError, self._says(what), complaints),
        ):
            kafka = import_client(OWNER)
            if self._consumer is None:
                settings = {**self._client, "error_cb": complaints}
                self._consumer = made_client(kafka.Consumer, settings, OWNER)
                complaints.is_for_people = False  # that was the client before
            try:
                return self._tried(question, kafka.KafkaException)
            except kafka.KafkaException:
                self._release()
                raise

    def _tried(self, question: Callable[[Any, float], Any], failure: type[Exception]) -> Any:
        for wait_s in TRIES_S[:-1]:
            began_s = time.monotonic()
            try:
                return self._answer(question, wait_s)
            except failure as exc:
                if self._complaints.is_for_people or not is_passing(exc.args[0]):
                    raise
            # A leader that moves, or that a new topic has not yet, is told at once.
            threading.Event().wait(max(0.0, began_s + wait_s - time.monotonic()))
        return self._answer(question, TRIES_S[-1])

    def _answer(self, question: Callable[[Any, float], Any], wait_s: float) -> Any:
        try:
            answer = question(self._consumer, wait_s)
        except Exception:
            self._consumer.poll(0)  # the reasons are told now
            raise
        self._complaints.clear()
        return answer

    def _says(self, what: str) -> str:
        return f"Kafka at {self._client[SERVERS]}: {what}"


def _topic(name: str) -> Callable[[Any, float], Any]:
    return lambda consumer, wait_s: consumer.list_topics(name, timeout=wait_s)


def ends(client: Mapping[str, str], partitions: Iterable[TopicPartition]) -> Positions:
    """The offset behind each partition's last record, of a transaction that is open or not.

    :raises SourceUnavailableError: no broker answers, or a partition has no leader.
    :raises SourceError: it refuses.
    """
    everything = {**client, "isolation.level": "read_uncommitted"}
    topics = KafkaTopics(everything, Subscription())
    try:
        return topics.latest(partitions)
    finally:
        topics.close()


def consumer_settings(client: Mapping[str, str]) -> dict[str, str]:
    """Of a consumer whose offsets are the checkpoint's. What the user has set counts."""
    return {**_TUNED, **fitting_pause(client, _TUNED), **client}
