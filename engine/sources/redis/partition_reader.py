"""Reads streams on an executor: all of a task over one connection."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from engine.clients.redis import RedisServer
from engine.sources.contract import Offset, PartitionsReader
from engine.sources.redis.entry_ids import EntryId, behind, shown
from engine.sources.redis.rows import Entry, batch_of
from engine.sources.redis.streams import Streams

BATCH_ROWS: Final = 5_000
"""So many entries of a stream at most are read at once."""
FIRST_ROWS: Final = 10
"""So many are at first, of all streams together: nobody knows how large they are."""
FETCH_ROWS: Final = 100_000
"""So many of all streams together: after a pause all of ten thousand may have some."""
BATCH_BYTES: Final = 32 << 20
"""So large a batch is at most, if more than an entry is in it; Arrow's end at 2 GiB."""
FETCH_BYTES: Final = 32 << 20
"""Redis is asked for a number of entries of each stream, not for bytes. So the next number is made
of how large those were that came last."""
_ENTRY_BYTES: Final = 200
"""Of an entry beside its fields and values."""


@dataclass(frozen=True)
class StreamPartition:
    """A stream, and where to read from.

    :param name: its key.
    """

    name: str
    start: EntryId


class RedisPartitionsReader(PartitionsReader):
    """See the module.

    :param columns: what the batches have.
    :param until: where each stream ends, exclusive; None: nowhere. Of one that is not in it
        nothing is read, and the offset is empty.
    """

    def __init__(
        self,
        server: RedisServer,
        partitions: Sequence[StreamPartition],
        columns: Sequence[str],
        *,
        until: dict[str, EntryId] | None,
        fails_on_loss: bool,
    ) -> None:
        self._streams = Streams(server, fails_on_loss=fails_on_loss)
        starts = {each.name: each.start for each in partitions}
        # One that is new since then had nothing that was to be read, and its offset is none: the
        # logged end has none either. Where entries are gone, a start may be behind the end.
        self._named = starts.keys() if until is None else until.keys()
        self._positions = {
            name: start if until is None else min(start, until.get(name, start))
            for name, start in starts.items()
        }
        self._places = {each.name: place for place, each in enumerate(partitions)}
        self._columns, self._until = tuple(columns), until
        self._ready: deque[tuple[str, list[Entry]]] = deque()
        self._at_end: set[str] = set()
        streams = max(1, len(partitions))
        self._count = max(1, FIRST_ROWS // streams)
        self._count_max = max(1, min(BATCH_ROWS, FETCH_ROWS // streams))

    def read(self, timeout_s: float) -> tuple[int, pa.RecordBatch] | None:
        if not self._ready:
            self._fetch(timeout_s)
        while self._ready:
            stream, entries = self._ready.popleft()
            fitting = _fitting(entries)
            if fitting < len(entries):
                self._ready.appendleft((stream, entries[fitting:]))
                entries = entries[:fitting]
            self._positions[stream] = behind(entries[-1][0])
            batch = batch_of(stream, entries, self._columns, self.on_bad_record)
            if batch is not None:
                return self._places[stream], batch
        return None

    def _fetch(self, timeout_s: float) -> None:
        if self._until is not None:
            self._fetch_before(self._until)
        else:
            found = self._streams.newer(self._positions, self._count, timeout_s)
            self._at_end = set(self._positions)
            for stream, entries in found:
                # Afterwards: what is there now was there when they were read.
                self._streams.check(stream, self._positions[stream])
                self._ready.append((stream, entries))
                if len(entries) >= self._count:
                    self._at_end.discard(stream)
        if self._ready:
            came = [entries for _, entries in self._ready]
            self._count = min(_next_count(self._count, came), self._count_max)

    def _fetch_before(self, until: dict[str, EntryId]) -> None:
        for stream, position in self._positions.items():
            end = until.get(stream, position)
            if position >= end:
                continue
            entries = self._streams.between(stream, position, end, self._count)
            self._streams.check(stream, position)
            if entries:
                self._ready.append((stream, entries))
            else:  # of what was there some is gone, as was checked
                self._positions[stream] = end

    @property
    def offsets(self) -> tuple[Offset, ...]:
        return tuple(
            {stream: shown(at)} if stream in self._named else {}
            for stream, at in self._positions.items()
        )

    @property
    def caught_up(self) -> Set[int]:
        waiting = {stream for stream, _ in self._ready}
        return {self._places[stream] for stream in self._at_end - waiting}

    @property
    def exhausted(self) -> bool:
        until = self._until
        return (
            until is not None
            and not self._ready
            and all(at >= until.get(stream, at) for stream, at in self._positions.items())
        )

    def close(self) -> None:
        self._streams.close()


def _octets(entry: Entry) -> int:
    return _ENTRY_BYTES + sum(map(len, entry[1]))


def _fitting(entries: Sequence[Entry]) -> int:
    """How many of them fit into a batch; one at least."""
    octets = 0
    for count, entry in enumerate(entries):
        octets += _octets(entry)
        if octets > BATCH_BYTES and count:
            return count
    return len(entries)


def _next_count(count: int, came: Sequence[Sequence[Entry]]) -> int:
    """So many entries of each stream at most are asked for behind these.

    :param count: so many were.
    """
    octets = sum(_octets(entry) for entries in came for entry in entries)
    if octets > FETCH_BYTES:
        return max(1, count * FETCH_BYTES // octets)
    return 2 * count if 2 * octets <= FETCH_BYTES else count
