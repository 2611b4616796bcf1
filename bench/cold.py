"""From nothing to the first result, in new processes: seconds on the wall.

- engine: ``continuous run`` of a specification, until its first epoch is committed;
- spark: a session, and its first job that runs Python.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from engine.checkpoint.checkpoint import Checkpoint

ENGINES = ("engine", "spark")
_LOOK_S = 0.01
_TIMEOUT_S = 120.0
_SPARKS = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").getOrCreate()
assert spark.sparkContext.parallelize(range(2), 2).map(lambda x: x + 1).sum() == 3
print("done", flush=True)
spark.stop()
"""


def main(engine: str) -> None:
    """Measure one engine and print its figures as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        took_s = _engine(Path(folder)) if engine == "engine" else _spark()
    print(json.dumps({"seconds": took_s}))


def _engine(folder: Path) -> float:
    spec = {
        "source": {"format": "rate", "options": {"rowsPerSecond": 100, "numPartitions": 2}},
        "sink": {"format": "noop"},
        "trigger": {"continuous": "100 milliseconds"},
        "checkpoint_location": str(folder / "checkpoint"),
        "conf": {"spark.master": "local[2]"},
    }
    (folder / "query.json").write_text(json.dumps(spec))
    began_s = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "engine", "run", str(folder / "query.json")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    checkpoint, never = Checkpoint(str(folder / "checkpoint")), threading.Event()
    try:
        while checkpoint.committed_epoch() < 0:
            assert process.poll() is None, "the query has ended"
            assert time.monotonic() - began_s < _TIMEOUT_S, "no epoch was committed"
            never.wait(_LOOK_S)
        return time.monotonic() - began_s
    finally:
        process.terminate()
        process.wait(_TIMEOUT_S)


def _spark() -> float:
    began_s = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-c", _SPARKS],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "done\n"
    took_s = time.monotonic() - began_s
    process.wait(_TIMEOUT_S)
    return took_s
