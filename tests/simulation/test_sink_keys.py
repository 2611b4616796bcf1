"""A sink that keeps the key of each commit: query id, timeline and epoch."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from engine.checkpoint.sink_context import SinkContext
from engine.errors import SinkCommitUnknownError
from tests.model import HOUR_MS, ModelMessage, ModelSink
from tests.simulation.story import WAIT_S, Story

Key = tuple[str, int, int]


@dataclass
class Table(ModelSink):
    """A table in which each commit is one row more, unless its key is there. ``dies_after`` an
    epoch, once: it has committed it, and nobody hears of that."""

    committed_by_key: dict[Key, list[tuple[int, int]]] = field(default_factory=dict)
    bound: list[SinkContext] = field(default_factory=list)
    dies_after: int | None = None

    def bind(self, context: SinkContext) -> None:
        self.bound.append(context)

    def commit(self, messages: list[ModelMessage], epoch: int) -> None:
        key = (self.bound[-1].query_id, self.bound[-1].timeline, epoch)
        rows = [(p, seq) for message in messages for p, seq in message.rows]
        self.committed_by_key.setdefault(key, rows)
        if epoch == self.dies_after:
            self.dies_after = None
            raise OSError("the answer is lost")

    def rewind(self, epoch: int) -> None:
        for key in [key for key in self.committed_by_key if key[2] > epoch]:
            del self.committed_by_key[key]

    def rows(self) -> list[tuple[int, int]]:
        return [row for rows in self.committed_by_key.values() for row in rows]

    def epochs(self) -> list[int]:
        return [epoch for _, _, epoch in self.committed_by_key]


@pytest.fixture
def table() -> Table:
    return Table()


@pytest.fixture
def story(tmp_path: Path, table: Table) -> Story:
    story = Story(tmp_path, partitions=1)
    story.sink = table
    return story


def run_until(story: Story, epoch: int, **options: int) -> None:
    query = story.start(**options)
    story.feed.add(1)
    assert query.awaitEpoch(epoch, WAIT_S)
    story.feed.add(1)
    query.processAllAvailable()
    query.drain(WAIT_S)


@pytest.mark.parametrize("restart", ["in place", "another start"])
def test_an_epoch_that_is_committed_again_has_the_key_of_before(
    story: Story, table: Table, restart: str
) -> None:
    """The run has died between the sink and the commit log."""
    table.dies_after = 1
    if restart == "another start":
        story.feed.add(1)
        with pytest.raises(SinkCommitUnknownError, match="the answer is lost"):
            story.start().awaitTermination(WAIT_S)
        assert story.checkpoint.committed_epoch() == 0
    run_until(story, 3, retry_sink_for_ms=HOUR_MS)
    epochs = table.epochs()
    assert epochs == list(range(len(epochs)))
    assert table.assert_exactly_once(1) == story.feed.available[0]
    assert [each.generation for each in table.bound] == [0, 1]
    assert {each.timeline for each in table.bound} == {0}


def test_an_epoch_that_comes_again_after_a_rewind_has_another_key(
    story: Story, table: Table
) -> None:
    run_until(story, 2)
    before = set(table.committed_by_key)
    report = story.checkpoint.rewind(1, sink=table)
    table.dies_after = 2
    run_until(story, 3, retry_sink_for_ms=HOUR_MS)
    assert {(timeline, epoch) for _, timeline, epoch in table.committed_by_key} == {
        (0, 0),
        (0, 1),
        *((report.generation, epoch) for epoch in table.epochs()[2:]),
    }
    assert before - set(table.committed_by_key)
    assert table.assert_exactly_once(1) == story.feed.available[0]


def test_a_rewind_tells_the_sink_who_rewinds(story: Story, table: Table) -> None:
    run_until(story, 2)
    told = len(table.bound)
    reports = [story.checkpoint.rewind(epoch, sink=table) for epoch in (2, 1)]
    query_id = story.checkpoint.query_id()
    assert [(each.query_id, each.generation, each.timeline) for each in table.bound[told:]] == [
        (query_id, reports[0].generation, 0),
        (query_id, reports[1].generation, reports[0].generation),
    ]
