"""The whole engine with a table that gets the epochs of a minute by one commit: each is durable as
it ends, and whatever ends the query, the table gets all that is logged, once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("deltalake", reason="needs the extra delta")

from deltalake import DeltaTable

from engine.base.options import EngineOptions
from engine.checkpoint.checkpoint import Checkpoint
from engine.errors import ConfigError, SinkUnavailableError
from engine.execution import committer
from engine.execution.definition import QueryDefinition, StreamBinding
from engine.execution.execution import ContinuousExecution
from engine.execution.launcher import ThreadLauncher
from engine.pipeline.pipeline import Pipeline, SourceRelation
from engine.query.binding import bind_writer
from engine.query.handle import ContinuousQuery
from engine.sinks.dead_letters import with_dead_letters
from engine.sinks.delta.table_log import DeltaLog
from tests.model import HOUR_MS, ONE_ATTEMPT, SCHEMA, Feed, ModelReader
from tests.unit.delta_tables import read, writer
from tests.waiting import wait_until

WAIT_S = 60
FILLED = replace(ONE_ATTEMPT, empty_epoch_interval="1 hour")
"""As many epochs as have records: others would be more, the slower the machine is."""


class Lake:
    """A query of two partitions into a table."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.table = folder / "table"
        self.checkpoint = Checkpoint(str(folder / "checkpoint"))
        self.feed = Feed(2)
        self.reader = ModelReader(self.feed)

    def start(
        self,
        options: EngineOptions = FILLED,
        commit_interval: str = "1 hour",
        *,
        letters: bool = False,
        interval_ms: int = 10,
    ) -> ContinuousQuery:
        made = writer(self.table, SCHEMA, commitInterval=commit_interval)
        sink = bind_writer(made, "delta", "delta", {"path": str(self.table)})
        definition = QueryDefinition(
            name=None,
            streams=(
                StreamBinding(
                    Pipeline(SourceRelation("model", {}, SCHEMA), (), SCHEMA), self.reader, "model"
                ),
            ),
            sink=with_dead_letters(sink, str(self.folder / "letters")) if letters else sink,
            checkpoint=self.checkpoint,
            epoch_interval_ms=interval_ms,
            options=options,
        )
        execution = ContinuousExecution(definition, ThreadLauncher())
        execution.start()
        return ContinuousQuery(execution, str)

    def logged(self) -> int:
        return self.checkpoint.offsets.latest_id() or 0

    def await_logged(self, more: int = 3) -> None:
        """So many epochs with a record of each partition."""
        for _ in range(more):
            self.feed.add(1)
            wait_until(self._has_logged_all, "the records are logged", WAIT_S)

    def _has_logged_all(self) -> bool:
        entry = self.checkpoint.offsets.get(self.logged())
        ends = {str(p): self.feed.available[p] for p in range(2)}
        return entry is not None and entry.offsets == (ends,)

    def rows(self) -> list[tuple[int, int]]:
        if not DeltaTable.is_deltatable(str(self.table)):
            return []
        return sorted((row["partition"], row["seq"]) for row in read(self.table))

    def all(self) -> list[tuple[int, int]]:
        return [(p, seq) for p in range(2) for seq in range(self.feed.available[p])]

    def version(self) -> int:
        return DeltaTable(str(self.table)).version()


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


@pytest.mark.parametrize("end", ["drain", "stop"])
def test_the_end_of_a_query_commits_what_is_logged(lake: Lake, end: str) -> None:
    """Of one that is stopped the next start does, by one commit, too."""
    query = lake.start()
    lake.await_logged(5)
    assert (lake.rows(), lake.checkpoint.commits.latest_id()) == ([], None)
    assert lake.reader.commits == []  # to be had again if the table does not take them
    assert query.lastProgress is None
    if end == "stop":
        query.stop()
        assert (lake.rows(), lake.checkpoint.commits.latest_id()) == ([], None)
        lake.start().drain(WAIT_S)
    else:
        query.drain(WAIT_S)
    assert lake.rows() == lake.all()
    assert lake.version() == 1  # the table itself, and all epochs
    assert lake.checkpoint.commits.latest_id() == lake.logged()
    if end == "drain":
        assert [each["batchId"] for each in query.recentProgress] == list(range(lake.logged() + 1))
        offsets = lake.checkpoint.committed_offsets()
        assert offsets is not None
        assert lake.reader.commits[-1] == offsets[0]


