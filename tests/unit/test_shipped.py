"""Rows that travel to the driver: not too many at once, and not kept for long."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.lease import Lease
from engine.coordinator.epoch_runner import EpochRunner, QueryEnds
from engine.errors import ConfigError
from engine.sinks.console import ConsoleDataSource
from engine.sinks.contract import WriterContext
from engine.sinks.memory import MemoryDataSource
from engine.sinks.shipped import unpack
from tests.model import silent_binding

SCHEMA = StructType().add("id", "long")


def numbers(count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"id": list(range(count))})


@pytest.mark.parametrize("kind", ["memory", "console"])
def test_a_task_is_full_at_its_share(kind: str) -> None:
    source = {"memory": MemoryDataSource, "console": ConsoleDataSource}[kind]
    options = {"queryName": "q", "maxShippedBytesPerEpoch": "480"}
    writer = source(options).streamWriter(SCHEMA, overwrite=False)
    shipper = pickle.loads(pickle.dumps(writer.taskWriter()))
    shipper.open(WriterContext("query", "run", 0, 0, task=1, tasks=4))  # 120 bytes each

    def until_full() -> Iterator[pa.RecordBatch]:
        while not shipper.full():
            yield numbers(4)

    for epoch in range(3):
        (table,) = unpack([shipper.write(epoch, until_full())], numbers(1).schema)
        assert table.num_rows == 16
        assert shipper.full()


def test_what_was_read_at_once_may_not_be_more_than_an_epoch_ships() -> None:
    writer = MemoryDataSource({"queryName": "q", "maxShippedBytesPerEpoch": "100"})
    shipper = writer.streamWriter(SCHEMA, overwrite=False).taskWriter()
    shipper.open(WriterContext("query", "run", 0, 0, task=0, tasks=2))
    assert shipper.write(0, iter([numbers(6), numbers(12)])).stream  # not full before the second
    with pytest.raises(ConfigError, match=r"sink memory works on the driver.* is 100") as error:
        shipper.write(1, iter([numbers(12), numbers(7)]))
    assert "maxShippedBytesPerEpoch" in (error.value.hint or "")


def test_a_limit_that_is_none() -> None:
    with pytest.raises(ConfigError, match="maxShippedBytesPerEpoch"):
        ConsoleDataSource({"maxShippedBytesPerEpoch": "1g"})


@pytest.mark.parametrize("ships_rows", [False, True])
def test_rows_leave_the_checkpoint_soon(tmp_path: Path, ships_rows: bool) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    checkpoint.create_or_read_query_id("a-query")
    source = SimpleNamespace(mergeOffsets=lambda parts: parts[0], commit=lambda end: None)
    sink = silent_binding(ships_rows=ships_rows)
    ends = QueryEnds("a-query", [source], sink)  # type: ignore[list-item]
    lease = Lease.acquire(checkpoint, run_id="run")
    epochs = EpochRunner(checkpoint, lease, ends, min_epochs_to_retain=100)
    for epoch in range(6):
        epochs.commit(epoch, [[epoch]], [None])
    assert checkpoint.offsets.ids() == list(range(6))
    assert checkpoint.prepared.ids() == ([4, 5] if ships_rows else list(range(6)))
