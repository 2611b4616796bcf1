"""``redis``: the entries of streams, each once.

================  =========  ===================================================================
option            default
================  =========  ===================================================================
url                          see :mod:`engine.clients.redis`, also of username and password
streams                      their keys, with commas
startingOffsets   latest     where a new query begins: ``earliest``, ``latest``, or an id,
                             ``1795366026176-0``, the first to read
failOnDataLoss    true       entries that may be gone before they were read are an error; else they
                             are skipped, and the log tells so once
================  =========  ===================================================================

The columns are ``stream``, ``id``, ``timestamp`` and ``fields``, a map from STRING to BINARY.
Entries are read by their ids, without a consumer group: Redis keeps nothing of the query, and
nobody else's reading changes what it gets. Offsets are ids: :mod:`engine.sources.redis.entry_ids`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource

from engine.base.connector_options import Options
from engine.clients.redis import LOGIN_OPTIONS, RedisServer
from engine.errors import SourceUnavailableError
from engine.expressions.types import schema_to_spark
from engine.sources.contract import TUNING_OPTIONS, DataSourceContinuousReader, Offset
from engine.sources.micro_batch import MicroBatchReader
from engine.sources.one_partition import OnePartition
from engine.sources.redis.entry_ids import START, EntryId, parse_id, positions_of, shown
from engine.sources.redis.partition_reader import (
    RedisPartitionsReader,
    StreamPartition,
)
from engine.sources.redis.rows import SCHEMA
from engine.sources.redis.streams import Streams

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

logger: Final = logging.getLogger(__name__)
OWNER: Final = "source redis"
EARLIEST, LATEST = "earliest", "latest"
LOOK_S: Final = 3.0
"""So often it is looked where the streams end."""
_LOOKING_SHARE: Final = 0.05
"""But no longer than for this share of the time, however many there are."""


class RedisSource(DataSource):
    """See the module."""

    def __init__(self, options: Mapping[str, str]) -> None:
        taken = Options(OWNER, options)
        self._server = RedisServer.of(OWNER, taken)
        named = taken.required("streams", example="orders").split(",")
        self._streams = tuple(dict.fromkeys(name.strip() for name in named if name.strip()))
        if not self._streams:
            raise taken.wrong("streams", ",", "keys of streams, with commas")
        self._start = taken.text("startingOffsets", LATEST) or LATEST
        if self._start not in (EARLIEST, LATEST):
            try:
                parse_id(self._start)
            except ValueError as exc:
                allowed = "earliest, latest, or an id such as 1795366026176-0"
                raise taken.wrong("startingOffsets", self._start, allowed) from exc
        self._fails_on_loss = taken.boolean("failOnDataLoss", True)
        taken.refuse_others()

    @classmethod
    def name(cls) -> str:
        return "redis"

    def schema(self) -> StructType:
        from pyspark.sql.types import StructType

        return StructType.fromJson(schema_to_spark(SCHEMA))

    def continuousReader(self, schema: StructType) -> RedisReader:
        return RedisReader(
            self._server, self._streams, self._start, SCHEMA.names, self._fails_on_loss
        )

    def streamReader(self, schema: StructType) -> MicroBatchReader:
        return MicroBatchReader(self.continuousReader(schema), schema)


class RedisReader(DataSourceContinuousReader):
    """The driver's side."""

    tuningOptions = (*TUNING_OPTIONS, *LOGIN_OPTIONS, "failOnDataLoss")
    recordColumns = ("id",)

    def __init__(
        self,
        server: RedisServer,
        names: Sequence[str],
        start: str,
        columns: Sequence[str],
        fails_on_loss: bool,
    ) -> None:
        self._server, self._names, self._start = server, tuple(names), start
        self._columns, self._fails_on_loss = tuple(columns), fails_on_loss
        self._streams = Streams(server, fails_on_loss=fails_on_loss)
        self._committed: dict[str, EntryId] = {}
        self._next_look_s = 0.0

    def __reduce__(self) -> Any:
        given = (self._server, self._names, self._start, self._columns, self._fails_on_loss)
        return type(self), given

    def initialOffset(self) -> Offset:
        client = self._server.connect()
        try:
            self._server.check(client)
        finally:
            client.close()
        return {name: shown(self._initial(name)) for name in self._names}

    def _initial(self, name: str) -> EntryId:
        if self._start == EARLIEST:
            return START
        if self._start == LATEST:
            end = self._streams.end(name)
            return START if end == START else self._streams.position_of(name, end)
        return self._streams.position_of(name, parse_id(self._start))

    def partitions(self, start: Offset) -> Sequence[StreamPartition]:
        known = positions_of(start)
        for name in known.keys() - set(self._names):
            logger.warning("%s: the query reads the stream %s no more", OWNER, name)
        found = {name: self._streams.check(name, known.get(name, START)) for name in self._names}
        self._committed = {}
        return [StreamPartition(name, at) for name, at in found.items()]

    def needsReconfiguration(self) -> bool:
        """Whether a stream ends before what was read of it: nothing more would come of it."""
        now_s = time.monotonic()
        if now_s < self._next_look_s:
            return False
        committed = self._committed
        try:
            ends = self._streams.ends(committed)
        except SourceUnavailableError:  # the tasks say so
            ends = committed
        took_s = time.monotonic() - now_s
        self._next_look_s = now_s + max(LOOK_S, took_s / _LOOKING_SHARE)
        return any(ends[name] < at for name, at in committed.items())

    def open(self, partition: StreamPartition, until: Offset | None = None) -> OnePartition:
        return OnePartition(self.openTogether([partition], until))

    def openTogether(
        self, partitions: Sequence[StreamPartition], until: Offset | None = None
    ) -> RedisPartitionsReader:
        return RedisPartitionsReader(
            self._server,
            partitions,
            self._columns,
            until=None if until is None else positions_of(until),
            fails_on_loss=self._fails_on_loss,
        )

    def mergeOffsets(self, offsets: Sequence[Offset]) -> Offset:
        return {stream: at for each in offsets for stream, at in each.items()}

    def hasComeTo(self, logged: Offset, end: Offset) -> bool:
        """Of streams that are read no more there is no end."""
        return bool(end == {name: at for name, at in logged.items() if name in self._names})

    def prune(self, columns: Sequence[str]) -> RedisReader | None:
        if not columns:
            return None
        return RedisReader(self._server, self._names, self._start, columns, self._fails_on_loss)

    def latestOffset(self, start: Offset) -> Offset:
        """What was deleted behind the last entry is not waited for."""
        known = positions_of(start)
        ends = self._streams.lasts(self._names)
        return {name: shown(max(end, known.get(name, START))) for name, end in ends.items()}

    def hasReached(self, committed: Offset, wanted: Offset) -> bool:
        there = positions_of(committed or {})
        return all(there.get(name, START) >= at for name, at in positions_of(wanted).items())

    def commit(self, end: Offset) -> None:
        self._committed = positions_of(end)

    def stop(self) -> None:
        self._streams.close()
