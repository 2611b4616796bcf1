"""What epochs cost: CPU of the driver, its JVM and the workers together, in percent of a core.

- idle: a source that has nothing, epochs of a second;
- short: 1,000 rows/s, epochs of 20 ms, into noop and into Parquet; ``epochs`` are those per second
  that were committed.
"""

from __future__ import annotations

import json
import tempfile
import threading
import time
from typing import TYPE_CHECKING, Any

import psutil

from bench.size import sized
from engine import write_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CASES = {
    "idle, 1 s": ("1 second", "noop", 1),
    "noop, 20 ms": ("20 milliseconds", "noop", 1_000),
    "parquet, 20 ms": ("20 milliseconds", "parquet", 1_000),
}
ENGINES = tuple(_CASES)
WARM_UP_S = sized(10.0, 6.0, 2.0)
MEASURE_S = sized(20.0, 8.0, 2.0)


def main(engine: str) -> None:
    """Measure one case in this process and print its figures as JSON."""
    from bench.session import session

    with session() as spark, tempfile.TemporaryDirectory() as folder:
        print(json.dumps(_measure(spark, engine, folder)))


def _measure(spark: SparkSession, engine: str, folder: str) -> dict[str, float]:
    interval, sink, rows_per_second = _CASES[engine]
    df = (
        spark.readStream.format("rate")
        .option("rowsPerSecond", rows_per_second)
        .option("numPartitions", 2)
        .load()
    )
    if engine.startswith("idle"):
        df = df.where("value < 0")
    writer = write_stream(df).format(sink).trigger(continuous=interval)
    if sink == "parquet":
        writer = writer.option("path", f"{folder}/out")
    query: Any = writer.option("checkpointLocation", f"{folder}/checkpoint").start()
    never = threading.Event()
    never.wait(WARM_UP_S)
    before, epoch, began_s = _cpu_s(), query.status["epoch"], time.monotonic()
    never.wait(MEASURE_S)
    took_s = time.monotonic() - began_s
    used = _cpu_s() - before
    epochs = (query.status["epoch"] - epoch) / took_s
    query.stop()
    return {"cpu": 100 * used / took_s, "epochs": epochs}


def _cpu_s() -> float:
    """Seconds of CPU that this process and all below it have used."""
    this = psutil.Process()
    total = 0.0
    for process in (this, *this.children(recursive=True)):
        times = process.cpu_times()
        total += times.user + times.system
    return total
