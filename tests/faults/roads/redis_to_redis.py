"""Streams of Redis to another one, exactly once. What is staged may be gone meanwhile."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, ClassVar

import redis

from engine.execution.definition import StreamBinding
from engine.expressions.types import schema_to_spark
from engine.pipeline.pipeline import Pipeline, SourceRelation
from engine.query.binding import bind_writer
from engine.sinks.contract import SinkBinding
from engine.sinks.redis import scripts
from engine.sinks.redis.data_source import RedisSink
from engine.sources.redis import partition_reader
from engine.sources.redis.data_source import RedisSource
from engine.sources.redis.rows import SCHEMA
from tests.faults.roads.mutants import COMMITTED_EARLY, commit_before_log
from tests.faults.roads.road import Meanwhile, Road, Setup
from tests.servers.redis import running_redis

STREAMS = 2
FEED_EVERY_S = 0.01
COLUMNS = ("stream", "id")
ROWS_MAX = 500
"""Of an epoch: behind an outage there is more than that."""


def _instead(script: str, old: str, new: str) -> None:
    text = getattr(scripts, script)
    assert old in text
    setattr(scripts, script, text.replace(old, new))


def _reads_again() -> None:
    partition_reader.behind = lambda entry: entry


class RedisToRedis(Road):
    """Each world has streams of its own; one server has them all."""

    level = "L5 Redis to Redis"
    mutants: ClassVar = {
        COMMITTED_EARLY: commit_before_log,
        "the stream is not asked whether it has the epoch": lambda: _instead(
            "COMMIT", "if not newest or newest < epoch then", "if true then gap = '' "
        ),
        "what was staged and is gone is taken for empty": lambda: _instead(
            "COMMIT", "return {'lost', KEYS[i]}", "gap = ''"
        ),
        "an epoch is marked as done, and its rows are not copied": lambda: _instead(
            "COMMIT", "until #rows < 500", "until true"
        ),
        "the entry before an offset is read again": _reads_again,
    }

    @contextmanager
    def serving(self, folder: Path) -> Iterator[None]:
        with running_redis(folder / "redis") as server:
            self._server = self.servers["Redis"] = server
            yield

    def make(self, name: str) -> dict[str, str]:
        streams = ",".join(f"in-{name}-{number}" for number in range(STREAMS))
        return {"url": self._server.url, "streams": streams, "sink": f"out-{name}"}

    def feeding(self, setup: Setup) -> AbstractContextManager[None]:
        return _feeding(self._server.client(), _streams(setup))

    def went_in(self, setup: Setup) -> Counter[bytes]:
        with self._server.client() as client:
            return Counter(
                f"{stream} {entry.decode()}".encode()
                for stream in _streams(setup)
                for entry, _ in client.xrange(stream)
            )

    def came_out(self, setup: Setup) -> Counter[bytes]:
        with self._server.client() as client:
            found = client.xrange(setup.where["sink"])
        return Counter(b"%s %s" % (each[b"stream"], each[b"id"]) for _, each in found)

    @staticmethod
    def stream(setup: Setup) -> StreamBinding:
        where = setup.where
        given = {"url": where["url"], "streams": where["streams"], "startingOffsets": "earliest"}
        source = RedisSource(given)
        reader = source.continuousReader(source.schema()).prune(COLUMNS)
        assert reader is not None
        schema = _schema()
        return StreamBinding(Pipeline(SourceRelation("redis", {}, schema), (), schema), reader, "")

    @staticmethod
    def sink(setup: Setup) -> SinkBinding:
        from pyspark.sql.types import StructType

        given = {"url": setup.where["url"], "stream": setup.where["sink"]}
        sink = RedisSink({**given, "maxRowsPerEpoch": str(ROWS_MAX)})
        schema = StructType.fromJson(schema_to_spark(_schema()))
        return bind_writer(sink.streamWriter(schema, overwrite=False), "redis")

    def meanwhile(self, setup: Setup, draw: Callable[[], float]) -> Mapping[str, Meanwhile]:
        def drop() -> None:
            with self._server.client() as client:
                for name in client.scan_iter("continuous:*:e*"):
                    if draw() < 0.7:
                        client.delete(name)

        return {"what was staged is gone": Meanwhile(10, drop)}


def _schema() -> Any:
    import pyarrow as pa

    return pa.schema([SCHEMA.field(name) for name in COLUMNS])


def _streams(setup: Setup) -> list[str]:
    return setup.where["streams"].split(",")


@contextmanager
def _feeding(client: Any, streams: list[str]) -> Iterator[None]:
    stop, pause = threading.Event(), threading.Event()

    def add(stream: str, number: int) -> None:
        while True:
            try:
                client.xadd(stream, {"n": number}, id=f"{number}-1")
                return
            except (redis.ConnectionError, redis.TimeoutError):
                pause.wait(FEED_EVERY_S)
            except redis.ResponseError as exc:
                if "equal or smaller" in str(exc):  # it was there before the answer was lost
                    return
                raise

    def feed() -> None:
        number = 0
        while not stop.wait(FEED_EVERY_S):
            number += 1
            for stream in streams:
                add(stream, number)

    thread = threading.Thread(target=feed, name="feed")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        client.close()


ROAD = RedisToRedis
