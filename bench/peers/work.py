"""What all engines do: Kafka → count by key in windows of ten seconds of event time → Kafka.

A record is JSON, ``{"key": "key-0001", "at": ms, "due": s}``, and so is a result,
``{"key": ..., "count": n, "due": s}``, where ``due`` is the newest of what it counts.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psutil

from bench.kafka import ENGINE, MICRO_BATCH, PARTITIONS, SINK, SOURCE, Setting
from bench.peers.environments import PEERS, environment
from engine.spark.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ENGINES = (ENGINE, MICRO_BATCH, *PEERS)
KEYS: Final = 1_000
WINDOW_MS: Final = 10_000
DELAY_MS: Final = 30_000
"""Event time, by which a window waits for late records: partitions are not read in step."""
SLOTS = 8
CLOSED, UPDATES = "closed", "updates"
"""A count is written once, when its window has closed; or whenever it has changed."""
_FLOWS = Path(__file__).parent / "flows"
_END_S = 20.0


def record(number: int, at_ms: int, due_s: float) -> tuple[bytes, bytes]:
    """Key and value. A key is always in one partition."""
    key = b"key-%04d" % (number % KEYS)
    return key, b'{"key": "%s", "at": %d, "due": %.6f}' % (key, at_ms, due_s)


def counts(here: Setting, **source: str) -> DataFrame:
    """The DataFrame of ours and of Spark's.

    :param source: options of the source.
    """
    from pyspark.sql import functions as f

    here.spark.conf.set("spark.sql.shuffle.partitions", PARTITIONS)
    parsed = f.from_json(f.col("value").cast("string"), "key STRING, at BIGINT, due DOUBLE")
    rows = here.read(**source).select(parsed.alias("r")).select("r.*")
    return (
        rows.withColumn("time", f.timestamp_millis("at"))
        .withWatermark("time", f"{DELAY_MS} milliseconds")
        .groupBy(f.window("time", f"{WINDOW_MS} milliseconds"), "key")
        .agg(f.count("*").alias("count"), f.max("due").alias("due"))
        .select(f.to_json(f.struct("key", "count", "due")).alias("value"))
    )


@contextmanager
def running(
    peer: str, bootstrap: str, what: str, folder: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """Another engine at this work, in two processes, or with two threads.

    :param what: :data:`CLOSED` or :data:`UPDATES`.
    :param folder: for its files; its log is ``peer.log``.
    :raises NoPeerError: it cannot be had here.
    """
    here = environment(peer)
    told = {
        "bootstrap": bootstrap,
        "source": SOURCE,
        "sink": SINK,
        "what": what,
        "window_ms": WINDOW_MS,
        "delay_ms": DELAY_MS,
        "processes": PARTITIONS,
        "folder": str(folder),
        "libraries": [file.as_uri() for file in here.libraries],
    }
    java = find_java()
    path = f"{here.python.parent}{os.pathsep}{os.environ['PATH']}"
    given = os.environ | {"PATH": path, "VIRTUAL_ENV": str(here.python.parents[1])}
    if java is not None:
        given["JAVA_HOME"] = str(java.resolve().parents[1])
    with (folder / "peer.log").open("wb") as log:
        process = subprocess.Popen(
            [here.python, _FLOWS / f"{peer}_flow.py", json.dumps(told)],
            cwd=folder,
            env=given,
            stdout=log,
            stderr=log,
        )
    try:
        yield process
        if process.poll() is not None:
            raise RuntimeError(f"{peer} has ended:\n{(folder / 'peer.log').read_text()[-3_000:]}")
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """With all that it has started."""
    if process.poll() is None:
        below = psutil.Process(process.pid).children(recursive=True)
        for each in (*below, psutil.Process(process.pid)):
            try:
                each.kill()
            except psutil.NoSuchProcess:
                continue
    process.wait(_END_S)
