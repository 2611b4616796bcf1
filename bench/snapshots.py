"""The snapshot of an epoch of a windowed count with a million keys in one task, on a local disk.

- pause_ms: so long the reducer takes what has changed, and counts nothing;
- write_ms: beside the next epoch, until the file is durable;
- bytes: of the file.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench import windows
from bench.size import sized
from engine.checkpoint.storage.opening import open_storage
from engine.exchange.key_groups import KEY_GROUPS
from engine.pipeline.stateful import APPEND
from engine.state.contract import EventClock, StatefulStage
from engine.state.snapshots import SnapshotWriter

ENGINES = ("1,000 keys changed", "10,000 keys changed", "100,000 keys changed")
KEYS = sized(1_000_000, 1_000_000, 100_000)
EPOCHS = sized(20, 8, 2)


def main(engine: str) -> None:
    """Measure one engine in this process and print its figures as JSON."""
    changed = int(engine.split()[0].replace(",", ""))
    stage = windows.stage(EventClock(), APPEND, is_partial=False)
    _count(stage, np.arange(KEYS))
    random = np.random.default_rng(changed)
    with tempfile.TemporaryDirectory(prefix="bench-snapshots-") as folder:
        writer = SnapshotWriter(
            open_storage(folder), query_id="bench", stage=1, groups=range(KEY_GROUPS), generation=1
        )
        writer.prepare(0, 0, [stage]).write()
        pauses_ms, writes_ms, sizes = [], [], []
        for epoch in range(1, 1 + EPOCHS):
            _count(stage, random.choice(KEYS, changed, replace=False))
            began_s = time.perf_counter()
            job = writer.prepare(epoch, 0, [stage])
            taken_s = time.perf_counter()
            file = job.write().file
            writes_ms.append((time.perf_counter() - taken_s) * 1e3)
            pauses_ms.append((taken_s - began_s) * 1e3)
            sizes.append(Path(folder, str(file)).stat().st_size)
    figures = {"pause_ms": pauses_ms, "write_ms": writes_ms, "bytes": sizes}
    print(json.dumps({name: statistics.median(each) for name, each in figures.items()}))


def _count(stage: StatefulStage, numbers: np.ndarray) -> None:
    for start in range(0, len(numbers), windows.ROWS):
        part = numbers[start : start + windows.ROWS]
        list(stage(iter([windows.batch_of(np.zeros(len(part), np.int64), pa.array(part))])))
