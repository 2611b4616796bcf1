"""The source beside Spark's own, which is on the classpath: a process with a session of its own.

``python -m tests.connectors.kafka.beside_spark BOOTSTRAP FOLDER JARS`` prints what it has found as
one line of JSON; :mod:`tests.connectors.kafka.test_beside_spark` looks at it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from engine import write_stream
from engine.checkpoint.checkpoint import Checkpoint
from engine.query.registration import register
from engine.sources.kafka.data_source import KafkaDataSource
from tests.connectors.kafka.topics import Topic, produced
from tests.servers.kafka import Cluster
from tests.spark.conftest import start
from tests.waiting import wait_until

Found = dict[str, Any]


class OurKafka(KafkaDataSource):
    """Where Spark's own has the name."""

    @classmethod
    def name(cls) -> str:
        return "our_kafka"


class Case:
    """A topic, a query's checkpoint, and a folder for its rows."""

    def __init__(self, spark: SparkSession, topic: Topic, folder: Path) -> None:
        self.spark, self.topic, self.folder = spark, topic, folder
        self.checkpoint = folder / "checkpoint"

    def stream(self, source: str = "kafka", **options: str) -> DataFrame:
        reader = self.spark.readStream.format(source)
        reader = reader.option("kafka.bootstrap.servers", self.topic.kafka.bootstrap)
        reader = reader.option("subscribe", self.topic.name).option("startingOffsets", "earliest")
        return reader.options(**options).load()

    def rows(self) -> DataFrame:
        return self.stream().selectExpr(
            "partition",
            "offset",
            "CAST(CAST(value AS STRING) AS INT) AS value",
            "topic",
            "timestamp",
        )

    def written(self, writer: Any) -> Any:
        """To its parquet files."""
        options = {"path": str(self.folder / "out"), "checkpointLocation": str(self.checkpoint)}
        return writer.format("parquet").options(**options)

    def committed(self) -> Any:
        (offset,) = Checkpoint(str(self.checkpoint)).committed_offsets() or (None,)
        return offset

    def values(self) -> dict[str, list[int]]:
        rows = self.spark.read.parquet(str(self.folder / "out")).collect()
        return {
            str(number): sorted(row.value for row in rows if row.partition == number)
            for number in range(len(self.topic.counts))
        }


def micro_batches(case: Case) -> Found:
    """Spark's micro-batches, then here, then Spark's micro-batches."""

    def in_spark() -> None:
        query = case.written(case.rows().writeStream).trigger(availableNow=True).start()
        assert query.awaitTermination(60)

    case.topic.send(10)
    in_spark()
    first = (case.checkpoint / "sources/0/0").read_bytes().decode()
    by_spark = (case.checkpoint / "offsets/0").read_text().splitlines()[2]
    case.topic.send(10)
    query = case.written(write_stream(case.rows())).trigger(continuous="50 milliseconds").start()
    query.processAllAvailable()
    query.drain(60)
    here = case.committed()
    line = newest(case.checkpoint / "offsets").read_text().splitlines()[2]
    case.topic.send(10)
    in_spark()
    return {
        "first": first,
        "first afterwards": (case.checkpoint / "sources/0/0").read_bytes().decode(),
        "lines": [by_spark, line],
        "here": here,
        "committed": case.committed(),
        "values": case.values(),
        "topic": case.topic.name,
    }


def continuous(case: Case) -> Found:
    """Here, then Spark's continuous mode, then here."""
    found: Found = {"topic": case.topic.name, "committed": []}

    def in_spark() -> None:
        writer = case.rows().writeStream.format("noop").trigger(continuous="200 milliseconds")
        query = writer.option("checkpointLocation", str(case.checkpoint)).start()
        wait_until(lambda: case.committed() == case.topic.offset, "Spark has it", 60)
        query.stop()

    def here() -> None:
        writer = write_stream(case.rows()).format("noop").trigger(continuous="50 milliseconds")
        query = writer.option("checkpointLocation", str(case.checkpoint)).start()
        query.processAllAvailable()
        query.drain(60)
        found["read"] = sum(each["numInputRows"] for each in query.recentProgress)

    for run in (here, in_spark, here):
        case.topic.send(10)
        run()
        found["committed"].append(case.committed())
    found["first"] = (case.checkpoint / "sources/0/0").read_bytes().decode()
    return found


def bad_records(case: Case) -> Found:
    """Records that the query fails on: who tells which?"""
    produced(case.topic.kafka, case.topic.name, ["0", "1", "two", "3", "four"], partition=1)
    letters = str(case.folder / "letters")
    query = (
        case.written(write_stream(case.rows().select("value", "partition")))
        .option("onBadRecord", "dead-letter")
        .option("deadLetterPath", letters)
        .trigger(continuous="50 milliseconds")
        .start()
    )
    query.processAllAvailable()
    query.drain(60)
    rows = case.spark.read.json(letters).collect()
    return {
        "topic": case.topic.name,
        "values": case.values(),
        "letters": sorted([row.source, row.offset, row.record] for row in rows),
    }


def limited(case: Case) -> Found:
    """Our own source in Spark's micro-batches."""
    case.spark.dataSource.register(OurKafka)
    case.topic.send(5)
    sizes: list[int] = []

    def keep(rows: DataFrame, batch: int) -> None:
        sizes.append(rows.count())

    df = case.stream("our_kafka", maxOffsetsPerTrigger="6", includeHeaders="true")
    writer = df.writeStream.foreachBatch(keep).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(case.checkpoint)).start()
    assert query.awaitTermination(60)
    return {"sizes": sizes, "committed": case.committed(), "wanted": case.topic.offset}


def newest(folder: Path) -> Path:
    return max(
        (file for file in folder.iterdir() if file.name.isdigit()), key=lambda f: int(f.name)
    )


def main(bootstrap: str, folder: str, jars: str) -> None:
    spark = start(spark__jars=",".join(map(str, sorted(Path(jars).glob("*.jar")))))
    register(spark)  # leaves the name to Spark's own
    kafka = Cluster(bootstrap)
    found: Found = {}
    scenarios: list[Callable[[Case], Found]] = [micro_batches, continuous, bad_records, limited]
    for scenario in scenarios:
        name, began_s = scenario.__name__, time.monotonic()
        found[name] = scenario(Case(spark, Topic.new(kafka, 2), Path(folder) / name))
        print(f"{name}: {time.monotonic() - began_s:.1f} s", file=sys.stderr)
    print(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
