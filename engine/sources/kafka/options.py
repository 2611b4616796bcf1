"""The options of the Kafka source: Spark's own, checked before anything is read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from engine.base.connector_options import Options
from engine.clients.kafka import PREFIX, SERVERS, client_settings, without_effect
from engine.errors import ConfigError
from engine.expressions.texts.java_regex.errors import UnsupportedRegexError
from engine.expressions.texts.java_regex.pattern import JavaRegex, compile_java_regex
from engine.sources.kafka.offsets import (
    EARLIEST,
    LATEST,
    Positions,
    TopicPartition,
    partitions_of,
    positions_of,
)

OWNER: Final = "source kafka"
_STRATEGIES: Final = ("subscribe", "subscribePattern", "assign")
_SPARKS_ALONE: Final = {
    "auto.offset.reset": "Set the option startingOffsets instead: the source follows its offsets "
    "itself, in the checkpoint.",
    "enable.auto.commit": "The source's offsets are in the checkpoint, not in Kafka.",
    "enable.auto.offset.store": "The source's offsets are in the checkpoint, not in Kafka.",
    "enable.partition.eof": "The source is told by it where partitions end, and where it stands.",
    "interceptor.classes": "The source reads bytes, and nothing else.",
    "key.deserializer": "Keys are bytes: use CAST(key AS STRING) or a function of the DataFrame.",
    "value.deserializer": "Values are bytes: use CAST(value AS STRING) or a function of the "
    "DataFrame.",
}
_BATCH_ONLY: Final = ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp")
_OF_A_TRIGGER: Final = ("minOffsetsPerTrigger", "maxTriggerDelay", "maxBytesPerTrigger")
TRIGGER_ONLY: Final = ("maxOffsetsPerTrigger", *_OF_A_TRIGGER)
"""They say how large a micro-batch is; a continuous query has none."""
_JAVA_CONSUMER: Final = (
    "kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs",
)  # fmt: skip
_INTERNAL: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
_READS_INTERNAL: Final = "exclude.internal.topics"
_JAVA: Final = 17
"""Names of topics are ASCII, for which patterns mean the same in all versions."""


@lru_cache
def _compiled(pattern: str) -> JavaRegex:
    return compile_java_regex(pattern, _JAVA)


@dataclass(frozen=True)
class Subscription:
    """Which partitions are read: exactly one of the three.

    :param topics: all partitions of these.
    :param pattern: all partitions of topics whose whole name matches, as Java matches.
    :param assigned: these.
    :param internal: a pattern may match Kafka's own topics, too.
    """

    topics: tuple[str, ...] = ()
    pattern: str = ""
    assigned: tuple[TopicPartition, ...] = ()
    internal: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The topics that are named; none with a pattern."""
        return self.topics or tuple(dict.fromkeys(each.topic for each in self.assigned))

    def reads(self, at: TopicPartition) -> bool:
        """Whether this partition is read, if it is there."""
        return at in self.assigned if self.assigned else self.has(at.topic)

    def has(self, topic: str) -> bool:
        """Whether partitions of this topic are read."""
        if not self.pattern:
            return topic in self.names
        if topic in _INTERNAL and not self.internal:
            return False
        return _compiled(self.pattern).plain.pattern.fullmatch(topic) is not None


@dataclass(frozen=True)
class Start:
    """Where a new query begins.

    :param everywhere: :data:`EARLIEST` or :data:`LATEST`; None if one of the others says it.
    :param positions: of all partitions; -1 and -2 are resolved later.
    :param timestamp_ms: each partition's first record of this time or later.
    :param timestamps_ms: the same, a time per partition.
    :param or_latest: a partition without such a record begins at its end; else that is an error.
    """

    everywhere: int | None = None
    positions: Positions | None = None
    timestamp_ms: int | None = None
    timestamps_ms: Positions | None = None
    or_latest: bool = False


@dataclass(frozen=True)
class KafkaSourceOptions:
    """What was asked for.

    :param client: settings of librdkafka, those of the broker and of its security among them.
    :param fails_on_data_loss: records that are gone before they were read are an error; else they
        are skipped, and the log says how many.
    :param max_per_trigger: so many records at most are in a micro-batch.
    :param of_a_trigger: the other options for micro-batches that are set.
    :param ignored: options that have no effect here.
    :param how_read: options of the client that do not tell which data is read.
    """

    client: Mapping[str, str]
    subscription: Subscription
    start: Start
    fails_on_data_loss: bool
    includes_headers: bool
    max_per_trigger: int | None = None
    of_a_trigger: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    how_read: tuple[str, ...] = ()

    @property
    def servers(self) -> str:
        return self.client[SERVERS]


