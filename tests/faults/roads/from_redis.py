"""All roads that begin at streams of Redis."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import redis
from pyspark.sql.types import StructType

from engine.execution.definition import StreamBinding
from engine.expressions.types import schema_to_spark
from engine.pipeline.pipeline import Pipeline, SourceRelation
from engine.sources.redis.data_source import RedisSource
from engine.sources.redis.rows import SCHEMA
from tests.faults.roads.beside import beside
from tests.faults.roads.road import PLACES, Road, Setup
from tests.servers.redis import running_redis

STREAMS = 2
FEED_EVERY_S = 0.01
COLUMNS = pa.schema([SCHEMA.field(name) for name in ("stream", "id")])


def columns() -> StructType:
    """Of the rows that a sink gets."""
    return StructType.fromJson(schema_to_spark(COLUMNS))


class FromRedis(Road):
    """Each world has streams of its own; one server has them all. The text of an entry is its
    stream and its id."""

    places = (*PLACES, *["commitSink.after"] * 4)  # where a commit is done and has to be repeated

    @contextmanager
    def serving(self, folder: Path) -> Iterator[None]:
        with running_redis(folder / "redis") as server:
            self.redis = self.servers["Redis"] = server
            yield

    def make(self, name: str) -> dict[str, str]:
        streams = ",".join(f"in-{name}-{number}" for number in range(STREAMS))
        return {"url": self.redis.url, "streams": streams}

    def feeding(self, setup: Setup) -> AbstractContextManager[None]:
        return _feeding(self.redis.client(), _streams(setup))

    def went_in(self, setup: Setup) -> Counter[bytes]:
        with self.redis.client() as client:
            return Counter(
                f"{stream} {entry.decode()}".encode()
                for stream in _streams(setup)
                for entry, _ in client.xrange(stream)
            )

    @staticmethod
    def stream(setup: Setup) -> StreamBinding:
        where = setup.where
        given = {"url": where["url"], "streams": where["streams"], "startingOffsets": "earliest"}
        source = RedisSource(given)
        reader = source.continuousReader(source.schema()).prune(COLUMNS.names)
        assert reader is not None
        pipeline = Pipeline(SourceRelation("redis", {}, COLUMNS), (), COLUMNS)
        return StreamBinding(pipeline, reader, "redis")


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

    with closing(client), beside(feed, stop):
        yield
