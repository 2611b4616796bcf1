"""Reads partitions of topics on an executor: all of a task over one client.

Offsets are taken from the records, never counted: the markers of transactions and what compaction
has removed leave gaps. Behind the last record the client tells where the partition ends, so that
an offset comes to stand behind a marker, too. But it tells that only when a broker has had nothing
for as long as a fetch waits; of a partition in which something always comes, its end when the
broker last answered is compared with the position.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

import pyarrow as pa

from engine.clients.kafka import (
    CHECK,
    SERVERS,
    import_client,
    is_passing,
    made_client,
    speaking_kafka,
)
from engine.clients.kafka_complaints import Complaints
from engine.errors import BadRecordError, SourceError, SourceUnavailableError
from engine.sources.contract import Offset, PartitionsReader
from engine.sources.kafka import topics
from engine.sources.kafka.offsets import Positions, TopicPartition, offset_of
from engine.sources.kafka.options import OWNER
from engine.sources.kafka.rows import Columns, UnfitRecordsError
from engine.sources.kafka.say_gone import say_gone, say_truncated

BATCH_ROWS: Final = 10_000
"""So many records at most are taken from the client at once."""
_ASK_S: Final = 5.0
_GLANCE_S: Final = 1.0
"""A partition that may be away is asked for so long, while others go on..."""
_GLANCE_EVERY_S: Final = 2.0
"""... and so often, or if that takes its time..."""
_GLANCE_SHARE_MAX: Final = 0.05
"""... for this part of all time."""


@dataclass(frozen=True)
class KafkaPartition:
    """A partition, and where to read from.

    :param start: the offset of the first record to read.
    """

    at: TopicPartition
    start: int

    @property
    def name(self) -> str:
        """``orders-0``."""
        return str(self.at)


class KafkaPartitionsReader(PartitionsReader):
    """See the module.

    :param client: settings of librdkafka.
    :param columns: what the batches have.
    :param until: where each partition ends, exclusive; None: nowhere. Of one that is not in it
        nothing is read, and the offset is empty.
    :param fails_on_data_loss: else records that are gone are skipped.
    :raises ConfigError: the client is not installed, or refuses its settings.
    """

    def __init__(
        self,
        client: Mapping[str, str],
        partitions: Sequence[KafkaPartition],
        columns: Columns,
        *,
        until: Positions | None = None,
        fails_on_data_loss: bool = True,
    ) -> None:
        self._kafka = import_client(OWNER)
        self._servers = client[SERVERS]
        self._places = {each.at: place for place, each in enumerate(partitions)}
        starts = {each.at: each.start for each in partitions}
        # One that is new since then had nothing that was to be read, and its offset is none: the
        # logged end has none either.
        self._until = None if until is None else {**starts, **until}
        self._named = starts.keys() if until is None else until.keys()
        # What was to be read may be gone, and what is left begin behind it.
        self._positions: Positions = {
            at: start if self._until is None else min(start, self._until[at])
            for at, start in starts.items()
        }
        self._columns = columns
        self._fails_on_data_loss = fails_on_data_loss
        self._ready: deque[tuple[TopicPartition, list[Any], bool]] = deque()
        self._at_end: dict[int, int] = {}
        """The places that have caught up → how many records the broker had told of by then, with
        those of transactions that are open."""
        self._doubted: dict[int, int] = {}
        """Those of which it has told of more since."""
        self._with_gaps: set[TopicPartition] = set()
        self._complaints = Complaints()
        self._opened_s = time.monotonic()
        self._unheard = set(self._places)
        self._heard_s = dict.fromkeys(self._places, 0.0)
        self._glance_at_s = 0.0
        self._client = topics.consumer_settings(client)
        settings = {**self._client, "error_cb": self._complaints}
        self._consumer = made_client(self._kafka.Consumer, settings, OWNER)
        self._consumer.assign(
            [self._kafka.TopicPartition(*each.at, each.start) for each in partitions]
        )

    def read(self, timeout_s: float) -> tuple[int, pa.RecordBatch] | None:
        if not self._ready and not self.exhausted:
            self._fetch(timeout_s)
        while self._ready:
            at, messages, has_events = self._ready.popleft()
            if (batch := self._take(at, messages, has_events)) is not None:
                return self._places[at], batch
        return None

    @property
    def offsets(self) -> tuple[Offset, ...]:
        return tuple(
            offset_of([(at, self._positions[at])] if at in self._named else [])
            for at in self._places
        )

    @property
    def caught_up(self) -> Set[int]:
        ready = {self._places[at] for at, _, _ in self._ready}
        if self._complaints.since_s is not None:  # what was heard of them before may be old
            ready.update(self._places[at] for at in self._quiet())
        return self._at_end.keys() - ready if ready else self._at_end.keys()

    def having_more(self, places: Sequence[int]) -> Collection[int]:
        caught_up, partitions = self.caught_up, tuple(self._places)
        found = [
            place
            for place in places
            if place not in caught_up or self._told_end(partitions[place]) > self._at_end[place]
        ]
        for place in self._at_end.keys() & found:
            self._doubted[place] = self._at_end.pop(place)
        return found

    @property
    def exhausted(self) -> bool:
        until = self._until
        return until is not None and all(
            position >= until[at] for at, position in self._positions.items()
        )

    def close(self) -> None:
        self._consumer.close()

    # -- records --------------------------------------------------------------------------------

    def _fetch(self, timeout_s: float) -> None:
        with self._speaking("cannot be read"):
            first = self._consumer.poll(timeout_s)
            self._see_that_it_answers(nothing_came=first is None)
            if first is None:  # it is of a transaction, if there is more
                self._at_end.update(self._doubted)
                self._doubted.clear()
                return
            messages = [first, *self._consumer.consume(BATCH_ROWS - 1, 0)]
        has_events = any(map(self._kafka.Message.error, messages))
        if has_events:
            messages = [each for each in messages if self._is_of_a_partition(each)]
        elif len(self._places) == 1 and not self._unheard:
            (at,) = self._places
            self._heard_s[at] = time.monotonic()
            self._ready.append((at, messages, False))
            return
        for key, run in groupby(messages, _partition_of):
            at = TopicPartition(*key)
            self._unheard.discard(at)
            self._heard_s[at] = time.monotonic()
            self._ready.append((at, list(run), has_events))

    def _take(
        self, at: TopicPartition, messages: list[Any], has_events: bool
    ) -> pa.RecordBatch | None:
        """The batch of these messages; the position is then behind them."""
        place = self._places[at]
        for told in (self._at_end, self._doubted):  # before what they tell is heard
            told.pop(place, None)
        position = self._positions[at]
        if has_events:
            messages, position = self._without_events(at, messages)
        if messages:
            behind = messages[-1].offset() + 1
            if behind - position != len(messages):
                self._with_gaps.add(at)
            position = max(position, behind)
            # What ends a transaction may be behind its last record: no record is, and no position
            # was told yet.
            if 0 <= (end := self._told_end(at)) <= position + (at in self._with_gaps):
                self._at_end[place] = end
        if self._until is not None:
            end = self._until[at]
            messages = [each for each in messages if each.offset() < end]
            position = min(position, end)
        self._positions[at] = position
        return self._batch(at, messages) if messages else None

    def _told_end(self, at: TopicPartition) -> int:
        """Where the partition ended when the broker last answered; -1: it has not."""
        found = self._consumer.get_watermark_offsets(self._kafka.TopicPartition(*at), cached=True)
        return -1 if found is None else int(found[1])

    def _batch(self, at: TopicPartition, messages: Sequence[Any]) -> pa.RecordBatch | None:
        """Of those that can be rows; None if none can.

        :raises BadRecordError: one cannot, and nobody takes it.
        """
        while messages:
            try:
                return self._columns.batch(at, messages)
            except UnfitRecordsError as unfit:
                for place, why in unfit.reasons.items():
                    self._leave_out(at, messages[place], why)
                messages = [
                    each for place, each in enumerate(messages) if place not in unfit.reasons
                ]
        return None

    def _leave_out(self, at: TopicPartition, message: Any, why: str) -> None:
        error = BadRecordError(
            self._says(f"record {message.offset()} of {at} cannot be read: {why}."),
            record=repr({"key": message.key(), "value": message.value()}),
            offset=offset_of([(at, message.offset() + 1)]),
        )
        if self.on_bad_record is None:
            raise error
        self.on_bad_record(error)

    # -- what else the client tells -------------------------------------------------------------

    def _is_of_a_partition(self, message: Any) -> bool:
        """Not what is about a whole topic, or all of them.

        :raises SourceError: that is an error which does not pass.
        """
        if _partition_of(message) in self._places:
            return True
        self._bear(message.error())
        return False

    def _without_events(self, at: TopicPartition, messages: list[Any]) -> tuple[list[Any], int]:
        """The records among them, and the position that the others tell.

        :raises SourceError: one of them is an error.
        """
        records, position = [], self._positions[at]
        for message in messages:
            error = message.error()
            if error is None:
                records.append(message)
            elif error.name() == "_PARTITION_EOF":
                position = max(position, message.offset())
                self._at_end[self._places[at]] = max(position, self._told_end(at))
                if self._until is not None and position < self._until[at]:
                    position = self._see_that_more_comes(at, position)
            elif error.name() in ("OFFSET_OUT_OF_RANGE", "_AUTO_OFFSET_RESET"):
                position = self._go_on_where_it_can(at, records, position, error)
            else:
                self._bear(error)
        return records, position

    def _bear(self, error: Any) -> None:
        """:raises SourceError: time will not mend it."""
        if not is_passing(error):
            raise SourceError(self._says(f"cannot be read: {error.str()} ({error.name()})."))
        self._complaints(error)

    def _go_on_where_it_can(
        self, at: TopicPartition, read: Sequence[Any], position: int, error: Any
    ) -> int:
        """Go on at the position, or if that is gone with the first record that is left; where that
        is.

        :param error: what the client was told.
        :raises OffsetOutOfRangeError: records may be lost, and that is not wanted.
        """
        position = max(position, read[-1].offset() + 1) if read else position
        with self._speaking(f"cannot tell where {at} begins"):
            low, high = self._watermarks(at)
            if position > high:  # where what may be read ends; there may be open transactions
                high = topics.ends(self._client, [at])[at]
            fails = self._fails_on_data_loss
            if low <= position <= high:
                say_truncated(self._servers, at, position, error.str(), fails=fails)
            else:
                say_gone(self._servers, at, position, low, high, fails=fails)
                position = low
            self._consumer.incremental_unassign([self._kafka.TopicPartition(*at)])
            self._consumer.incremental_assign([self._kafka.TopicPartition(*at, position)])
        return position

    def _see_that_more_comes(self, at: TopicPartition, position: int) -> int:
        """The partition ends before the end that was once read: an open transaction may hold back
        the rest; else it is gone, and this is the end.

        :raises OffsetOutOfRangeError: it is gone, and that is not wanted.
        """
        assert self._until is not None
        end = self._until[at]
        behind = topics.ends(self._client, [at])[at]
        if behind >= end:
            return position
        say_gone(self._servers, at, end, position, behind, fails=self._fails_on_data_loss)
        return end

    # -- whether there is an answer -------------------------------------------------------------

    def _see_that_it_answers(self, nothing_came: bool) -> None:
        """Nothing has come, of one partition at least: perhaps there is nothing. It may also be
        that this machine does not reach its broker, or no longer, while the driver does.

        :raises SourceUnavailableError: that is so.
        """
        now_s, complaints = time.monotonic(), self._complaints
        if self._unheard and now_s - self._opened_s >= topics.AWAY_S:
            if nothing_came:
                silent = ", ".join(map(str, sorted(self._unheard)))
                what = f"nothing is heard of {silent} for {topics.AWAY_S:g} s. {complaints}"
                raise SourceUnavailableError(self._says(what.rstrip()), hint=CHECK)
            for at in self._unheard:  # what is there may be behind much that others have
                self._ask(at, _ASK_S)
            self._unheard.clear()
        if complaints.since_s is None:
            return
        if now_s - complaints.since_s >= topics.AWAY_S:
            for at in self._places if nothing_came else self._quiet():
                self._ask(at, _ASK_S)
            complaints.clear()
        elif now_s >= self._glance_at_s:
            self._glance()

    def _quiet(self) -> list[TopicPartition]:
        """The partitions of which nothing was heard since the client has complained."""
        newest_s = self._complaints.newest_s
        return [at for at, heard_s in self._heard_s.items() if heard_s <= newest_s]

    def _glance(self) -> None:
        """See which of them answer."""
        began_s = time.monotonic()
        with suppress(self._kafka.KafkaException):  # it has some time yet
            for at in self._quiet():
                self._ask(at, _GLANCE_S)
        now_s = time.monotonic()
        self._glance_at_s = now_s + max(_GLANCE_EVERY_S, (now_s - began_s) / _GLANCE_SHARE_MAX)

    def _ask(self, at: TopicPartition, timeout_s: float) -> None:
        _, end = self._watermarks(at, timeout_s)
        self._heard_s[at] = time.monotonic()
        if self._positions[at] + (at in self._with_gaps) < end:  # as it comes, it is told
            self._at_end.pop(self._places[at], None)

    def _watermarks(self, at: TopicPartition, timeout_s: float = _ASK_S) -> tuple[int, int]:
        """Where a partition begins and ends; its leader is asked."""
        low, high = self._consumer.get_watermark_offsets(
            self._kafka.TopicPartition(*at), timeout=timeout_s, cached=False
        )
        return int(low), int(high)

    def _speaking(self, what: str) -> Any:
        return speaking_kafka(
            SourceUnavailableError, SourceError, self._says(what), self._complaints
        )

    def _says(self, what: str) -> str:
        return f"Kafka at {self._servers}: {what}"


def _partition_of(message: Any) -> tuple[str, int]:
    return message.topic(), message.partition()
