"""What all engines do: Kafka → count by key in windows of ten seconds of event time → Kafka.

A record is JSON, ``{"key": "key-0001", "at": ms, "due": s}``, and so is a result: it has a
``count``, and an update has the ``due`` of the newest record that it counts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psutil

from bench.broker import PARTITIONS, SINK, SOURCE
from bench.kafka import ENGINE, MICRO_BATCH, Setting
from bench.peers.environments import PEERS, NoPeerError, environment, said
from engine.base.options import KEYS_STAY_IN_PARTITIONS
from engine.spark.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

IN_PARTITIONS = "engine, keys stay in partitions"
"""Told that they do, as they do: counted where they are read, as some peers count them."""
ENGINES = (ENGINE, IN_PARTITIONS, MICRO_BATCH, *PEERS)
KEYS: Final = 1_000
WINDOW_MS: Final = 10_000
DELAY_MS: Final = 30_000
"""Event time, by which a window waits for late records: partitions are not read in step."""
SLOTS = 8
CLOSED, UPDATES = "closed", "updates"
"""A count is written once, when its window has closed; or whenever it has changed."""
_FLOWS = Path(__file__).parent / "flows"
_END_S = 20.0


class PeerEndedError(Exception):
    """An engine has ended by itself; says with what."""


class TooFewError(Exception):
    """There are too few results to tell anything."""


def tried(peer: str, measure: Callable[[], Mapping[str, float]]) -> dict[str, Any]:
    """What is told of another engine: figures and version, or why there are none. That it cannot be
    installed, or does not do this work, is no failure of the benchmark."""
    try:
        environment(peer)
        return {**measure(), "version": PEERS[peer].version}
    except NoPeerError as error:
        return {"missing": f"it cannot be installed: {error}"}
    except (PeerEndedError, TimeoutError, TooFewError) as error:
        return {"missing": said(str(error)), "version": PEERS[peer].version}


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


def start(here: Setting, mode: str = "append", **source: str) -> Any:
    """Ours or Spark's; the handle.

    :param source: options of the source.
    """
    told = {KEYS_STAY_IN_PARTITIONS: "true"} if here.engine == IN_PARTITIONS else {}
    return here.start(counts(here, **source), mode, **told)


@contextmanager
def running(
    peer: str, bootstrap: str, what: str, folder: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """Another engine at this work, in two processes, or with two threads.

    :param what: :data:`CLOSED` or :data:`UPDATES`.
    :param folder: for its files; its log is ``peer.log``.
    :raises NoPeerError: it cannot be had here.
    :raises PeerEndedError: it has ended before the block.
    """
    here = environment(peer)
    told = {
        "bootstrap": bootstrap,
        "source": SOURCE,
        "sink": SINK,
        "group": f"{peer}-{what}",
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
            log = (folder / "peer.log").read_text(errors="replace")
            print(log[-3_000:], file=sys.stderr)
            raise PeerEndedError(f"it has ended: {(log.strip().splitlines() or [''])[-1]}")
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
