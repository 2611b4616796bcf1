"""Walks at random through entries, deletions, new streams, epochs and starts: each entry that is
there is read once."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from engine.sources.contract import Offset
from engine.sources.redis import partition_reader
from engine.sources.redis.data_source import RedisReader
from engine.sources.redis.entry_ids import START, before, positions_of, shown
from engine.sources.redis.partition_reader import RedisPartitionsReader
from tests.connectors.redis.test_source import add, opened, source
from tests.servers.redis import RedisServer

STEPS = 80
Entry = tuple[str, str]


class World:
    """Streams, and what is committed of them."""

    def __init__(self, server: RedisServer, client: Any, chance: Random) -> None:
        self._server, self._client, self.chance = server, client, chance
        self.streams = "a"
        self._written = 0
        self.entries: set[Entry] = set()
        self.committed: list[Entry] = []
        self._rows: list[Entry] = []
        self.reader = self._source()
        self.offset: Offset = self.reader.initialOffset()
        self._tasks = opened(self.reader, self.offset)

    def _source(self) -> RedisReader:
        return source(self._server, streams=",".join(self.streams))

    def add(self) -> None:
        stream = self.chance.choice(self.streams)
        for _ in range(self.chance.randint(1, 4)):
            self._written += 1
            entry = f"{self._written // 5 + 1}-{self._written}"
            add(self._client, stream, entry)
            self.entries.add((stream, entry))

    def read(self) -> None:
        self._rows += _read(self._tasks)

    def end_epoch(self) -> None:
        end = self.reader.mergeOffsets(self._tasks.offsets)
        if self.chance.random() < 0.5:
            assert self._between(end) == sorted(self._rows)
        self._commit(end, self._rows)
        self._rows = []

    def run_a_batch(self) -> None:
        """As Spark's micro-batches do."""
        end = self.reader.latestOffset(self.offset)
        self._commit(end, self._between(end))
        self.restart()

    def restart(self) -> None:
        self._tasks.close()
        self.reader.stop()
        if len(self.streams) < 3 and self.chance.random() < 0.3:
            self.streams += "bc"[len(self.streams) - 1]
        self.reader, self._rows = self._source(), []
        self._tasks = opened(self.reader, self.offset)

    def trim(self) -> None:
        """What is committed, but for the last one."""
        for stream, at in positions_of(self.offset).items():
            if at != START:
                self._client.xtrim(stream, minid=shown(before(at)), approximate=False)

    def delete(self) -> None:
        """The newest one, if nobody has read it."""
        stream = self.chance.choice(self.streams)
        for each, _ in self._client.xrevrange(stream, count=1):
            entry = stream, each.decode()
            if entry not in self._rows and entry not in self.committed:
                self._client.xdel(*entry)
                self.entries.discard(entry)

    def _between(self, end: Offset) -> list[Entry]:
        tasks, rows = opened(self.reader, self.offset, end), list[Entry]()
        while not tasks.exhausted:
            rows += _read(tasks)
        assert self.reader.hasComeTo(end, self.reader.mergeOffsets(tasks.offsets))
        tasks.close()
        return sorted(rows)

    def _commit(self, end: Offset, rows: list[Entry]) -> None:
        self.offset = end
        self.committed += rows

    def finish(self) -> None:
        wanted = self.reader.latestOffset(self.offset)
        for _ in range(len(self.entries) + len(self.streams)):
            self.read()
        self.end_epoch()
        assert self.reader.hasReached(self.offset, wanted)
        self._tasks.close()
        self.reader.stop()


def _read(tasks: RedisPartitionsReader) -> list[Entry]:
    found = tasks.read(0.0)
    if found is None:
        return []
    columns = found[1].to_pydict()
    return list(zip(columns["stream"], columns["id"], strict=True))


@pytest.mark.parametrize("seed", range(6))
def test_every_entry_is_read_once(
    server: RedisServer, client: Any, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = Random(seed)
    monkeypatch.setattr(partition_reader, "FIRST_ROWS", chance.choice((1, 3, 10)))
    monkeypatch.setattr(partition_reader, "BATCH_ROWS", chance.choice((1, 2, 5_000)))
    world = World(server, client, chance)
    acts = {
        world.add: 5, world.read: 7, world.end_epoch: 4, world.run_a_batch: 1, world.restart: 1,
        world.trim: 1, world.delete: 2,
    }  # fmt: skip
    for _ in range(STEPS):
        chance.choices(list(acts), list(acts.values()))[0]()
    world.finish()
    assert max(Counter(world.committed).values()) == 1
    assert world.entries <= set(world.committed)