def test_who_waits_for_an_epoch_does_not_wait_for_the_interval(lake: Lake) -> None:
    query = lake.start()
    for _ in range(2):
        lake.await_logged(2)
        query.processAllAvailable()
        assert lake.rows() == lake.all()
        assert query.awaitEpoch(lake.logged(), WAIT_S)
    query.drain(WAIT_S)


def test_the_interval_makes_them_visible(lake: Lake) -> None:
    """With, and without, an epoch that comes behind it."""
    query = lake.start(EngineOptions(empty_epoch_interval="1 hour"), commit_interval="200 ms")
    for _ in range(3):
        lake.feed.add(2)
        wait_until(lambda: lake.rows() == lake.all(), "the rows are there", WAIT_S)
    query.stop()


def test_a_backlog_of_many_epochs_is_waited_for(lake: Lake) -> None:
    """Also where nobody knows how many."""
    query = lake.start()
    lake.await_logged(4)
    lake.feed.add(500)
    query.processAllAvailable()
    assert lake.rows() == lake.all()
    query.stop()


def test_who_waits_for_a_later_epoch_leaves_the_interval_as_it_is(lake: Lake) -> None:
    query = lake.start()
    lake.await_logged(2)
    assert query.awaitEpoch(lake.logged() + 10, WAIT_S)
    assert lake.version() <= 3
    query.stop()


def test_dead_letters_are_refused(lake: Lake) -> None:
    with pytest.raises(ConfigError, match="by one commit"):
        lake.start(letters=True)


def test_without_an_interval_of_epochs_they_are_as_short_as_the_logs_are_fast(lake: Lake) -> None:
    query = lake.start(interval_ms=0)
    lake.await_logged(10)
    assert lake.rows() == []
    query.drain(WAIT_S)
    assert (lake.rows(), lake.version()) == (lake.all(), 1)


def test_there_are_not_more_than_fit(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committer, "TOGETHER_MAX", 3)
    query = lake.start()
    lake.await_logged(7)
    wait_until(lambda: lake.version() >= 2, "commits", WAIT_S)
    query.drain(WAIT_S)
    assert lake.rows() == lake.all()


def test_a_restart_commits_what_was_logged_by_one_commit(lake: Lake) -> None:
    """An attempt that fails commits nothing: the next one does, before it reads on."""
    borne = replace(FILLED, retry_source_for_ms=HOUR_MS)
    query = lake.start(borne)
    lake.await_logged(3)
    before, logged = lake.all(), lake.logged()
    lake.feed.faults[0, lake.feed.available[0]] = OSError("the source is gone")
    lake.feed.add(1)
    commits = lake.checkpoint.commits  # each has a file, and all are one commit of the table
    wait_until(lambda: (commits.latest_id() or 0) >= logged, "a restart", WAIT_S)
    assert set(before) <= set(lake.rows())
    assert lake.version() == 1
    query.processAllAvailable()
    query.drain(WAIT_S)
    assert lake.rows() == lake.all()


def test_a_table_that_is_away_meanwhile(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    borne = replace(FILLED, retry_sink_for_ms=HOUR_MS)
    query = lake.start(borne)
    lake.await_logged(3)
    look, failed = DeltaLog.look, 0

    def away(log: DeltaLog) -> DeltaTable:
        nonlocal failed
        failed += 1
        if failed > 3:
            monkeypatch.undo()
        raise SinkUnavailableError("away")

    assert look is DeltaLog.look
    monkeypatch.setattr(DeltaLog, "look", away)
    query.processAllAvailable()
    assert failed > 3
    query.drain(WAIT_S)
    assert lake.rows() == lake.all()