def source_options(given: Mapping[str, str]) -> KafkaSourceOptions:
    """:raises ConfigError: an option is missing, wrong, or cannot be honoured."""
    for name in given:
        reason = _SPARKS_ALONE.get(name.lower().removeprefix(PREFIX))
        if name.lower().startswith(PREFIX) and reason is not None:
            raise ConfigError(f"Option {name} of {OWNER} is not supported.", hint=reason)
    taken = Options(OWNER, {k: v for k, v in given.items() if not k.lower().startswith(PREFIX)})
    client = client_settings(OWNER, given)
    client.setdefault("group.id", taken.text("groupIdPrefix") or "continuous-kafka-source")
    internal = client.pop(_READS_INTERNAL, "true").strip().lower() == "false"
    for name in _BATCH_ONLY:
        if taken.text(name) is not None:
            raise ConfigError(
                f"Option {name} of {OWNER} is for batch queries: a stream has no end.",
                hint="Drain the query when it has come to where it should end "
                "(OffsetsCommittedSensor waits for an offset).",
            )
    _refuse_splits(taken)
    options = KafkaSourceOptions(
        client=client,
        subscription=_subscription(taken, internal),
        start=_start(taken),
        fails_on_data_loss=taken.boolean("failOnDataLoss", True),
        includes_headers=taken.boolean("includeHeaders", False),
        max_per_trigger=taken.optional_integer("maxOffsetsPerTrigger", minimum=1),
        of_a_trigger=tuple(name for name in _OF_A_TRIGGER if taken.text(name) is not None),
        ignored=(
            *(name for name in _JAVA_CONSUMER if taken.text(name) is not None),
            *without_effect(given),
        ),
        how_read=tuple(name for name in given if name.lower().startswith(PREFIX)),
    )
    taken.refuse_others()
    return options


def _refuse_splits(taken: Options) -> None:
    for name in ("minPartitions", "maxRecordsPerPartition"):
        if taken.text(name) is not None:
            raise ConfigError(
                f"Option {name} of {OWNER} cannot be honoured: a partition of Kafka is read by one "
                "task, in its order.",
                hint="Give the topic more partitions; the option partitionsPerTask puts several "
                "into one task.",
            )


def _subscription(taken: Options, internal: bool) -> Subscription:
    given = {name: text for name in _STRATEGIES if (text := taken.text(name)) is not None}
    if len(given) != 1:
        raise ConfigError(
            f"{OWNER} needs exactly one of the options {', '.join(_STRATEGIES)}; "
            f"{', '.join(given) or 'none'} is set.",
            hint='Set option("subscribe", "orders,payments").',
        )
    ((name, text),) = given.items()
    if name == "assign":
        try:
            return Subscription(assigned=tuple(partitions_of(text)))
        except ValueError as exc:
            raise taken.wrong(name, text, f'like {{"orders":[0,1]}} ({exc})') from exc
    if name == "subscribePattern":
        try:
            _compiled(text)
        except UnsupportedRegexError as exc:
            raise taken.wrong(name, text, f"a regular expression ({exc})") from exc
        if text:
            return Subscription(pattern=text, internal=internal)
    topics = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not topics:
        raise taken.wrong(name, text, "at least one topic")
    return Subscription(topics=topics)


def _start(taken: Options) -> Start:
    offsets = taken.text("startingOffsets", "latest") or ""
    timestamp = taken.optional_integer("startingTimestamp", minimum=0)
    by_partition = taken.text("startingOffsetsByTimestamp")
    or_latest = (
        taken.choice("startingOffsetsByTimestampStrategy", "error", ("error", "latest")) == "latest"
    )
    if timestamp is not None:  # Spark's precedence
        return Start(timestamp_ms=timestamp, or_latest=or_latest)
    if by_partition is not None:
        times = _parsed(taken, "startingOffsetsByTimestamp", by_partition)
        if any(time < 0 for time in times.values()):
            raise taken.wrong("startingOffsetsByTimestamp", by_partition, "of times from 0")
        return Start(timestamps_ms=times, or_latest=or_latest)
    word = offsets.strip().lower()
    if word in ("earliest", "latest"):
        return Start(everywhere=EARLIEST if word == "earliest" else LATEST)
    positions = _parsed(taken, "startingOffsets", offsets)
    if any(position < EARLIEST for position in positions.values()):
        raise taken.wrong("startingOffsets", offsets, "of offsets from 0, -1 or -2")
    return Start(positions=positions)


def _parsed(taken: Options, name: str, text: str) -> Positions:
    try:
        found: Any = json.loads(text)
        return positions_of(found)
    except ValueError as exc:
        words = "earliest, latest, or " if name == "startingOffsets" else ""
        raise taken.wrong(
            name, text, f'{words}like {{"orders":{{"0":23,"1":-1}}}} ({exc})'
        ) from exc
