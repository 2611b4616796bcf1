"""The driver of the day: two queries over a steady rate, counts by key and hour, and sessions. What
their reports say is noted beside their checkpoints, a line for each epoch."""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from dataclasses import asdict, dataclass
from pathlib import Path

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from engine import register, write_stream
from engine.query.handle import ContinuousQuery
from engine.spark.session import build_session
from tests.faults.day.rows import HOURS, Rows
from tests.faults.day.sums import SumsSink

COUNTS, SESSIONS = "counts", "sessions"
FAILED = 3
_LOOK_S = 0.2


@dataclass(frozen=True)
class Setup:
    """
    :param folder: everything is in there.
    :param keys: see :class:`Rows`; ``some_late``: likewise.
    :param seconds: in which the day goes by.
    :param partitions: of the source.
    """

    folder: str
    keys: int
    some_late: bool
    seconds: int
    partitions: int
    reducers: int
    interval_ms: int

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @property
    def rows(self) -> Rows:
        return Rows(self.keys, self.some_late)

    @property
    def root(self) -> Path:
        return Path(self.folder)

    @property
    def drain(self) -> Path:
        """The queries drain when this file is there."""
        return self.root / "drain"

    def checkpoint(self, query: str) -> Path:
        return self.root / f"checkpoint-{query}"

    def sums(self, query: str) -> Path:
        return self.root / f"sums-{query}"

    def reports(self, query: str) -> Path:
        return self.root / f"reports-{query}"


def main() -> int:
    setup = Setup(**json.loads(sys.argv[1]))
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(process)d %(message)s")
    slots = 2 * (setup.partitions + setup.reducers)
    conf = {
        "spark.master": f"local[{slots}]",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.sql.session.timeZone": "UTC",
        "spark.local.dir": str(setup.root / "local"),
        "spark.sql.warehouse.dir": str(setup.root / "warehouse"),
    }
    spark = build_session(conf, "day")
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    spark.dataSource.register(SumsSink)
    rows = setup.rows
    queries = [
        _start(spark, setup, COUNTS, rows.counted_key(), F.window("at", "1 hour")),
        _start(spark, setup, SESSIONS, rows.session_key(), F.session_window("at", "10 minutes")),
    ]
    (setup.root / f"started-{os.getpid()}").touch()
    told, pause = dict.fromkeys((COUNTS, SESSIONS), -1), threading.Event()
    while all(query.isActive for query in queries) and not setup.drain.exists():
        _note(setup, queries, told)
        pause.wait(_LOOK_S)
    if setup.drain.exists():
        while any(map(_is_failing, queries)):  # a drain tells a failure that no commit has followed
            pause.wait(_LOOK_S)
        for query in queries:
            query.drain(600)
        _note(setup, queries, told)
        spark.stop()
        return 0
    for query in queries:
        print(f"{query.name}: {query.status['state']}: {query.exception()}", file=sys.stderr)
    return FAILED


def _start(
    spark: SparkSession, setup: Setup, name: str, key: Column, group: Column
) -> ContinuousQuery:
    rows = setup.rows
    read = (
        spark.readStream.format("rate")
        .option("rowsPerSecond", HOURS * rows.of_an_hour // setup.seconds)
        .option("numPartitions", setup.partitions)
        .load()
    )
    events = read.select(rows.at().alias("at"), key.alias("key")).withWatermark("at", "1 hour")
    results = events.groupBy(group.alias("w"), "key").count()
    query = (
        write_stream(results.select("key", "w.start", "w.end", "count"))
        .queryName(name)
        .outputMode("append")
        .format("sums")
        .option("path", str(setup.sums(name)))
        .option("checkpointLocation", str(setup.checkpoint(name)))
        .option("reducers", setup.reducers)
        .option("leaseHeartbeatMs", 500)
        .trigger(continuous=f"{setup.interval_ms} milliseconds")
        .start()
    )
    assert isinstance(query, ContinuousQuery)
    return query


def _is_failing(query: ContinuousQuery) -> bool:
    return query.isActive and query.status["failing_since_ms"] is not None


def _note(setup: Setup, queries: list[ContinuousQuery], told: dict[str, int]) -> None:
    """Add the reports of newer epochs than those that were told."""
    for query in queries:
        assert query.name is not None
        new = [each for each in query.recentProgress if each["batchId"] > told[query.name]]
        if new:
            with setup.reports(query.name).open("a") as file:
                file.writelines(json.dumps(each) + "\n" for each in new)
            told[query.name] = new[-1]["batchId"]


if __name__ == "__main__":
    from tests.faults.day import driver  # the module that pickles name

    sys.exit(driver.main())
