"""Data sources as other people write them, over a shelf: a file that holds as many records as it
has bytes. Record k is ``(k, "record k")``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamReader,
    InputPartition,
    SimpleDataSourceStreamReader,
)

COLUMNS = "id bigint, name string"


def put(shelf: Path, count: int) -> None:
    """Let so many more records be there."""
    with shelf.open("ab") as file:
        file.write(b"." * count)


def length(shelf: str) -> int:
    path = Path(shelf)
    return path.stat().st_size if path.exists() else 0


def note(shelf: str, **what: Any) -> None:
    """Write down that a method was called."""
    with Path(f"{shelf}.calls").open("a") as file:
        file.write(json.dumps(what) + "\n")


def calls(shelf: Path, method: str) -> list[Any]:
    """What a method was called with, each time."""
    path = Path(f"{shelf}.calls")
    lines = path.read_text().splitlines() if path.exists() else []
    return [said[method] for said in map(json.loads, lines) if method in said]


def record(number: int) -> tuple[int, str]:
    return number, f"record {number}"


class Between(InputPartition):
    def __init__(self, start: int, end: int) -> None:
        self.start, self.end = start, end


class ShelfSource(DataSource):
    """Two partitions of every range; Rows by name; at most ``limit`` records of a range, as of
    PySpark 4.2: earlier versions ask for the end without telling where to begin, or how much."""

    @classmethod
    def name(cls) -> str:
        return "shelf"

    def schema(self) -> str:
        return COLUMNS

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return ShelfReader(self.options)


class ShelfReader(DataSourceStreamReader):
    def __init__(self, options: Any) -> None:
        self.shelf = options["path"]
        self.limit = int(options.get("limit", 1_000_000))
        self.known = 0

    def initialOffset(self) -> dict:
        note(self.shelf, initialOffset=None)
        return {"position": {"next": 0}}

    def getDefaultReadLimit(self) -> Any:
        from pyspark.sql.streaming.datasource import ReadMaxRows

        return ReadMaxRows(self.limit)

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict:
        self.known = length(self.shelf)
        if limit is not None:
            self.known = min(self.known, start["position"]["next"] + limit.max_rows)
        return {"position": {"next": self.known}}

    def reportLatestOffset(self) -> dict:
        return {"position": {"next": length(self.shelf)}}

    def partitions(self, start: dict, end: dict) -> Sequence[InputPartition]:
        first, last = start["position"]["next"], end["position"]["next"]
        note(self.shelf, partitions=[first, last])
        middle = (first + last) // 2
        return [Between(first, middle), Between(middle, last)]

    def read(self, partition: Between) -> Iterator[Any]:
        for number in range(partition.start, partition.end):
            yield Row(name=f"record {number}", id=number)  # the columns in another order

    def commit(self, end: dict) -> None:
        note(self.shelf, commit=[self.known, end["position"]["next"]])

    def stop(self) -> None:
        note(self.shelf, stop=None)


class ArrowShelfSource(ShelfSource):
    """One partition, of Arrow batches; ``latestOffset()`` as it was before PySpark 4.2."""

    @classmethod
    def name(cls) -> str:
        return "arrow_shelf"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return ArrowShelfReader(self.options)


class ArrowShelfReader(DataSourceStreamReader):
    def __init__(self, options: Any) -> None:
        self.shelf = options["path"]

    def initialOffset(self) -> dict:
        return {"next": 0}

    def latestOffset(self) -> dict:
        return {"next": length(self.shelf)}

    def partitions(self, start: dict, end: dict) -> Sequence[InputPartition]:
        return [Between(start["next"], end["next"])]

    def read(self, partition: Between) -> Iterator[pa.RecordBatch]:
        rows = [record(number) for number in range(partition.start, partition.end)]
        yield pa.RecordBatch.from_arrays(
            [pa.array([r[0] for r in rows], pa.int64()), pa.array([r[1] for r in rows])],
            names=["id", "name"],
        )


class SimpleShelfSource(DataSource):
    """A list of tuples, read with its end in one call."""

    @classmethod
    def name(cls) -> str:
        return "simple_shelf"

    def schema(self) -> str:
        return COLUMNS

    def simpleStreamReader(self, schema: Any) -> SimpleDataSourceStreamReader:
        return SimpleShelfReader(self.options)


class SimpleShelfReader(SimpleDataSourceStreamReader):
    def __init__(self, options: Any) -> None:
        self.shelf = options["path"]

    def initialOffset(self) -> dict:
        return {"next": 0}

    def read(self, start: dict) -> Any:
        end = {"next": length(self.shelf)}
        return self.readBetweenOffsets(start, end), end

    def readBetweenOffsets(self, start: dict, end: dict) -> Any:
        note(self.shelf, read=[start["next"], end["next"]])
        return iter([record(number) for number in range(start["next"], end["next"])])

    def commit(self, end: dict) -> None:
        note(self.shelf, commit=end["next"])


SHELVES = (ShelfSource, ArrowShelfSource, SimpleShelfSource)
