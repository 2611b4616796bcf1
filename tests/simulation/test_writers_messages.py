"""What a writer returns: stored, read again by a restart, or refused in the first epoch."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from engine.errors import ContinuousError, ProtocolError, SinkCommitRejectedError
from engine.wire import session
from tests.model import HOUR_MS, ModelMessage
from tests.simulation.story import WAIT_S, Story
from tests.simulation.test_sources_and_sinks import Recorder, recorded, started


class Returning(Recorder):
    """Returns whatever the test says."""

    def __init__(self, told: list[Any], message: Any) -> None:
        super().__init__(told)
        self.message = message

    def write(self, epoch: int, batches: Iterator[pa.RecordBatch]) -> Any:
        super().write(epoch, batches)
        return self.message


def failure(story: Story, told: list[Any], message: Any) -> Any:
    """How a query ends whose failing sink or storage may take an hour."""
    query = started(
        recorded(
            story,
            Returning(told, message),
            retry_sink_for_ms=HOUR_MS,
            retry_storage_for_ms=HOUR_MS,
        )
    )
    with pytest.raises(ContinuousError) as caught:
        query.awaitTermination(WAIT_S)
    assert query.status["restarts"] == 0
    return caught.value


@pytest.mark.parametrize(
    ("message", "culprit"),
    [
        (ModelMessage([PurePosixPath("a.parquet")]), "PurePosixPath"),  # type: ignore[list-item]
        (ModelMessage(np.int64(7)), "numpy"),  # type: ignore[arg-type]
        (Recorder([]), "Recorder"),
    ],
    ids=["a path", "a number of numpy", "a class of another module"],
)
def test_a_message_that_no_restart_could_read_ends_the_first_epoch(
    tmp_path: Path, message: Any, culprit: str
) -> None:
    story = Story(tmp_path, partitions=1)
    error = failure(story, [], message)
    assert isinstance(error, SinkCommitRejectedError)
    assert type(message).__name__ in error.message
    assert culprit in error.message
    assert "tests.model" in str(error)
    assert story.checkpoint.prepared_heads.ids() == []
    assert story.sink.commit_calls == []


def test_a_message_that_cannot_be_sent_is_the_writer_s_fault_and_its_epoch_aborted(
    tmp_path: Path,
) -> None:
    story, told = Story(tmp_path, partitions=1), list[Any]()
    error = failure(story, told, ModelMessage(threading.Lock()))  # type: ignore[arg-type]
    assert isinstance(error, SinkCommitRejectedError)
    assert "tests.model.ModelMessage" in error.message
    assert "lock" in error.message
    assert (error.partition, error.epoch) == (0, 0)
    assert told[-3:] == [("written", 0), ("aborted", 0), "close"]


def test_a_message_that_is_too_long_is_final_and_its_epoch_aborted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "FRAME_BYTES_MAX", 100_000)
    story, told = Story(tmp_path, partitions=1), list[Any]()
    error = failure(story, told, ModelMessage(bytes(200_000)))  # type: ignore[arg-type]
    assert isinstance(error, ProtocolError)
    assert told[-3:] == [("written", 0), ("aborted", 0), "close"]
