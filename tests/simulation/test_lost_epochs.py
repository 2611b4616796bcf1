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

PARTITIONS, ROWS, LOST = 4, 12, 2


@dataclass
class DroppingSink(ModelSink):
    """Each task has a transaction of its own.

    :ivar drops: epoch → for its first, second, ... commit: the partitions whose rows it has lost.
    :ivar fenced: how often earlier tasks were shut out.
    """

    drops: dict[int, list[set[int]]] = field(default_factory=dict)
    fenced: int = 0
    on_fence: Callable[[], None] = lambda: None
    mayDropPrepared = True

    def commit(self, messages: list[ModelMessage], epoch: int) -> None:
        self.commit_calls.append(epoch)
        if epoch in self.fail_commit:
            raise self.fail_commit.pop(epoch)
        drops = self.drops.get(epoch, [])
        lost = drops.pop(0) if drops else set()
        done = []
        for task, message in enumerate(messages):
            if lost.intersection(partition for partition, _ in message.rows):
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
    """Until all rows are there or the query has failed, with something in every epoch."""
    query = story.start(**options)
    epoch = query.status["epoch"]
    while len(story.sink.rows()) < PARTITIONS * ROWS and query.isActive:
        if min(story.feed.available) < ROWS:
            story.feed.add(1)
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
    assert story.sink.assert_exactly_once(PARTITIONS) == PARTITIONS * ROWS


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
    sink.drops[LOST] = list(drops)
    finish(story, retry_sink_for_ms=HOUR_MS)
    assert sink.commit_calls.count(LOST) == len(drops) + 1
    # Those that lost it, those that ran it again, and those that went on behind it.
    assert sink.fenced == len(drops) + 2


@pytest.mark.parametrize("per_task", [1, 2, 4])
def test_the_next_start_may_share_partitions_differently(story: Story, per_task: int) -> None:
    sink = story.sink
    assert isinstance(sink, DroppingSink)
    sink.drops[LOST] = [{1, 2}]
    fail(story)
    finish(story, partitions_per_task=per_task)


def test_the_loss_is_known_after_a_crash(story: Story) -> None:
    """Also if the crash came when the epoch had been written again, and lost again."""
    sink = story.sink
    assert isinstance(sink, DroppingSink)
    sink.drops[LOST] = [{1, 2}, {2}]
    for done in ({"0/0", "0/3"}, {"0/0", "0/1", "0/3"}):
        fail(story)
        entry = story.checkpoint.prepared.get(LOST)
        assert entry is not None
        assert (entry.lost, entry.done, entry.messages) == (True, done, ())
    finish(story)


def test_a_start_that_finds_the_loss_goes_on(story: Story) -> None:
    sink = story.sink
    assert isinstance(sink, DroppingSink)
    sink.fail_commit[LOST] = SinkUnavailableError("It is away.")
    fail(story, SinkUnavailableError)
    sink.drops[LOST] = [{1, 3}]
    finish(story)
    assert sink.commit_calls.count(LOST) == 3


def test_what_another_run_has_prepared_meanwhile_is_not_replaced(story: Story) -> None:
    sink, log = story.sink, story.checkpoint.prepared
    assert isinstance(sink, DroppingSink)
    sink.drops[LOST] = [{1}]
    fail(story)
    text = log.text(PreparedEntry(99, "another run", (None,) * PARTITIONS))
    sink.on_fence = lambda: log.restore(LOST, text)
    fail(story, CheckpointError)
    assert log.text_of(LOST) == text
