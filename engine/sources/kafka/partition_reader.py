"""Reads partitions of topics on an executor: all of a task over one client.

Offsets are taken from the records, never counted: the markers of transactions and what compaction
has removed leave gaps. Behind the last record the client tells where the partition ends, so that
an offset comes to stand behind a marker, too.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

import pyarrow as pa

from engine.clients.kafka import SERVERS, import_client, is_passing, made_client, speaking_kafka
from engine.errors import OffsetOutOfRangeError, SourceError, SourceUnavailableError
from engine.sources.contract import Offset, PartitionReader, PartitionsReader
from engine.sources.kafka.offsets import Positions, TopicPartition, offset_of
from engine.sources.kafka.options import OWNER
from engine.sources.kafka.rows import Columns

logger: Final = logging.getLogger(__name__)
BATCH_ROWS: Final = 10_000
"""So many records at most are taken from the client at once."""
_ASK_S: Final = 10.0
_TUNED: Final = {
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "auto.offset.reset": "error",
    "enable.partition.eof": "true",
    "isolation.level": "read_committed",
    # By default librdkafka stops fetching for up to a second once 100,000 records wait for us.
    "fetch.queue.backoff.ms": "5",
}


def consumer_settings(client: Mapping[str, str]) -> dict[str, str]:
    """Of a consumer whose offsets are the checkpoint's. What the user has set counts."""
    return {**_TUNED, **client}


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
    :param until: where each partition ends, exclusive; None: nowhere.
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
        self._positions: Positions = {each.at: each.start for each in partitions}
        # One that is new since then had nothing that was to be read.
        self._until = None if until is None else {**self._positions, **until}
        self._columns = columns
        self._fails_on_data_loss = fails_on_data_loss
        self._ready: deque[tuple[TopicPartition, list[Any]]] = deque()
        self._consumer = made_client(self._kafka.Consumer, consumer_settings(client), OWNER)
        self._consumer.assign(
            [self._kafka.TopicPartition(*each.at, each.start) for each in partitions]
        )

    def read(self, timeout_s: float) -> tuple[int, pa.RecordBatch] | None:
        if not self._ready and not self.exhausted:
            self._fetch(timeout_s)
        while self._ready:
            at, messages = self._ready.popleft()
            if (batch := self._take(at, messages)) is not None:
                return self._places[at], batch
        return None

    @property
    def offsets(self) -> tuple[Offset, ...]:
        return tuple(offset_of([(at, self._positions[at])]) for at in self._places)

    @property
    def exhausted(self) -> bool:
        until = self._until
        return until is not None and all(
            position >= until[at] for at, position in self._positions.items()
        )

    def close(self) -> None:
        self._consumer.close()

    def _fetch(self, timeout_s: float) -> None:
        with speaking_kafka(SourceUnavailableError, SourceError, self._says("cannot be read")):
            first = self._consumer.poll(timeout_s)
            if first is None:
                return
            messages = [first, *self._consumer.consume(BATCH_ROWS - 1, 0)]
        if len(self._places) == 1:
            (at,) = self._places
            self._ready.append((at, messages))
            return
        for key, run in groupby(messages, _partition_of):
            self._ready.append((TopicPartition(*key), list(run)))

    def _take(self, at: TopicPartition, messages: list[Any]) -> pa.RecordBatch | None:
        """The batch of these messages; the position is then behind them."""
        position = self._positions[at]
        if any(map(self._kafka.Message.error, messages)):
            messages, position = self._without_events(at, messages)
        if messages:
            position = max(position, messages[-1].offset() + 1)
        if self._until is not None:
            end = self._until[at]
            messages = [each for each in messages if each.offset() < end]
            position = min(position, end)
        self._positions[at] = position
        return self._columns.batch(at, messages) if messages else None

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
            elif error.name() in ("OFFSET_OUT_OF_RANGE", "_AUTO_OFFSET_RESET"):
                position = self._skip_what_is_gone(at, records, position)
            elif not (error.retriable() or is_passing(error)):
                raise SourceError(self._says(f"cannot read {at}: {error.str()} ({error.name()})"))
        return records, position

    def _skip_what_is_gone(self, at: TopicPartition, read: Sequence[Any], position: int) -> int:
        """Go on with the first record that is left; where that is.

        :raises OffsetOutOfRangeError: that would lose records, and is not wanted.
        """
        position = max(position, read[-1].offset() + 1) if read else position
        partition = self._kafka.TopicPartition(*at)
        with speaking_kafka(SourceUnavailableError, SourceError, self._says(f"cannot tell {at}")):
            low, high = self._consumer.get_watermark_offsets(
                partition, timeout=_ASK_S, cached=False
            )
        say_gone(self._servers, at, position, low, high, fails=self._fails_on_data_loss)
        with speaking_kafka(SourceUnavailableError, SourceError, self._says(f"cannot read {at}")):
            self._consumer.seek(self._kafka.TopicPartition(*at, low))
        return int(low)

    def _says(self, what: str) -> str:
        return f"Kafka at {self._servers}: {what}"


def say_gone(
    servers: str, at: TopicPartition, position: int, low: int, high: int, *, fails: bool
) -> None:
    """Tell that a partition does not have the record of ``position`` any more.

    :param low: the offset of its first record; ``high`` that behind its last.
    :raises OffsetOutOfRangeError: unless records may be skipped.
    """
    if position < low:
        what = f"{low - position:,} records, {position:,} to {low - 1:,}, are gone"
    else:
        what = f"it ends at {high:,} and was read up to {position:,}: it was made anew or truncated"
    if fails:
        raise OffsetOutOfRangeError(
            f"Kafka at {servers}: partition {at} cannot be read on: {what}.",
            hint="They have expired (retention) or were deleted. To go on with the first record "
            f'that is left, at offset {low:,}, set option("failOnDataLoss", "false").',
        )
    logger.warning(
        "Kafka at %s: partition %s: %s. failOnDataLoss is false: the query goes on at offset %d",
        servers, at, what, low,
    )  # fmt: skip


class KafkaPartitionReader(PartitionReader):
    """One partition of a :class:`KafkaPartitionsReader`."""

    def __init__(self, reader: KafkaPartitionsReader) -> None:
        self._reader = reader

    def read(self, timeout_s: float) -> pa.RecordBatch | None:
        found = self._reader.read(timeout_s)
        return None if found is None else found[1]

    @property
    def offset(self) -> Offset:
        return self._reader.offsets[0]

    @property
    def exhausted(self) -> bool:
        return self._reader.exhausted

    def close(self) -> None:
        self._reader.close()


def _partition_of(message: Any) -> tuple[str, int]:
    return message.topic(), message.partition()
