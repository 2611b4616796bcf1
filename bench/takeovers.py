"""The driver of a query is killed, on one machine: seconds until an epoch is committed that was not
under way, so that records of behind the kill are out.

- a standby: ``continuous run --standby`` waits beside it;
- started anew: ``continuous run`` is started at the moment of the kill, as by who supervises it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bench.size import sized
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.standing_by import standing_by

_STANDBY, _ANEW = ENGINES = ("a standby", "started anew")
_EPOCHS: Final = 10
_WARMS_S: Final = sized(20.0, 20.0, 0.0)
"""A standby that has just come has its executors to warm."""
_LOOK_S = 0.005
_TIMEOUT_S = 120.0


def main(engine: str) -> None:
    """Measure one way and print its figure as JSON."""
    with tempfile.TemporaryDirectory(prefix="bench-takeovers-") as folder:
        print(json.dumps({"seconds": _measure(Path(folder), engine)}))


def _measure(folder: Path, engine: str) -> float:
    checkpoint = Checkpoint(str(folder / "checkpoint"))
    spec = {
        "source": {"format": "rate", "options": {"rowsPerSecond": 100, "numPartitions": 2}},
        "sink": {"format": "noop"},
        "trigger": {"continuous": "100 milliseconds"},
        "checkpoint_location": checkpoint.url,
        "conf": {"spark.master": "local[2]"},
    }
    (folder / "query.json").write_text(json.dumps(spec))
    first = _run(folder)
    other: subprocess.Popen[bytes] | None = None
    try:
        _await(lambda: checkpoint.committed_epoch() >= _EPOCHS, first)
        if engine == _STANDBY:
            other = _run(folder, "--standby")
            _await(lambda: bool(standing_by(checkpoint.storage)), other)
            threading.Event().wait(_WARMS_S)
        os.killpg(first.pid, signal.SIGKILL)
        began_s = time.monotonic()
        other = other or _run(folder)
        under_way = checkpoint.offsets.latest_id() or 0
        _await(lambda: checkpoint.committed_epoch() > under_way, other)
        return time.monotonic() - began_s
    finally:
        for process in (first, other):
            if process is not None:
                _end(process)


def _run(folder: Path, *options: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "engine", "run", str(folder / "query.json"), *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _await(condition: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    deadline_s, never = time.monotonic() + _TIMEOUT_S, threading.Event()
    while not condition():
        assert process.poll() is None, f"the query has ended, {process.returncode}"
        assert time.monotonic() < deadline_s, "nothing is committed"
        never.wait(_LOOK_S)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait(_TIMEOUT_S)
