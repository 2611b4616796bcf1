"""Rows that travel to the driver: not too many at once, and not kept for long."""

from __future__ import annotations

import pickle
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.lease import Lease
from engine.coordinator.epoch_runner import EpochRunner, QueryEnds
from engine.errors import ConfigError, SinkError
from engine.sinks.console import ConsoleDataSource
from engine.sinks.memory import MemoryDataSource
from tests.model import silent_binding

SCHEMA = StructType().add("id", "long")


@pytest.mark.parametrize("kind", ["memory", "console"])
def test_a_task_ships_no_more_than_it_may(kind: str) -> None:
    source = {"memory": MemoryDataSource, "console": ConsoleDataSource}[kind]
    options = {"queryName": "q", "maxShippedBytesPerEpoch": "100"}
    writer = pickle.loads(pickle.dumps(source(options).streamWriter(SCHEMA, overwrite=False)))
    taken = 0

    def batches():  # type: ignore[no-untyped-def]
        nonlocal taken
        for _ in range(20):
            taken += 1
            yield pa.RecordBatch.from_pydict({"id": [1, 2, 3]})

    with pytest.raises(
        SinkError, match=f"The sink {kind} works on the driver.* 100 bytes"
    ) as error:
        writer.write(batches())
    assert taken == 5
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
