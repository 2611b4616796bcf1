"""The folder of the dead letters beside the query's own sink."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import StructType

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.logs.offset_log import OffsetEntry
from engine.checkpoint.sink_context import SinkContext
from engine.errors import ConfigError, SinkAheadError, StaleRunError
from engine.execution.survey import plan_restart
from engine.query.binding import bind_writer
from engine.sinks.contract import SinkBinding
from engine.sinks.dead_letters import with_dead_letters
from engine.sinks.files.data_source import FilesMessage, JsonDataSource
from engine.sinks.noop import NoopWriter
from engine.wire.messages import SunkEpoch

SCHEMA = StructType().add("n", "long")


def json_writer(folder: Path) -> Any:
    return JsonDataSource({"path": str(folder)}).streamWriter(SCHEMA, overwrite=False)


def to_files(folder: Path, letters: Path) -> SinkBinding:
    return with_dead_letters(bind_writer(json_writer(folder), "json"), str(letters))


def test_letters_need_a_folder_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "out")
    for same in ("out", "link", "x/../out"):
        with pytest.raises(ConfigError, match=r"deadLetterPath .* is the folder of the sink"):
            to_files(tmp_path / "out", tmp_path / same).driver.validate()
    assert not (tmp_path / "out").exists()
    to_files(tmp_path / "out", tmp_path / "letters").driver.validate()
    beside_nothing = bind_writer(NoopWriter(), "noop")
    with_dead_letters(beside_nothing, str(tmp_path / "out")).driver.validate()


def test_both_shut_out_the_runs_before(tmp_path: Path) -> None:
    before, now = (to_files(tmp_path / "out", tmp_path / "letters") for _ in range(2))
    for generation, sink in enumerate((before, now)):
        assert sink.driver.bind is not None
        sink.driver.bind(SinkContext("query", "run", generation, 0))
    nothing = SunkEpoch(FilesMessage(()), FilesMessage(()))
    with pytest.raises(StaleRunError, match="letters"):
        before.driver.commit([nothing], 0)
    now.driver.commit([nothing], 0)
    assert now.driver.latest_epoch is not None
    assert now.driver.latest_epoch() == 0


def test_letters_shut_out_the_runs_before_beside_a_sink_that_is_not_told(tmp_path: Path) -> None:
    before, now = (
        with_dead_letters(bind_writer(NoopWriter(), "noop"), str(tmp_path)) for _ in range(2)
    )
    for generation, sink in enumerate((before, now)):
        assert sink.driver.bind is not None
        sink.driver.bind(SinkContext("query", "run", generation, 0))
    with pytest.raises(StaleRunError):
        before.driver.commit([SunkEpoch(None, FilesMessage(()))], 0)


def test_the_folder_of_another_query_is_refused(tmp_path: Path) -> None:
    binding = to_files(tmp_path / "out", tmp_path / "letters")
    nothing = SunkEpoch(FilesMessage(()), FilesMessage(()))
    for epoch in range(4):
        binding.driver.commit([nothing], epoch)
    newer = to_files(tmp_path / "out2", tmp_path / "letters")
    checkpoint = Checkpoint(str(tmp_path / "checkpoint"))
    with pytest.raises(SinkAheadError, match="has never logged it"):
        plan_restart(checkpoint, newer)
    for epoch in range(3):
        checkpoint.offsets.add(epoch, OffsetEntry((epoch,)))
    to_noop = with_dead_letters(bind_writer(NoopWriter(), "noop"), str(tmp_path / "letters"))
    for sink in (newer, to_noop):
        with pytest.raises(SinkAheadError, match=r"dead letters .* epoch 3"):
            plan_restart(checkpoint, sink)
    checkpoint.offsets.add(3, OffsetEntry((3,)))
    assert plan_restart(checkpoint, newer).replay == 0
