"""Tasks for which the end of an epoch takes longer than an epoch: with a slow disk, for example."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from tests.model import ModelSink
from tests.simulation.story import WAIT_S, Story
from tests.waiting import wait_until

OVERHEAD_S = 0.1


def test_a_task_reads_though_each_of_its_epochs_ends_late(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = ModelSink.write

    def slow(self: ModelSink, batches: Iterator[pa.RecordBatch]) -> Any:
        written = write(self, batches)
        threading.Event().wait(OVERHEAD_S)  # also of an empty epoch
        return written

    monkeypatch.setattr(ModelSink, "write", slow)
    query = story.start(interval_ms=20)

    def has_rows() -> bool:
        story.feed.add(1)
        return sum(map(bool, story.sink.committed.copy().values())) >= 5

    wait_until(has_rows, "five epochs that are not empty", WAIT_S)
    assert query.drain(WAIT_S)
    story.sink.assert_exactly_once(story.partitions)
