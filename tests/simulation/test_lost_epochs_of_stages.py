"""Epochs of queries that keep state, of which a sink has dropped some tasks' rows and has those of
others: the next start has another number of tasks."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from engine.errors import ContinuousError, NotEnoughSlotsError, PreparedEpochLostError
from engine.execution.slots import LOCAL, Slots
from engine.query.handle import ContinuousQuery
from tests.simulation.counting import CountSink, CountStory
from tests.simulation.story import WAIT_S
from tests.simulation.test_slots import Cluster


@dataclass
class DroppingSink(CountSink):
    """Each task has a transaction of its own: it has the rows of one task of the first epoch that
    has rows of several.

    :ivar lost: that epoch.
    """

    lost: int = -1
    mayDropPrepared = True

    def commit(self, messages: list[list[tuple[int, int, int]]], epoch: int) -> None:
        filled = [task for task, rows in enumerate(messages) if rows]
        drops = self.lost < 0 and len(filled) > 1
        done = filled[-1:] if drops else filled
        have = self.committed.setdefault(epoch, [])
        for task in done:
            have += messages[task]
        if drops:
            self.lost = epoch
            raise PreparedEpochLostError("They have timed out.", done=done)


@pytest.fixture
def story(tmp_path: Path) -> CountStory:
    """Half of an epoch is in the sink, of a query with two tasks that count."""
    made = CountStory(tmp_path / "checkpoint")
    made.sink = DroppingSink()
    query = made.start(reducers=2)
    grow(made, query)
    with pytest.raises(PreparedEpochLostError):
        query.awaitTermination(WAIT_S)
    return made


def grow(story: CountStory, query: ContinuousQuery) -> None:
    story.grow(query, 30)
    with suppress(ContinuousError):
        story.await_counts(query)


def assert_told_once(story: CountStory) -> None:
    rows = story.sink.rows()
    assert len(rows) == len(story.sink.last())
    assert story.sink.last() == story.counted(story.records, before_s=story.closed_before_s())


@pytest.mark.parametrize("reducers", [1, 3, 5])
def test_the_epoch_is_finished_by_as_many_tasks_as_began_it(
    story: CountStory, reducers: int
) -> None:
    query = story.start(reducers=reducers)
    grow(story, query)
    assert query.drain(WAIT_S)
    assert query.exception() is None
    assert_told_once(story)
    progress = query.lastProgress
    assert progress is not None
    assert progress["stateOperators"][0]["numShufflePartitions"] == reducers


def test_where_slots_are_too_few_for_them_they_are_waited_for(story: CountStory) -> None:
    few = Cluster(lambda: Slots(2, 2), LOCAL)
    with pytest.raises(NotEnoughSlotsError, match="stage 1: 2"):
        story.start(few).awaitTermination(WAIT_S)
    query = story.start(Cluster(lambda: Slots(3, 3), LOCAL))
    grow(story, query)
    assert query.drain(WAIT_S)
    assert_told_once(story)
