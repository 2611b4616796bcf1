"""Run as a process with little memory: snapshots of a state that does not fit it, and back.

    python -m tests.unit.large_state WHAT URL PIECE_BYTES MEMORY_BYTES

The stage holds nothing: it makes its rows when it is asked, and adds up those that it gets. So all
memory is that of whoever writes, reads and merges them.
"""

from __future__ import annotations

import json
import resource
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.checkpoint.storage.contract import Storage
from engine.checkpoint.storage.fsspec_storage import FsspecStorage
from engine.checkpoint.storage.local_storage import LocalStorage
from engine.exchange.key_groups import groups_of
from engine.snapshots.handles import SnapshotHandle
from engine.state import pieces
from engine.state.contract import StatefulStage, StateTable
from engine.state.restoring import restore
from engine.state.snapshots import SnapshotWriter

KEYS: Final = 1 << 20
CHANGED: Final = KEYS // 5
GROUPS: Final = 32
_AT_ONCE: Final = 1 << 16
TABLE: Final = StateTable(
    "rows", pa.schema([("key", pa.string()), ("n", pa.int64()), ("text", pa.string())]), 1
)


class Passing(StatefulStage):
    """See the module.

    :param groups: how many key groups there are; 1: all keys are in one.
    """

    name = "passing"

    def __init__(self, groups: int = GROUPS) -> None:
        self.groups = groups
        self.number = 1
        self.rows = self.sum = 0

    @property
    def tables(self) -> tuple[StateTable, ...]:
        return (TABLE,)

    @property
    def row_count(self) -> int:
        return KEYS

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return batches

    def restore(self, tables: Mapping[str, pa.Table], *, of_several: bool = False) -> None:
        for rows in tables.values():
            self.rows += rows.num_rows
            self.sum += pc.sum(rows.column("n")).as_py() or 0

    def changes(self, *, whole: bool) -> Iterator[tuple[str, pa.Table]]:
        for start in range(0, KEYS if whole else CHANGED, _AT_ONCE):
            keys = np.arange(start, min(start + _AT_ONCE, KEYS if whole else CHANGED))
            columns = [
                pa.array(keys * 7 % self.groups, pa.uint16()),
                pa.array(np.zeros(len(keys), np.bool_)),
                pc.binary_join_element_wise("key", pa.array(keys).cast(pa.string()), "-"),
                pa.array(np.full(len(keys), self.number)),
                pc.binary_repeat(pa.scalar("text "), pa.array(np.full(len(keys), 36))),
            ]
            yield "rows", pa.Table.from_arrays(columns, schema=TABLE.stored)


def write(storage: Storage, stage: Passing, epochs: int) -> SnapshotHandle:
    """A whole snapshot, and changes behind it."""
    owned = range(stage.groups)
    to = SnapshotWriter(storage, query_id="query", stage=1, groups=owned, generation=1)
    for epoch in range(epochs):
        handle = to.prepare(epoch, 0, [stage]).write()
        stage.number += 1
    return handle


def read(storage: Storage, handle: SnapshotHandle, tasks: int) -> list[tuple[int, int]]:
    """What each of some tasks gets: how many rows, and the sum of their numbers."""
    found = []
    for task in range(tasks):
        stage = Passing()
        owned = groups_of(task, tasks, handle.end_group)
        restore(storage, [handle], owned, [stage], query_id="query", watermark_ms=0)
        found.append((stage.rows, stage.sum))
    return found


def _data_bytes() -> int:
    """Of memory that is no file's, now: what the limit counts."""
    (line,) = (
        line for line in Path("/proc/self/status").read_text().splitlines() if "VmData" in line
    )
    return int(line.split()[1]) << 10


def main(what: str, url: str, piece_bytes: int, memory_bytes: int) -> None:
    pieces.PIECE_BYTES = piece_bytes  # type: ignore[misc]
    is_far = url.startswith("file:")
    storage = FsspecStorage.open(url) if is_far else LocalStorage(url)
    pa.set_cpu_count(1)
    threading.stack_size(1 << 20)
    next(Passing().changes(whole=False))  # what is loaded late is there
    if memory_bytes:
        allowed = _data_bytes() + memory_bytes
        resource.setrlimit(resource.RLIMIT_DATA, (allowed, allowed))
    noted = Path(url.removeprefix("file://")) / "handle.json"
    if what.startswith("write"):
        groups = 1 if what == "write-one-group" else GROUPS
        handle = write(storage, Passing(groups), 6 if what == "write-and-merge" else 2)
        noted.write_text(json.dumps(handle.to_json()))
        print(json.dumps([handle.since, handle.nbytes]))
    else:
        handle = SnapshotHandle.from_json(json.loads(noted.read_text()))
        print(json.dumps(read(storage, handle, int(what.removeprefix("read-")))))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
