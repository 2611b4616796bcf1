"""Epochs that a sink has dropped after they were prepared, as a broker does with a transaction that
nobody has ended in time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from engine.checkpoint.logs.prepared_log import PreparedEntry
from engine.errors import (
    CheckpointError,
    ContinuousError,
    PreparedEpochLostError,
    SinkUnavailableError,
)
from engine.query.handle import ContinuousQuery
from tests.model import HOUR_MS, ModelMessage, ModelSink
from tests.simulation.story import WAIT_S, Story

PARTITIONS, ROWS = 4, 12


@dataclass
class DroppingSink(ModelSink):
    """Each task has a transaction of its own. It fails the first epoch that has rows of all
    partitions: which one that is depends on when the tasks come to them.

    :ivar failure: of the first commit of that epoch.
    :ivar drops: for its first, second, ... commit: the partitions whose rows it has lost.
    :ivar lost: that epoch.
    :ivar fenced: how often earlier tasks were shut out.
    """

    failure: ContinuousError | None = None
    drops: list[set[int]] = field(default_factory=list)
    lost: int = -1
    fenced: int = 0
    on_fence: Callable[[], None] = lambda: None
    mayDropPrepared = True

    def commit(self, messages: list[ModelMessage], epoch: int) -> None:
        self.commit_calls.append(epoch)
        found = [{partition for partition, _ in message.rows} for message in messages]
        if self.lost < 0 and len(set().union(*found)) == PARTITIONS:
            self.lost = epoch
        lost: set[int] = set()
        if epoch == self.lost:
            if self.failure is not None:
                failure, self.failure = self.failure, None
                raise failure
            lost = self.drops.pop(0) if self.drops else lost
        done = []
        for task, message in enumerate(messages):
            if lost & found[task]:
                continue
            done.append(task)
            have = self.committed.setdefault(epoch, [])
            have += [(p, seq) for p, seq in message.rows]
        if lost:
            raise PreparedEpochLostError(f"{lost} have timed out.", done=done)

    def fenceTasks(self) -> None:
        self.fenced += 1
        self.on_fence()


@pytest.fixture
def story(tmp_path: Path) -> Story:
    made = Story(tmp_path / "checkpoint", PARTITIONS)
    made.sink = DroppingSink()
    return made


def run(story: Story, **options: Any) -> ContinuousQuery:
    """Until all rows are there or the query has failed, with something in every epoch; and with one
    that has rows of all partitions."""
    query = story.start(**options)
    epoch = query.status["epoch"]
    sink = story.sink
    assert isinstance(sink, DroppingSink)
    feed = story.feed

    def is_done() -> bool:
        return not wants_more() and len(sink.rows()) >= sum(feed.available)

    def wants_more() -> bool:
        return sink.lost < 0 or min(feed.available) < ROWS

    while not is_done() and query.isActive:
        if wants_more():
            feed.add(1)
        epoch += 1
        with suppress(ContinuousError):
            query.awaitEpoch(epoch, WAIT_S)
    return query


def fail(story: Story, error: type[ContinuousError] = PreparedEpochLostError) -> None:
    query = run(story)
    with pytest.raises(error):
        query.awaitTermination(WAIT_S)


def finish(story: Story, **options: Any) -> None:
    query = run(story, **options)
    assert query.drain(WAIT_S)
    assert query.exception() is None
    assert story.sink.assert_exactly_once(PARTITIONS) == sum(story.feed.available)


@pytest.mark.parametrize(
    "drops",
    [[{0, 1, 2, 3}], [{1}], [{0, 2, 3}, {2}], [{1, 2, 3}, {1, 2, 3}, {1}]],
    ids=["all", "one", "some, and one again", "thrice"],
)
def test_what_was_lost_is_written_again_and_nothing_else(
    story: Story, drops: list[set[int]]
) -> None:
    sink = story.sink
    assert isinstance(sink, DroppingSink)
    sink.drops = list(drops)
    finish(story, retry_sink_for_ms=HOUR_MS)
    assert sink.commit_calls.count(sink.lost) == len(drops) + 1
    # Those that lost it, those that ran it again, and those that went on behind it.
    assert sink.fenced == len(drops) + 2


@pytest.mark.parametrize("per_task", [1, 2, 4])
def test_the_next_start_may_share_partitions_differently(story: Story, per_task: int) -> None:
    sink = story.sink
    assert isinstance(sink, DroppingSink)
    sink.drops = [{1, 2}]
    fail(story)
    finish(story, partitions_per_task=per_task)


def test_the_loss_is_known_after_a_crash(story: Story) -> None:
    """Also if the crash came when the epoch had been written again, and lost again."""
    sink = story.sink
    assert isinstance(sink, DroppingSink)
    sink.drops = [{1, 2}, {2}]
    for done in ({"0/0", "0/3"}, {"0/0", "0/1", "0/3"}):
        fail(story)
        entry = story.checkpoint.prepared.get(sink.lost)
        assert entry is not None
        assert (entry.lost, entry.done, entry.messages) == (True, done, ())
    finish(story)


def test_a_start_that_finds_the_loss_goes_on(story: Story) -> None:
    sink = story.sink
    assert isinstance(sink, DroppingSink)
    sink.failure = SinkUnavailableError("It is away.")
    fail(story, SinkUnavailableError)
    sink.drops = [{1, 3}]
    finish(story)
    assert sink.commit_calls.count(sink.lost) == 3


def test_what_another_run_has_prepared_meanwhile_is_not_replaced(story: Story) -> None:
    sink, log = story.sink, story.checkpoint.prepared
    assert isinstance(sink, DroppingSink)
    sink.drops = [{1}]
    fail(story)
    text = log.text(PreparedEntry(99, "another run", (None,) * PARTITIONS))
    sink.on_fence = lambda: log.restore(sink.lost, text)
    fail(story, CheckpointError)
    assert log.text_of(sink.lost) == text
