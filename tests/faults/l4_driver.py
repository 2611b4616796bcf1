"""The driver that is killed: three queries over one source on a real Spark.

1. ``files``: to Parquet, exactly once;
2. ``batch``: ``foreachBatch`` into SQLite, with the epoch as the key: exactly once;
3. ``each``: ``foreach``, at least once. Its rows are stamped with the wall clock in the task, the
   moment they reach the writer.

Or, for :mod:`tests.faults.l4_kafka`, one from topic to topic; or, for
:mod:`tests.faults.l4_state`, one that counts by key and window, into SQLite.
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import sys
import threading
import time
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from engine import register, write_stream
from engine.query.handle import ContinuousQuery
from engine.spark.session import build_session
from tests.faults.l2_oracle import SCHEMA

FILES, BATCH, EACH, KAFKA, COUNTS = "files", "batch", "each", "kafka", "counts"
PARTITIONS = {FILES: 2, BATCH: 2, EACH: 2, COUNTS: 2}
KEYS, WINDOW_S, BEGAN_S = 7, 50, 10_000
FAILED = 3


@dataclass(frozen=True)
class KafkaEnds:
    """The topics of a query from one to another."""

    bootstrap: str
    source: str
    target: str


@dataclass(frozen=True)
class Setup:
    """What the driver needs to know.

    :param folder: everything is in there.
    :param heartbeat_ms: of the leases.
    :param kafka: None: the three queries.
    :param reducers: more than none: the one that counts, on so many tasks.
    :param stays: each of its keys is in one partition, and counted where that is read.
    """

    folder: str
    master: str
    interval_ms: int = 200
    heartbeat_ms: int = 500
    kafka: KafkaEnds | None = None
    reducers: int = 0
    stays: bool = False

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, text: str) -> Setup:
        """The reverse of :meth:`to_json`."""
        found = json.loads(text)
        ends = found.pop("kafka")
        return cls(**found, kafka=None if ends is None else KafkaEnds(**ends))

    @property
    def root(self) -> Path:
        return Path(self.folder)

    @property
    def source(self) -> Path:
        return self.root / "in"

    @property
    def out(self) -> Path:
        return self.root / "out"

    @property
    def database(self) -> Path:
        return self.root / "batches.sqlite"

    @property
    def stamps(self) -> Path:
        return self.root / "stamps"

    @property
    def drain(self) -> Path:
        """The queries drain when this file is there."""
        return self.root / "drain"

    def checkpoint(self, query: str) -> Path:
        return self.root / f"checkpoint-{query}"


class Stamp:
    """Appends ``nanoseconds pid partition seq`` per row, in a file per process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open(self, partition_id: int, epoch_id: int) -> bool:
        self._file = (self._folder / str(os.getpid())).open("a", buffering=1)
        return True

    def process(self, row: Row) -> None:
        self._file.write(f"{time.time_ns()} {os.getpid()} {row.p} {row.s}\n")

    def close(self, error: BaseException | None) -> None:
        self._file.close()


def store(database: Path, df: DataFrame, epoch: int) -> None:
    """An epoch in one transaction; nothing if it is there."""
    rows = [(epoch, row.p, row.s) for row in df.collect()]
    with closing(sqlite3.connect(database, timeout=30)) as connection, connection:
        connection.execute("BEGIN IMMEDIATE")
        if connection.execute("SELECT 1 FROM epochs WHERE epoch = ?", (epoch,)).fetchone() is None:
            connection.execute("INSERT INTO epochs VALUES (?)", (epoch,))
            connection.executemany("INSERT INTO records VALUES (?, ?, ?)", rows)


def main() -> int:
    setup = Setup.of(sys.argv[1])
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(process)d %(message)s")
    os.environ.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))  # for a local cluster
    os.environ["SPARK_WORKER_DIR"] = str(setup.root / "work")
    spark = build_session({"spark.master": setup.master, **_conf(setup)}, "faults")
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    queries = _start(spark, setup)
    (setup.root / f"started-{os.getpid()}").touch()
    pause = threading.Event()
    while all(query.isActive for query in queries) and not setup.drain.exists():
        pause.wait(0.05)
    if setup.drain.exists():
        for query in queries:
            query.drain(60)
        spark.stop()
        return 0
    for query in queries:
        print(f"{query.name}: {query.status['state']}: {query.exception()}", file=sys.stderr)
    return FAILED


def _start(spark: SparkSession, setup: Setup) -> list[ContinuousQuery]:
    if setup.kafka is not None:
        return [start_kafka(spark, setup)]
    return [start_counts(spark, setup)] if setup.reducers else start_all(spark, setup)


def _conf(setup: Setup) -> dict[str, str]:
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.memory": "512m",
        "spark.local.dir": str(setup.root / "local"),
        "spark.sql.warehouse.dir": str(setup.root / "warehouse"),
    }


