"""Streams of Redis to another one, exactly once. What is staged may be gone meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import ClassVar

from engine.query.binding import bind_writer
from engine.sinks.contract import SinkBinding
from engine.sinks.redis import scripts
from engine.sinks.redis.data_source import RedisSink, RedisWriter
from engine.sources.redis import partition_reader
from tests.faults.roads.from_redis import FromRedis, columns
from tests.faults.roads.mutants import COMMITTED_EARLY, commit_before_log
from tests.faults.roads.road import Meanwhile, Setup

ROWS_MAX = 500
"""Of an epoch: behind an outage there is more than that."""


def _instead(script: str, old: str, new: str) -> None:
    text = getattr(scripts, script)
    assert old in text
    setattr(scripts, script, text.replace(old, new))


def _asks_nothing() -> None:
    _instead("COMMIT", "if not newest or newest < epoch then", "if true then gap = ''")
    RedisWriter.latestEpoch = lambda self: None  # type: ignore[method-assign]


def _copies_some() -> None:
    _instead("COMMIT", "'COUNT', 500", "'COUNT', 5")
    _instead("COMMIT", "until #rows < 500", "until true")


def _reads_again() -> None:
    partition_reader.behind = lambda entry: entry


class RedisToRedis(FromRedis):
    """One server has both ends."""

    level = "L5 Redis to Redis"
    mutants: ClassVar = {
        COMMITTED_EARLY: commit_before_log,
        "nobody asks whether the stream has the epoch": _asks_nothing,
        "what was staged and is gone is taken for empty": lambda: _instead(
            "COMMIT", "return {'lost', KEYS[i]}", "gap = ''"
        ),
        "an epoch is marked as done, and its rows are copied in part": _copies_some,
        "the entry before an offset is read again": _reads_again,
    }

    def make(self, name: str) -> dict[str, str]:
        return {**super().make(name), "sink": f"out-{name}"}

    def came_out(self, setup: Setup) -> Counter[bytes]:
        with self.redis.client() as client:
            found = client.xrange(setup.where["sink"])
        return Counter(b"%s %s" % (each[b"stream"], each[b"id"]) for _, each in found)

    @staticmethod
    def sink(setup: Setup) -> SinkBinding:
        given = {"url": setup.where["url"], "stream": setup.where["sink"]}
        sink = RedisSink({**given, "maxRowsPerEpoch": str(ROWS_MAX)})
        return bind_writer(sink.streamWriter(columns(), overwrite=False), "redis")

    def meanwhile(self, setup: Setup, draw: Callable[[], float]) -> Mapping[str, Meanwhile]:
        def drop() -> None:
            with self.redis.client() as client:
                for name in client.scan_iter("continuous:*:e*"):
                    if draw() < 0.7:
                        client.delete(name)

        return {"what was staged is gone": Meanwhile(10, drop)}


ROAD = RedisToRedis
