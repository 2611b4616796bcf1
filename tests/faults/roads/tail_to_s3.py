"""Files that grow and are rotated, to Parquet files in an object store. The store has all it has in
memory, so it is suspended, and not killed."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import s3fs
from pyspark.sql.types import StructType

from engine.execution.definition import StreamBinding
from engine.pipeline.pipeline import Pipeline, SourceRelation
from engine.query.binding import bind_writer
from engine.sinks.contract import SinkBinding
from engine.sinks.files.data_source import FilesWriter, ParquetDataSource
from engine.sinks.files.file_sink_log import FileSinkLog, SinkFile
from engine.sources.tail.data_source import TailDataSource
from tests.faults.roads.beside import beside
from tests.faults.roads.mutants import COMMITTED_EARLY, commit_before_log
from tests.faults.roads.road import PLACES, Road, Setup
from tests.servers.s3 import S3, s3_server

FILES = 2
FEED_EVERY_S = 0.01
ROTATED_EVERY = 200
"""So many lines."""
COLUMNS = StructType().add("value", "string")
KEYS = {"key": "test", "secret": "test"}
NEVER_ASKED = "the log is not asked whether it has the epoch"


def _asks_nothing() -> None:
    right = FileSinkLog._add

    def add(
        self: Any, epoch: int, files: Sequence[SinkFile], listing: dict[int, str], interval: int
    ) -> bool:
        return right(self, max(epoch, max(listing, default=-1) + 1), files, listing, interval)

    FileSinkLog._add = add  # type: ignore[method-assign]
    FilesWriter.latestEpoch = lambda self: None  # type: ignore[method-assign]


class TailToS3(Road):
    """Each world has a folder, and a bucket."""

    level = "L5 tail to Parquet on S3"
    places = (*PLACES, "data.written", "data.synced", "sinkLog.before", "sinkLog.after")
    mutants: ClassVar = {
        COMMITTED_EARLY: commit_before_log,
        NEVER_ASKED: _asks_nothing,
    }
    brought_out: ClassVar = {NEVER_ASKED: ("commitSink.after", "sinkLog.after")}
    forgetful = ("S3",)

    @contextmanager
    def serving(self, folder: Path) -> Iterator[None]:
        with s3_server(folder) as self._s3:
            self.servers["S3"] = _Started(self._s3)
            self._folder = folder / "in"
            yield

    def make(self, name: str) -> dict[str, str]:
        folder = self._folder / name
        folder.mkdir(parents=True)
        return {
            "in": str(folder), "table": f"s3://{self._s3.bucket()}/table",
            "endpoint": self._s3.endpoint,
        }  # fmt: skip

    def feeding(self, setup: Setup) -> AbstractContextManager[None]:
        return _feeding(Path(setup.where["in"]))

    def went_in(self, setup: Setup) -> Counter[bytes]:
        files = Path(setup.where["in"]).iterdir()
        return Counter(line for file in files for line in file.read_bytes().splitlines())

    def came_out(self, setup: Setup) -> Counter[bytes]:
        store = s3fs.S3FileSystem(**KEYS, endpoint_url=setup.where["endpoint"])
        return Counter(
            text.encode()
            for file in _writer(setup).log.files()
            for text in pq.read_table(file.path, filesystem=store)["value"].to_pylist()
        )

    @staticmethod
    def stream(setup: Setup) -> StreamBinding:
        given = {"path": setup.where["in"], "fileFormat": "text", "numPartitions": str(FILES)}
        schema = pa.schema([("value", pa.string())])
        pipeline = Pipeline(SourceRelation("tail", {}, schema), (), schema)
        return StreamBinding(pipeline, TailDataSource(given).continuousReader(COLUMNS), "tail")

    @staticmethod
    def sink(setup: Setup) -> SinkBinding:
        return bind_writer(_writer(setup), "parquet")


def _writer(setup: Setup) -> FilesWriter:
    settings = {**KEYS, "client_kwargs.endpoint_url": setup.where["endpoint"]}
    given = {f"storage.{name}": value for name, value in settings.items()}
    sink = ParquetDataSource({"path": setup.where["table"], **given})
    return sink.streamWriter(COLUMNS, overwrite=False)


class _Started:
    """A server that nobody starts again."""

    def __init__(self, s3: S3) -> None:
        self.process = s3.process

    def start(self) -> None:
        raise AssertionError("it has forgotten everything")


@contextmanager
def _feeding(folder: Path) -> Iterator[None]:
    """A line for each file, again and again."""
    stop = threading.Event()

    def feed() -> None:
        number = 0
        while not stop.wait(FEED_EVERY_S):
            number += 1
            for file in range(FILES):
                path = folder / f"{file}.log"
                with path.open("a") as lines:
                    lines.write(f"{file} {number}\n")
                if number % ROTATED_EVERY == 0:
                    path.rename(folder / f"{file}.log.{number}")

    with beside(feed, stop):
        yield


ROAD = TailToS3
