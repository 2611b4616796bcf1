"""The driver's side of the Kafka source: where a query begins, which partitions there are, whether
what is to be read is still there, and where the topics end."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

from engine.errors import ConfigError, OffsetOutOfRangeError, SourceError, SourceUnavailableError
from engine.sources.contract import (
    TUNING_OPTIONS,
    DataSourceContinuousReader,
    Offset,
    PartitionReader,
)
from engine.sources.kafka import topics
from engine.sources.kafka.nothing_yet import NOTHING_YET, NothingYet, NothingYetReader
from engine.sources.kafka.offsets import (
    EARLIEST,
    LATEST,
    Positions,
    TopicPartition,
    offset_of,
    positions_of,
)
from engine.sources.kafka.options import OWNER, TRIGGER_ONLY, KafkaSourceOptions
from engine.sources.kafka.partition_reader import (
    KafkaPartition,
    KafkaPartitionsReader,
)
from engine.sources.kafka.rows import Columns
from engine.sources.kafka.say_gone import say_gone
from engine.sources.offset_order import reached
from engine.sources.one_partition import OnePartition

logger: Final = logging.getLogger(__name__)
LOOK_S = 3.0
"""The brokers are asked so often for new partitions, and where the topics end."""
AGAIN_S = 1.0
"""So often they are for partitions that one of them has left out."""
_LOOKING_SHARE: Final = 0.05
"""But asking may not take more than this share of the time, however many topics there are."""
_TUNING: Final = (
    "startingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy", "failOnDataLoss",
    "groupIdPrefix", "includeHeaders", *TRIGGER_ONLY,
)  # fmt: skip


class KafkaReader(DataSourceContinuousReader):
    """See the module."""

    recordColumns = ("offset",)

    def __init__(self, options: KafkaSourceOptions, columns: Columns) -> None:
        self._options, self._columns = options, columns
        self.tuningOptions = (*TUNING_OPTIONS, *_TUNING, *options.how_read)
        self._client = topics.consumer_settings(options.client)
        self._topics = topics.KafkaTopics(self._client, options.subscription)
        self._reads: list[TopicPartition] = []
        """By this run."""
        self._there: frozenset[TopicPartition] = frozenset()
        """When they were looked at last."""
        self._end: Offset | None = None
        self._next_look_s = 0.0
        self._away_since_s: float | None = None
        self._lacks_since_s: float | None = None

    def __reduce__(self) -> Any:
        return type(self), (self._options, self._columns)  # what was seen is the driver's

    # -- where it begins ------------------------------------------------------------------------

    def initialOffset(self) -> Offset:
        partitions = self._topics.partitions()
        start = self._options.start
        if start.positions is not None:
            found = self._resolved(self._complete(start.positions, partitions))
        elif start.timestamps_ms is not None:
            found = self._at(self._complete(start.timestamps_ms, partitions))
        elif start.timestamp_ms is not None:
            found = self._at(dict.fromkeys(partitions, start.timestamp_ms))
        else:
            assert start.everywhere is not None
            found = self._topics.at(dict.fromkeys(partitions, start.everywhere))
        return offset_of(found.items())

    def _complete(self, given: Positions, partitions: Sequence[TopicPartition]) -> Positions:
        """Spark's rule: offsets that are given are given for all partitions."""
        if set(given) != set(partitions):
            raise ConfigError(
                f"{OWNER} is to begin at offsets of {_names(given)}, and the subscription has "
                f"{_names(partitions)}.",
                hint="Name all partitions, and no others; -1 stands for latest, -2 for earliest.",
            )
        return given

    def _resolved(self, given: Positions) -> Positions:
        words = {at: value for at, value in given.items() if value in (EARLIEST, LATEST)}
        return {**given, **self._topics.at(words)}

    def _at(self, times: Positions) -> Positions:
        found = self._topics.at(times)
        without = [at for at, position in found.items() if position < 0]
        if without and not self._options.start.or_latest:
            raise ConfigError(
                f"Kafka at {self._options.servers}: {_names(without)} has no record of the time at "
                "which the query is to begin, or later.",
                hint="Choose an earlier time, or set startingOffsetsByTimestampStrategy to latest.",
            )
        return {**found, **self._topics.latest(without)}

    # -- which partitions -----------------------------------------------------------------------

    def partitions(self, start: Offset) -> Sequence[KafkaPartition | NothingYet]:
        positions = self._positions(start)
        now = self._see_what_is_there(positions)
        if gone := set(positions) - set(now):
            self._say_deleted(sorted(gone))
        earliest, latest = self._topics.earliest(now), self._topics.latest(now)
        known = {at: position for at, position in positions.items() if at in earliest}
        self._see_that_they_are_there(known, earliest, latest)
        self._see(now, latest)
        self._reads, self._away_since_s, self._lacks_since_s = now, None, None
        found = [KafkaPartition(at, known.get(at, earliest[at])) for at in now]
        return found or [NOTHING_YET]

    def _see_what_is_there(self, known: Iterable[TopicPartition]) -> list[TopicPartition]:
        """What is known and left out is asked for again, of other brokers as it comes, before it
        counts as gone: to go on without it, and find it again, would be to read all of it again."""
        wanted = set(filter(self._options.subscription.reads, known))
        began_s, is_said = time.monotonic(), False
        while time.monotonic() - began_s < topics.GONE_S:
            now = self._topics.partitions(wanted)
            if not (lacks := wanted.difference(now)):
                return now
            if not is_said:
                self._say_left_out(lacks)
            is_said = True
            threading.Event().wait(AGAIN_S)
        return self._topics.partitions()

    def _is_old(self, now: Collection[TopicPartition], asked_s: float) -> bool:
        """Whether partitions are left out, and were there a moment ago. A topic may be deleted; its
        partitions never become fewer."""
        named = {each.topic for each in now} if self._options.subscription.pattern else None
        lacks = {each for each in self._reads if named is None or each.topic in named}.difference(
            now
        )
        if not lacks:
            self._lacks_since_s = None
            return False
        if self._lacks_since_s is None:
            self._lacks_since_s = asked_s
            self._say_left_out(lacks)
        return time.monotonic() - self._lacks_since_s < topics.GONE_S

    def _say_left_out(self, lacks: Collection[TopicPartition]) -> None:
        logger.warning(
            "Kafka at %s: a broker tells nothing of %s, which was there: others are asked for "
            "%g s before it counts as gone",
            self._options.servers, _names(lacks), topics.GONE_S,
        )  # fmt: skip

    def _see_that_they_are_there(
        self, positions: Positions, earliest: Positions, latest: Positions
    ) -> None:
        """Correct those that are not, if that is wanted.

        :raises OffsetOutOfRangeError: it is not.
        """
        behind = [at for at, position in positions.items() if position > latest[at]]
        # Behind what may be read there may be more: who has read it does not wait for transactions.
        ends = {**latest, **topics.ends(self._client, behind)}
        for at, position in positions.items():
            if not earliest[at] <= position <= ends[at]:
                say_gone(
                    self._options.servers, at, position, earliest[at], ends[at],
                    fails=self._options.fails_on_data_loss,
                )  # fmt: skip
                positions[at] = earliest[at]

    def needsReconfiguration(self) -> bool:
        began_s = time.monotonic()
        if began_s < self._next_look_s:
            return False
        try:
            now = self._topics.partitions(self._reads)
            is_old = self._is_old(now, began_s)
            if not is_old:  # else what it leaves out would count as read
                self._see(now, self._topics.latest(now))
        except SourceUnavailableError as exc:
            self._next_look_s = time.monotonic() + LOOK_S
            self._bear(exc, began_s)
            return False
        took_s = time.monotonic() - began_s
        self._next_look_s = began_s + max(LOOK_S, took_s / _LOOKING_SHARE)
        if self._away_since_s is not None:
            logger.warning("Kafka at %s is back", self._options.servers)
            self._away_since_s = None
        return not is_old and now != self._reads

    def _bear(self, error: SourceUnavailableError, asked_s: float) -> None:
        """:raises SourceUnavailableError: the brokers are away for too long."""
        if self._away_since_s is None:
            self._away_since_s = asked_s
            logger.warning("the query goes on without an answer, for now: %s", error)
        elif time.monotonic() - self._away_since_s >= topics.AWAY_S:
            self._away_since_s = None
            raise error

    def _say_deleted(self, gone: Sequence[TopicPartition]) -> None:
        if self._options.fails_on_data_loss:
            raise OffsetOutOfRangeError(
                f"Kafka at {self._options.servers}: {_names(gone)} is gone. Records of it may have "
                "been missed.",
                hint='To go on without them, set option("failOnDataLoss", "false").',
            )
        logger.warning(
            "%s is gone; failOnDataLoss is false: the query goes on without", _names(gone)
        )

    # -- reading --------------------------------------------------------------------------------

    def open(
        self, partition: KafkaPartition | NothingYet, until: Offset | None = None
    ) -> PartitionReader:
        if isinstance(partition, NothingYet):
            return NothingYetReader(is_bounded=until is not None)
        return OnePartition(self._open([partition], until))

    def openTogether(
        self, partitions: Sequence[KafkaPartition | NothingYet], until: Offset | None = None
    ) -> KafkaPartitionsReader | None:
        found = [each for each in partitions if isinstance(each, KafkaPartition)]
        return self._open(found, until) if found else None

    def _open(
        self, partitions: Sequence[KafkaPartition], until: Offset | None
    ) -> KafkaPartitionsReader:
        return KafkaPartitionsReader(
            self._options.client,
            partitions,
            self._columns,
            until=None if until is None else self._positions(until),
            fails_on_data_loss=self._options.fails_on_data_loss,
        )

    def mergeOffsets(self, offsets: Sequence[Offset]) -> Offset:
        return offset_of([each for offset in offsets for each in positions_of(offset).items()])

    def hasComeTo(self, logged: Offset, end: Offset) -> bool:
        """What is in no topic any more is at its end, if that is wanted.

        :raises OffsetOutOfRangeError: it is not.
        """
        wanted = self._positions(logged)
        if gone := wanted.keys() - set(self._reads):
            self._say_deleted(sorted(gone))
        return self._positions(end) == {at: wanted[at] for at in wanted.keys() - gone}

    def prune(self, columns: Sequence[str]) -> KafkaReader | None:
        return KafkaReader(self._options, Columns(columns)) if columns else None

    # -- where it ends --------------------------------------------------------------------------

    def latestOffset(self, start: Offset) -> Offset:
        now = self._topics.partitions()
        return self._see(now, self._topics.latest(now))

    def knownEnd(self) -> Offset | None:
        return self._end

    def hasReached(self, committed: Offset, wanted: Offset) -> bool:
        """What is in no topic any more will never be read."""
        there = self._there
        left = [each for each in self._positions(wanted).items() if each[0] in there]
        return reached(committed, offset_of(left))

    def stop(self) -> None:
        self._topics.close()

    def _see(self, partitions: Sequence[TopicPartition], ends: Positions) -> Offset:
        self._there, self._end = frozenset(partitions), offset_of(ends.items())
        return self._end

    def _positions(self, offset: Offset) -> Positions:
        try:
            return positions_of(offset)
        except ValueError as exc:
            raise SourceError(
                f"The offset {offset!r} is not one of {OWNER}: {exc}.",
                hint='It looks like {"orders":{"0":23,"1":345}}.',
            ) from exc


def _names(partitions: Collection[TopicPartition]) -> str:
    return ", ".join(map(str, sorted(partitions))) or "no partition"