def start_all(spark: SparkSession, setup: Setup) -> list[ContinuousQuery]:
    """The three queries."""
    setup.stamps.mkdir(exist_ok=True)
    with closing(sqlite3.connect(setup.database)) as connection, connection:
        connection.execute("CREATE TABLE IF NOT EXISTS epochs (epoch INTEGER PRIMARY KEY)")
        connection.execute("CREATE TABLE IF NOT EXISTS records (epoch INT, p INT, s INT)")
    database = setup.database

    def start(name: str, **sink: Any) -> ContinuousQuery:
        builder = (
            write_stream(_source(spark, setup, PARTITIONS[name]))
            .queryName(name)
            .option("checkpointLocation", str(setup.checkpoint(name)))
            .option("leaseHeartbeatMs", setup.heartbeat_ms)
            .option("restartResetAfterS", 0)
            .trigger(continuous=f"{setup.interval_ms} milliseconds")
        )
        for method, argument in sink.items():
            add = getattr(builder, method)
            builder = add(**argument) if isinstance(argument, dict) else add(argument)
        query = builder.start()
        assert isinstance(query, ContinuousQuery)
        return query

    return [
        start(EACH, foreach=Stamp(setup.stamps)),
        start(BATCH, foreachBatch=lambda df, epoch: store(database, df, epoch)),
        start(FILES, format="parquet", options={"path": str(setup.out)}),
    ]


def start_kafka(spark: SparkSession, setup: Setup) -> ContinuousQuery:
    """From topic to topic, exactly once."""
    ends = setup.kafka
    assert ends is not None
    servers = {"kafka.bootstrap.servers": ends.bootstrap}
    read = spark.readStream.format("kafka").options(**servers)
    df = read.options(subscribe=ends.source, startingOffsets="earliest").load()
    query = (
        write_stream(df.select("key", "value"))
        .queryName(KAFKA)
        .format("kafka")
        .options(**servers, topic=ends.target, delivery="exactly-once")
        .option("checkpointLocation", str(setup.checkpoint(KAFKA)))
        .option("leaseHeartbeatMs", setup.heartbeat_ms)
        .option("restartResetAfterS", 0)
        .trigger(continuous=f"{setup.interval_ms} milliseconds")
        .start()
    )
    assert isinstance(query, ContinuousQuery)
    return query


def start_counts(spark: SparkSession, setup: Setup) -> ContinuousQuery:
    """Records by key and window, in update mode. One second of event time goes by for a record."""
    with closing(sqlite3.connect(setup.database)) as connection, connection:
        connection.execute("CREATE TABLE IF NOT EXISTS epochs (epoch INTEGER PRIMARY KEY)")
        connection.execute(
            "CREATE TABLE IF NOT EXISTS counts (k INT, at INT, n INT, PRIMARY KEY (k, at))"
        )
    key, number = F.col("s") % KEYS, {"reducers": setup.reducers}
    if setup.stays:
        key, number = key + F.col("p") * KEYS, {"keysStayInPartitions": True}
    events = _source(spark, setup, PARTITIONS[COUNTS]).select(
        key.alias("k"), F.timestamp_seconds(F.col("s") + BEGAN_S).alias("at")
    )
    window = F.window("at", f"{WINDOW_S} seconds")
    counts = events.withWatermark("at", "1 day").groupBy(window, "k").count()
    database = setup.database
    query = (
        write_stream(counts.select("k", F.unix_timestamp("window.start").alias("at"), "count"))
        .queryName(COUNTS)
        .outputMode("update")
        .foreachBatch(lambda df, epoch: keep(database, df, epoch))
        .option("checkpointLocation", str(setup.checkpoint(COUNTS)))
        .option("leaseHeartbeatMs", setup.heartbeat_ms)
        .option("restartResetAfterS", 0)
        .options(**number)
        .trigger(continuous=f"{setup.interval_ms} milliseconds")
        .start()
    )
    assert isinstance(query, ContinuousQuery)
    return query


def keep(database: Path, df: DataFrame, epoch: int) -> None:
    """The counts that an epoch has changed; nothing if it is there."""
    rows = [(row.k, row["at"], row["count"]) for row in df.collect()]
    with closing(sqlite3.connect(database, timeout=30)) as connection, connection:
        connection.execute("BEGIN IMMEDIATE")
        if connection.execute("SELECT 1 FROM epochs WHERE epoch = ?", (epoch,)).fetchone() is None:
            connection.execute("INSERT INTO epochs VALUES (?)", (epoch,))
            connection.executemany("INSERT OR REPLACE INTO counts VALUES (?, ?, ?)", rows)


def _source(spark: SparkSession, setup: Setup, partitions: int) -> DataFrame:
    return (
        spark.readStream.format("tail")
        .schema(SCHEMA)
        .option("path", str(setup.source))
        .option("fileFormat", "json")
        .option("numPartitions", partitions)
        .load()
    )


if __name__ == "__main__":
    from tests.faults import l4_driver  # the module that pickles name

    sys.exit(l4_driver.main())
