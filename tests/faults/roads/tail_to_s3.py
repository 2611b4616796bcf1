"""Files that grow and are rotated, to Parquet files in an object store: a table of Delta on S3. The
store has all it has in memory, so it is suspended, and not killed."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import deltalake
import pyarrow as pa
from pyspark.sql.types import StructType

from engine.execution.definition import StreamBinding
from engine.pipeline.pipeline import Pipeline, SourceRelation
from engine.query.binding import bind_writer
from engine.sinks.contract import SinkBinding
from engine.sinks.delta.data_source import DeltaDataSource
from engine.sources.tail.data_source import TailDataSource
from tests.faults.roads.beside import beside
from tests.faults.roads.kafka_to_delta import KafkaToDelta
from tests.faults.roads.road import PLACES, Road, Setup
from tests.servers.s3 import S3, s3_server

FILES = 2
FEED_EVERY_S = 0.01
ROTATED_EVERY = 200
"""So many lines."""
COLUMNS = StructType().add("value", "string")


class TailToS3(Road):
    """Each world has a folder, and a bucket."""

    level = "L5 tail to S3"
    places = (*PLACES, "tableLog.before", "tableLog.after", "tableLog.checked")
    mutants = KafkaToDelta.mutants
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
            "in": str(folder), "table": f"s3://{self._s3.bucket()}/table", **self._s3.delta_options
        }  # fmt: skip

    def feeding(self, setup: Setup) -> AbstractContextManager[None]:
        return _feeding(Path(setup.where["in"]))

    def went_in(self, setup: Setup) -> Counter[bytes]:
        files = Path(setup.where["in"]).iterdir()
        return Counter(line for file in files for line in file.read_bytes().splitlines())

    def came_out(self, setup: Setup) -> Counter[bytes]:
        table = deltalake.DeltaTable(setup.where["table"], storage_options=_storage(setup))
        return Counter(text.encode() for text in table.to_pyarrow_table()["value"].to_pylist())

    @staticmethod
    def stream(setup: Setup) -> StreamBinding:
        given = {"path": setup.where["in"], "fileFormat": "text", "numPartitions": str(FILES)}
        schema = pa.schema([("value", pa.string())])
        pipeline = Pipeline(SourceRelation("tail", {}, schema), (), schema)
        return StreamBinding(pipeline, TailDataSource(given).continuousReader(COLUMNS), "tail")

    @staticmethod
    def sink(setup: Setup) -> SinkBinding:
        given = {f"storage.{name}": value for name, value in _storage(setup).items()}
        sink = DeltaDataSource({"path": setup.where["table"], **given})
        return bind_writer(sink.streamWriter(COLUMNS, overwrite=False), "delta")


class _Started:
    """A server that nobody starts again."""

    def __init__(self, s3: S3) -> None:
        self.process = s3.process

    def start(self) -> None:
        raise AssertionError("it has forgotten everything")


def _storage(setup: Setup) -> dict[str, str]:
    return {name: value for name, value in setup.where.items() if name.startswith("AWS_")}


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
