"""The whole engine with a table of Delta Lake: stopped, rewound and broken; nothing lost, nothing
twice."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("deltalake", reason="needs the extra delta")

from deltalake import DeltaTable

from engine.base.options import EngineOptions
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.copies import copy_checkpoint
from engine.errors import CheckpointError, ConfigError
from engine.execution.definition import QueryDefinition, StreamBinding
from engine.execution.execution import ContinuousExecution
from engine.execution.launcher import ThreadLauncher
from engine.pipeline.pipeline import Pipeline, SourceRelation
from engine.query.binding import bind_writer
from engine.query.handle import ContinuousQuery
from engine.sinks.delta.rewind import DeltaRewind
from engine.sinks.reopen import recorded_sink
from tests.model import HOUR_MS, ONE_ATTEMPT, SCHEMA, Feed, ModelReader
from tests.unit.delta_tables import read, writer
from tests.waiting import wait_until

WAIT_S = 60
BORNE = EngineOptions(lease_heartbeat_ms=50, restart_delay_ms=10, retry_sink_for_ms=HOUR_MS)


class Lake:
    """A query of two partitions into a table."""

    def __init__(self, folder: Path) -> None:
        self.table = folder / "table"
        self.checkpoint = Checkpoint(str(folder / "checkpoint"))
        self.feed = Feed(2)

    def start(self, options: EngineOptions = ONE_ATTEMPT) -> ContinuousQuery:
        made = writer(self.table, SCHEMA, __partition_by='["partition"]')
        definition = QueryDefinition(
            name=None,
            streams=(
                StreamBinding(
                    Pipeline(SourceRelation("model", {}, SCHEMA), (), SCHEMA),
                    ModelReader(self.feed),
                    "model",
                ),
            ),
            sink=bind_writer(made, "delta", "delta", {"path": str(self.table)}),
            checkpoint=self.checkpoint,
            epoch_interval_ms=0,
            options=options,
        )
        execution = ContinuousExecution(definition, ThreadLauncher())
        execution.start()
        return ContinuousQuery(execution, str)

    def run(self, epochs: int) -> None:
        """So many epochs more, with records in each."""
        query = self.start()
        for _ in range(epochs):
            self.feed.add(1)
            query.processAllAvailable()
        query.drain(WAIT_S)

    def rows(self) -> list[tuple[int, int]]:
        return sorted((row["partition"], row["seq"]) for row in read(self.table))

    def committed(self) -> list[tuple[int, int]]:
        """The rows up to the committed offsets."""
        offsets = self.checkpoint.committed_offsets()
        assert offsets is not None
        return [(p, seq) for p in range(2) for seq in range(offsets[0][str(p)])]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def test_restarts_lose_and_repeat_no_row(lake: Lake) -> None:
    for turn in range(6):
        query = lake.start()
        lake.feed.add(3)
        assert query.awaitEpoch(query.status["epoch"] + 1, WAIT_S)
        if turn % 2:
            query.stop()
        else:
            query.drain(WAIT_S)
    lake.run(1)
    assert lake.rows() == lake.committed()
    assert len(lake.rows()) == 2 * lake.feed.available[0]


def test_a_rewind_through_the_recorded_sink(lake: Lake) -> None:
    lake.run(4)
    total = lake.rows()
    sink = recorded_sink(lake.checkpoint)
    lake.checkpoint.rewind(1, sink=sink)
    assert lake.rows() == lake.committed()
    assert len(lake.rows()) < len(total)
    lake.run(2)
    assert lake.rows() == lake.committed()
    assert set(total) <= set(lake.rows())
    # Once somebody has rewritten the files, nothing changes.
    DeltaTable(str(lake.table)).optimize.compact()
    before, epoch = lake.rows(), lake.checkpoint.committed_epoch()
    with pytest.raises(ConfigError, match=r"were rewritten since"):
        lake.checkpoint.rewind(0, sink=recorded_sink(lake.checkpoint))
    assert (lake.rows(), lake.checkpoint.committed_epoch()) == (before, epoch)
    lake.run(1)
    assert lake.rows() == lake.committed()


class Killed(BaseException):
    """The process is gone."""


def killed_in_a_rewind(lake: Lake, epoch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it has come to the sink."""

    def dies(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(DeltaRewind, "rewind", dies)
        with pytest.raises(Killed):
            lake.checkpoint.rewind(epoch, sink=recorded_sink(lake.checkpoint))


@pytest.mark.parametrize("then", ["rewound again", "started"])
def test_a_rewind_that_was_killed_goes_on_though_the_tables_history_is_cut(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    lake.run(3)
    last, rows = lake.checkpoint.committed_epoch(), lake.rows()
    cut_history(lake.table)
    killed_in_a_rewind(lake, last, monkeypatch)
    if then == "rewound again":
        lake.checkpoint.rewind(last, sink=recorded_sink(lake.checkpoint))
        assert lake.rows() == rows

    lake.run(2)

    assert lake.rows() == lake.committed()
    assert len(lake.rows()) > len(rows)


def test_of_a_rewind_that_cannot_be_finished_a_copy_is_left(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing tells any more which rows came later."""
    lake.run(3)
    killed_in_a_rewind(lake, 1, monkeypatch)
    lake.feed.add(1)
    cut_history(lake.table)
    with pytest.raises(ConfigError, match=r"(?s)does not reach back.*python -m engine copy"):
        lake.start()
    copy = Lake(tmp_path / "copy")
    copy.feed = lake.feed
    with pytest.raises(CheckpointError, match=r"(?s)is being rewound to epoch 1.*to epoch 1"):
        copy_checkpoint(lake.checkpoint, copy.checkpoint)

    copy_checkpoint(lake.checkpoint, copy.checkpoint, 1)
    before = copy.committed()
    copy.run(1)

    assert sorted(before + copy.rows()) == copy.committed()


def cut_history(table: Path) -> None:
    """As who cleans a table's log does, behind a checkpoint of it: a commit of its own is left."""
    cleaned = DeltaTable(str(table))
    cleaned.alter.set_table_properties({"delta.logRetentionDuration": "interval 0 days"})
    cleaned.create_checkpoint()
    *old, _ = sorted((table / "_delta_log").glob("*.json"))
    for entry in old:
        entry.unlink()


def test_a_copy_writes_to_a_table_of_its_own(lake: Lake, tmp_path: Path) -> None:
    lake.run(3)
    shadow = Lake(tmp_path / "shadow")
    shadow.feed = lake.feed
    copy_checkpoint(lake.checkpoint, shadow.checkpoint)
    for _ in range(2):
        shadow.run(1)
    assert len(shadow.rows()) > 0
    assert sorted(lake.rows() + shadow.rows()) == shadow.committed()
    # From now on the table has to be there.
    shadow.table.rename(tmp_path / "away")
    with pytest.raises(ConfigError, match="there is no table"):
        shadow.start()


def test_a_copy_that_would_repeat_rows_says_so(
    lake: Lake, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lake.run(3)
    copy = Lake(tmp_path / "copy")
    copy.feed, copy.table = lake.feed, lake.table
    copy_checkpoint(lake.checkpoint, copy.checkpoint, 1)
    copy.run(1)
    assert re.search(rf"has epoch \d+ of query {lake.checkpoint.query_id()}", caplog.text)
    assert "is a copy up to epoch 1: unless you have taken it back" in caplog.text
    caplog.clear()
    copy.run(1)
    assert "is a copy up to" not in caplog.text, "it has epochs of its own by now"


def test_a_table_that_is_away_for_a_while_is_waited_for(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.run(1)
    query = lake.start(BORNE)
    lake.table.rename(tmp_path / "away")
    lake.feed.add(1)
    wait_until(lambda: query.status["restarts"] > 2, "restarts", WAIT_S)
    (tmp_path / "away").rename(lake.table)
    lake.feed.add(1)
    query.processAllAvailable()
    query.drain(WAIT_S)
    assert query.exception() is None
    assert lake.rows() == lake.committed()
    assert len(lake.rows()) == 2 * lake.feed.available[0]


@pytest.mark.parametrize("arrived", [True, False])
def test_commits_that_fail_now_and_then(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, arrived: bool
) -> None:
    create: Callable[..., None] = DeltaTable.create_write_transaction
    calls: list[int] = []

    def flaky(*args: Any, **options: Any) -> None:
        calls.append(1)
        fails = len(calls) % 2
        if arrived or not fails:
            create(*args, **options)
        if fails:
            raise OSError("connection reset")

    monkeypatch.setattr(DeltaTable, "create_write_transaction", flaky)
    query = lake.start(BORNE)
    for _ in range(6):
        lake.feed.add(1)
        query.processAllAvailable()
    query.drain(WAIT_S)
    assert len(calls) >= 6
    assert query.exception() is None
    assert lake.rows() == lake.committed()
    assert len(lake.rows()) == 12
