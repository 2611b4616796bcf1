"""Keys that stay in the source's partitions, on threads: the tasks that read keep the state."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from engine.checkpoint.epoch_state import EpochState
from engine.checkpoint.rescaling import rescale
from engine.coordinator.behind import Behind
from engine.errors import (
    ConfigError,
    ContinuousError,
    PreparedEpochLostError,
    SourceError,
    StateTooLargeError,
)
from engine.pipeline.stateful import UPDATE
from engine.query.handle import ContinuousQuery
from engine.snapshots.names import SnapshotName
from engine.state.committed_state import committed_state, tables_of
from engine.state.contract import GROUP
from engine.state.snapshots import SnapshotWriter
from tests.model import HOUR_MS, Feed
from tests.simulation.counting import CountSink, CountStory
from tests.simulation.story import WAIT_S
from tests.waiting import wait_until

PARTITIONS = 4


@pytest.fixture
def story(tmp_path: Path) -> CountStory:
    return CountStory(tmp_path / "checkpoint", PARTITIONS, stays=True)


def assert_counted_once(story: CountStory) -> None:
    rows = story.sink.rows()
    assert len(rows) == len(set(rows)) == len(story.sink.last())
    assert story.sink.last() == story.counted(story.records, before_s=story.closed_before_s())


@pytest.mark.parametrize("per_task", [1, 2, 3, 4])
def test_each_window_is_told_once(story: CountStory, per_task: int) -> None:
    query = story.start(partitions_per_task=per_task)
    for _ in range(5):
        story.grow(query, 20)
        story.await_counts(query)
    assert query.drain(WAIT_S)
    assert_counted_once(story)


def test_update_tells_what_has_changed_at_once(story: CountStory) -> None:
    query = story.start(output_mode=UPDATE, partitions_per_task=2)
    story.grow(query, 30)
    query.processAllAvailable()
    assert query.drain(WAIT_S)
    assert story.sink.last() == story.counted(30)


@pytest.mark.parametrize("per_task", [1, 2, 3, 4])
def test_the_state_of_a_partition_goes_where_it_is_read(story: CountStory, per_task: int) -> None:
    for turn, each in enumerate((2, per_task, 3, 1)):
        query = story.start(partitions_per_task=each)
        story.grow(query, 17)
        story.await_counts(query)
        if turn == 1:
            query.processAllAvailable()
            query.stop()
        else:
            assert query.drain(WAIT_S)
    query = story.start()
    story.grow(query, 60)
    story.await_counts(query)
    assert query.drain(WAIT_S)
    assert_counted_once(story)


def test_a_source_that_fails_in_the_middle_of_an_epoch_changes_no_count(story: CountStory) -> None:
    story.feed.faults[(1, 33)] = SourceError("away")
    story.feed.faults[(3, 51)] = SourceError("away")
    query = story.start(retry_source_for_ms=60_000, restart_delay_ms=1, partitions_per_task=2)
    for _ in range(4):
        story.grow(query, 25)
        story.await_counts(query)
    assert query.drain(WAIT_S)
    assert query.exception() is None
    assert_counted_once(story)


def test_a_commit_that_fails_is_repeated_with_the_same_rows_and_state(story: CountStory) -> None:
    failed = story.sink.fail_a_commit()
    query = story.start(retry_sink_for_ms=60_000, restart_delay_ms=1)
    for _ in range(4):
        story.grow(query, 25)
        story.await_counts(query)
    assert query.drain(WAIT_S)
    assert failed
    assert_counted_once(story)


@dataclass
class DroppingSink(CountSink):
    """Each task has a transaction of its own.

    :ivar drops: for the first, second, ... commit of the first epoch that has rows of all
        partitions: those whose rows are lost.
    :ivar lost: that epoch.
    """

    drops: list[set[int]] = field(default_factory=list)
    lost: int = -1
    mayDropPrepared = True

    def commit(self, messages: list[list[tuple[int, int, int]]], epoch: int) -> None:
        found = [{key % PARTITIONS for key, _, _ in rows} for rows in messages]
        if self.lost < 0 and len(set[int]().union(*found)) == PARTITIONS:
            self.lost = epoch
        lost = self.drops.pop(0) if epoch == self.lost and self.drops else set[int]()
        done = [task for task, partitions in enumerate(found) if not lost & partitions]
        have = self.committed.setdefault(epoch, [])
        for task in done:
            have += messages[task]
        if lost:
            raise PreparedEpochLostError(f"{lost} have timed out.", done=done)


@pytest.mark.parametrize("output_mode", ["append", UPDATE])
@pytest.mark.parametrize("drops", [[{0, 1, 2, 3}], [{1}], [{0, 2, 3}, {2}]], ids=str)
@pytest.mark.parametrize("per_task", [1, 2, 4])
def test_what_a_sink_has_lost_is_counted_once(
    story: CountStory, drops: list[set[int]], output_mode: str, per_task: int
) -> None:
    """What the sink has of some partitions is not told again, and counts all the same. The next
    start shares the partitions differently."""
    sink = story.sink = DroppingSink(drops=list(drops))

    def run(per_task: int) -> ContinuousQuery:
        query = story.start(output_mode=output_mode, partitions_per_task=per_task)
        while (story.records < 60 or sink.lost < 0) and query.isActive:
            story.grow(query, 3)  # a part of a window
        with suppress(ContinuousError):
            query.processAllAvailable()
        return query

    for _ in drops:
        with pytest.raises(PreparedEpochLostError):
            run(1).awaitTermination(WAIT_S)
    query = run(per_task)
    story.await_counts(query)
    assert query.drain(WAIT_S)
    assert query.exception() is None
    assert not sink.drops
    if output_mode == UPDATE:
        assert sink.last() == story.counted(story.records)
    else:
        assert_counted_once(story)


def test_the_key_group_of_a_row_is_its_partition(story: CountStory) -> None:
    query = story.start(partitions_per_task=2)
    story.grow(query, 50)
    story.await_counts(query)
    assert query.drain(WAIT_S)
    checkpoint = story.checkpoint
    entry = checkpoint.offsets.get(checkpoint.committed_epoch())
    assert entry is not None
    state = EpochState.of(entry)
    assert state.partitions == {0: ("0/0", "0/1", "0/2", "0/3")}
    assert [(e.stage, e.first_group, e.end_group) for e in state.handles] == [(0, 0, 2), (0, 2, 4)]
    names = [SnapshotName.parse(each.file) for each in state.handles if each.file is not None]
    assert [each.stage for each in names if each is not None] == [0, 0]
    (rows,) = tables_of(checkpoint, committed_state(checkpoint), 0).values()
    assert rows.num_rows > 0
    for group, key in zip(rows[GROUP.name].to_pylist(), rows["key"].to_pylist(), strict=True):
        assert key % PARTITIONS == group
    progress = query.lastProgress
    assert progress is not None
    (operator,) = progress["stateOperators"]
    assert (operator["operatorName"], operator["numShufflePartitions"]) == ("counts", 2)
    assert operator["numRowsTotal"] == rows.num_rows


def test_other_partitions_are_refused_at_the_next_start(story: CountStory) -> None:
    query = story.start()
    story.grow(query, 10)
    assert query.drain(WAIT_S)
    feed, story.feed = story.feed, Feed(PARTITIONS + 1)
    with pytest.raises(ConfigError, match=r"5 in place of 4, with 0/4\. With keysStayInPartitions"):
        story.start()
    story.feed = Feed(PARTITIONS - 2)
    with pytest.raises(ConfigError, match="2 in place of 4, without 0/2, 0/3"):
        story.start()
    story.feed = feed
    assert story.start().drain(WAIT_S)


def test_other_partitions_end_a_query_that_runs(story: CountStory) -> None:
    query = story.start(retry_source_for_ms=HOUR_MS, retry_infrastructure_for_ms=HOUR_MS)
    story.grow(query, 10)
    with story.feed.changed:
        story.feed.available.append(0)
    with pytest.raises(ConfigError, match="5 in place of 4, with 0/4"):
        query.awaitTermination(WAIT_S)


def test_any_partitions_will_do_while_nothing_is_kept(tmp_path: Path) -> None:
    """A topic that is not there yet is a partition without a record."""
    story = CountStory(tmp_path / "checkpoint", 1, stays=True)
    assert story.start().drain(WAIT_S)
    story.partitions = PARTITIONS
    story.feed = Feed(PARTITIONS - 1)
    query = story.start()
    assert query.awaitEpoch(query.status["epoch"] + 1, WAIT_S)
    with story.feed.changed:
        story.feed.available.append(0)
    wait_until(lambda: _tasks(query) == PARTITIONS, "four tasks")
    for _ in range(3):
        story.grow(query, 20)
        story.await_counts(query)
    assert query.drain(WAIT_S)
    assert_counted_once(story)


def _tasks(query: ContinuousQuery) -> int:
    progress = query.lastProgress
    return 0 if progress is None else progress["stateOperators"][0]["numShufflePartitions"]


@pytest.mark.parametrize("allowed", [False, True])
def test_the_option_of_a_checkpoint_does_not_change(story: CountStory, allowed: bool) -> None:
    query = story.start()
    story.grow(query, 10)
    assert query.drain(WAIT_S)
    told = "kept with another option" if allowed else "stage.keysStayInPartitions: true → nothing"
    story.stays = False
    with pytest.raises(ConfigError, match=told):
        story.start(allow_changed_query=allowed)


@pytest.mark.parametrize("allowed", [False, True])
def test_nor_the_other_way_round(story: CountStory, allowed: bool) -> None:
    story.stays = False
    query = story.start()
    story.grow(query, 10)
    assert query.drain(WAIT_S)
    told = "kept with another option" if allowed else "stage.keysStayInPartitions: nothing → true"
    story.stays = True
    with pytest.raises(ConfigError, match=told):
        story.start(allow_changed_query=allowed)


def test_there_are_no_reducers_to_rescale(story: CountStory) -> None:
    query = story.start()
    story.grow(query, 10)
    query.processAllAvailable()
    with pytest.raises(ConfigError, match="the tasks that read keep its state"):
        rescale(story.checkpoint, 3, "a test")
    assert query.drain(WAIT_S)


def test_a_task_with_more_memory_than_it_may_have_ends_the_query(story: CountStory) -> None:
    query = story.start(state_memory_max_bytes=1_000, restarts_user=3)
    with pytest.raises(StateTooLargeError, match="state of counts"):
        query.awaitTermination(WAIT_S)


def test_epochs_grow_while_a_snapshot_is_slow(
    story: CountStory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the query goes on: of ``epoch_backlog_max`` no snapshot takes as long."""
    create, elapsed = SnapshotWriter._create, Behind.elapsed
    grown, queries = list[int](), list[ContinuousQuery]()

    def count(self: Any) -> None:
        elapsed(self)
        grown.append(self.held)

    def slow(self: Any, *given: Any) -> Any:
        wait_until(lambda: len(grown) > 2 or not all(q.isActive for q in queries), "longer epochs")
        return create(self, *given)

    monkeypatch.setattr(Behind, "elapsed", count)
    monkeypatch.setattr(SnapshotWriter, "_create", slow)
    query = story.start(epoch_backlog_max=10)
    queries.append(query)
    story.grow(query, 40)
    story.await_counts(query)
    assert query.drain(WAIT_S)
    assert query.exception() is None
    assert_counted_once(story)
