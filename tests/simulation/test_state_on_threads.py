"""Queries that keep state, on threads, without a JVM: counted once, whatever dies."""

from __future__ import annotations

import errno
import json
import logging
import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from engine.checkpoint.epoch_state import EpochState
from engine.checkpoint.lease import read_holder
from engine.checkpoint.rescaling import rescale, want_reducers
from engine.errors import (
    CheckpointError,
    ConfigError,
    SourceError,
    StateTooLargeError,
    TaskLostError,
)
from engine.execution.definition import QueryDefinition, StreamBinding
from engine.execution.execution import ContinuousExecution
from engine.execution.launcher import ThreadLauncher
from engine.execution.start_watch import StartWatch
from engine.pipeline.pipeline import Project
from engine.pipeline.stateful import COMPLETE, UPDATE, Exchange
from engine.query.handle import ContinuousQuery
from engine.sinks.adapter import PlainTaskWriter
from engine.sinks.contract import DriverSink, SinkBinding
from engine.state import arrays, chains, pieces
from engine.state.committed_state import committed_state, tables_of
from engine.state.snapshots import SnapshotWriter
from engine.task.channel import Channel
from engine.task.keeping import Keeping
from engine.task.sending import SendingWriter
from tests.disks import disk_of_64k
from tests.model import NEVER_MS, ONE_ATTEMPT, Feed, ModelReader
from tests.simulation import counting
from tests.simulation.counting import KEYS, CountStory, counted, pipelines
from tests.simulation.story import WAIT_S
from tests.waiting import wait_until

__all__ = ["disk_of_64k"]


@pytest.fixture
def story(tmp_path: Path) -> CountStory:
    return CountStory(tmp_path / "checkpoint")


def test_each_window_is_told_once_when_the_watermark_has_passed_it(story: CountStory) -> None:
    query = story.start()
    for _ in range(5):
        story.grow(query, 20)
        story.await_counts(query)
    assert query.drain(WAIT_S)
    rows = story.sink.rows()
    assert len(rows) == len(set(rows)) == len(story.sink.last())
    assert story.sink.last() == counted(100, 2, before_s=79)


def test_a_query_goes_on_whatever_year_a_record_says_it_is(
    story: CountStory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "BEGAN_S", 1_795_174_660_561)  # milliseconds, taken for seconds
    query = story.start()
    story.feed.add(5)
    query.processAllAvailable()
    assert query.drain(WAIT_S)
    newest = [each["eventTime"].get("max") for each in query.recentProgress]
    assert "+58856-10-26T11:56:05.000Z" in newest


def test_a_stage_behind_a_join_waits_for_rows_that_the_join_holds_back(story: CountStory) -> None:
    story.lag_s = 25
    for _ in range(2):
        query = story.start()
        for _ in range(3):
            story.grow(query, 20)
            story.await_counts(query)
        assert query.drain(WAIT_S)
    assert story.sink.last() == counted(120, 2, before_s=99 - 25)
    state = committed_state(story.checkpoint)
    (rows,) = tables_of(story.checkpoint, state, 1).values()
    assert rows.num_rows == len(counted(120, 2)) - len(story.sink.last())


def test_rows_that_a_watermark_closes_wait_no_longer_than_the_query_has_run(
    story: CountStory,
) -> None:
    """Also where nothing is read in the epoch that closes them."""
    began_s = time.monotonic()
    query = story.start(reducers=4)
    for _ in range(5):
        story.grow(query, 20)
        story.await_counts(query)
    reports = query.recentProgress
    assert query.drain(WAIT_S)
    longest_ms = max((each["latencyMs"]["readToWritten"] or {}).get("max", 0) for each in reports)
    assert longest_ms <= (time.monotonic() - began_s) * 1000


def test_update_tells_what_has_changed_at_once(story: CountStory) -> None:
    query = story.start(output_mode=UPDATE)
    story.grow(query, 30)
    query.processAllAvailable()
    assert query.drain(WAIT_S)
    assert story.sink.last() == counted(30, 2)


def test_complete_tells_everything(story: CountStory) -> None:
    query = story.start(output_mode=COMPLETE)
    story.grow(query, 30)
    query.processAllAvailable()
    story.grow(query, 15)
    query.processAllAvailable()
    assert query.drain(WAIT_S)
    newest = max(epoch for epoch, rows in story.sink.committed.items() if rows)
    told = {(key, at): count for key, at, count in story.sink.committed[newest]}
    assert told == counted(45, 2)


@pytest.mark.parametrize(("reducers", "in_pieces"), [(1, False), (2, False), (3, False), (3, True)])
def test_a_restart_goes_on_with_its_state_on_any_number_of_tasks(
    story: CountStory, reducers: int, in_pieces: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {}
    if in_pieces:
        options = {"state_spill_after_bytes": 1}
        monkeypatch.setattr(arrays, "_SMALL", 1)
        monkeypatch.setattr(pieces, "PIECE_BYTES", 40_000)
        monkeypatch.setattr(chains, "_MAPPED_MIN", 0)
    for turn, tasks in enumerate((2, reducers, 1)):
        query = story.start(reducers=tasks, **options)
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
    rows = story.sink.rows()
    assert len(rows) == len(story.sink.last())
    assert story.sink.last() == counted(story.records, 2, before_s=story.closed_before_s())


def test_a_source_that_fails_in_the_middle_of_an_epoch_changes_no_count(story: CountStory) -> None:
    story.feed.faults[(1, 33)] = SourceError("away")
    query = story.start(retry_source_for_ms=60_000, restart_delay_ms=1)
    for _ in range(4):
        story.grow(query, 25)
        story.await_counts(query)
    assert query.drain(WAIT_S)
    assert query.exception() is None
    rows = story.sink.rows()
    assert len(rows) == len(story.sink.last())
    assert story.sink.last() == counted(100, 2, before_s=79)


def test_a_commit_that_fails_is_repeated_with_the_same_rows_and_state(story: CountStory) -> None:
    failed = story.sink.fail_a_commit()
    query = story.start(retry_sink_for_ms=60_000, restart_delay_ms=1)
    for _ in range(4):
        story.grow(query, 25)
        story.await_counts(query)
    assert query.drain(WAIT_S)
    assert failed
    assert story.sink.last() == counted(100, 2, before_s=79)
    assert len(story.sink.rows()) == len(story.sink.last())


def test_watermark_and_state_stand_in_the_logs(story: CountStory) -> None:
    query = story.start()
    story.grow(query, 50)
    story.await_counts(query)
    story.feed.add(1)
    query.processAllAvailable()
    assert query.drain(WAIT_S)
    checkpoint = story.checkpoint
    newest = checkpoint.committed_epoch()
    entry = checkpoint.offsets.get(newest)
    assert entry is not None
    state = EpochState.of(entry)
    assert state.key_groups == 128
    assert {(each.stage, each.first_group, each.end_group) for each in state.handles} == {
        (1, 0, 64),
        (1, 64, 128),
    }
    assert all(each.file is None or checkpoint.storage.exists(each.file) for each in state.handles)
    text = (story.folder / f"commits/{newest}").read_text()
    assert json.loads(text.splitlines()[1])["nextBatchWatermarkMs"] == state.next_watermark_ms
    assert state.next_watermark_ms in (1_029_000, 1_030_000)
    progress = query.lastProgress
    assert progress is not None
    assert progress["eventTime"]["watermark"].startswith("1970-01-01T00:17:")
    (operator,) = progress["stateOperators"]
    assert operator["operatorName"] == "counts"
    assert operator["numShufflePartitions"] == 2
    tables = tables_of(checkpoint, committed_state(checkpoint, newest), 1)
    assert operator["numRowsTotal"] == sum(each.num_rows for each in tables.values())


def test_late_records_are_counted_and_change_nothing(story: CountStory) -> None:
    story.feed.available[1] = 0
    query = story.start()
    story.bring_late(query, 70)  # the second partition is a minute behind
    assert query.drain(WAIT_S)
    late = sum(
        operator["numRowsDroppedByWatermark"]
        for report in query.recentProgress
        for operator in report["stateOperators"]
    )
    assert late == 50  # all windows of the second partition that the first has closed: up to 49
    closed = {key: count for key, count in story.sink.last().items() if key[1] < 50}
    assert closed == counted(50, 1)


def test_a_restart_knows_the_event_times_of_the_epochs_before(story: CountStory) -> None:
    """Though no epoch of the run before was opened with the watermark that they make."""
    query = story.start(interval_ms=NEVER_MS)
    story.feed.add(40)
    story.feed.await_read(40, WAIT_S)
    assert query.drain(WAIT_S)
    assert story.sink.rows() == []
    again = story.start()
    story.await_counts(again)
    assert again.drain(WAIT_S)
    assert story.sink.last() == counted(40, 2, before_s=story.closed_before_s())


def test_a_running_query_is_rescaled_in_place(story: CountStory) -> None:
    query = story.start(reducers=1, lease_heartbeat_ms=500)
    story.grow(query, 40)
    story.await_counts(query)
    want_reducers(story.checkpoint.storage, 3, by="a test")
    story.checkpoint.requests.ask("rescale", by="a test")
    wait_until(lambda: _tasks(query) == 3, "three tasks")
    generation = story.checkpoint.status().generation
    for _ in range(3):  # in which the run looks at what is asked of it
        heartbeat_ms = _heartbeat_ms(story)
        wait_until(partial(lambda at_ms: _heartbeat_ms(story) > at_ms, heartbeat_ms), "a heartbeat")
    assert not _is_asked(story)
    story.grow(query, 40)
    story.await_counts(query)
    assert story.checkpoint.status().generation == generation
    assert query.drain(WAIT_S)
    again = story.start(reducers=1)  # what was asked for holds
    story.grow(again, 40)
    story.await_counts(again)
    assert _tasks(again) == 3
    assert again.drain(WAIT_S)
    assert len(story.sink.rows()) == len(story.sink.last())
    assert story.sink.last() == counted(story.records, 2, before_s=story.closed_before_s())


def test_other_key_groups_than_those_of_the_checkpoint_are_refused(story: CountStory) -> None:
    query = story.start(key_groups=16)
    story.feed.add(40)
    story.await_counts(query)
    assert query.drain(WAIT_S)
    with pytest.raises(ConfigError, match=r"keyGroups is 32, .* has 16"):
        story.start(key_groups=32)
    assert story.start(key_groups=16).drain(WAIT_S)
    assert story.start().drain(WAIT_S)


def test_more_tasks_than_key_groups_are_refused(story: CountStory) -> None:
    with pytest.raises(ConfigError, match="cannot have 200 tasks: the query has 128 key groups"):
        story.start(reducers=200)
    want_reducers(story.checkpoint.storage, 129, by="a test")
    with pytest.raises(ConfigError, match="cannot have 129 tasks"):
        story.start()


def test_who_asks_a_query_for_too_many_tasks_before_its_first_epoch_does_not_end_it(
    story: CountStory, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    query = story.start(reducers=1, empty_epoch_interval="1 hour", lease_heartbeat_ms=500)
    wait_until(lambda: query.status["state"] == "RUNNING", "it runs")
    assert story.checkpoint.status().epoch == -1
    rescale(story.checkpoint, 129, by="a test")
    wait_until(lambda: "cannot have 129 tasks" in caplog.text, "it is told", 20)
    before = story.checkpoint.status().generation
    rescale(story.checkpoint, 3, by="a test")
    wait_until(lambda: story.checkpoint.status().generation != before, "the next attempt", 20)
    story.grow(query, 40)
    story.await_counts(query)
    assert _tasks(query) == 3
    assert query.drain(WAIT_S)
    assert story.sink.last() == counted(story.records, 2, before_s=story.closed_before_s())


def _heartbeat_ms(story: CountStory) -> int:
    holder = read_holder(story.checkpoint.storage)
    assert holder is not None
    return holder.heartbeat_at_ms


def _is_asked(story: CountStory) -> bool:
    return story.checkpoint.storage.exists("control/requests/rescale")


def _tasks(query: ContinuousQuery) -> int:
    progress = query.lastProgress
    return 0 if progress is None else progress["stateOperators"][0]["numShufflePartitions"]


def test_a_task_with_more_memory_than_it_may_have_ends_the_query_with_a_reason(
    story: CountStory,
) -> None:
    query = story.start(state_memory_max_bytes=1_000, restarts_user=3)
    with pytest.raises(StateTooLargeError) as failed:
        query.awaitTermination(WAIT_S)
    text = str(failed.value)
    assert re.match(
        r"Task [01] of stage 1, which keeps the state of counts, has [\d,]+ bytes", text
    )
    assert "stateMemoryMaxBytes allows 1,000." in text
    assert "more reducers" in text
    assert query.status["restarts"] == 0


def test_a_full_scratch_disk_ends_the_query_with_nothing_lost(
    story: CountStory, disk_of_64k: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrays, "_SMALL", 1)
    query = story.start()
    story.grow(query, 17)
    story.await_counts(query)
    assert query.drain(WAIT_S)
    query = story.start(state_spill_after_bytes=1, state_scratch_folder=str(disk_of_64k))
    story.grow(query, 17)
    with pytest.raises(StateTooLargeError, match=r"disk of .*small.*No space left"):
        query.awaitTermination(WAIT_S)
    assert query.status["restarts"] == 0
    assert [*disk_of_64k.iterdir()] == []
    query = story.start()
    story.await_counts(query)
    assert query.drain(WAIT_S)
    assert story.sink.last() == counted(story.records, 2, before_s=story.closed_before_s())


def test_a_snapshot_that_fails_ends_the_run_though_the_next_epoch_stays_open(
    story: CountStory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(SnapshotWriter, "_create", full)
    query = story.start(empty_epoch_interval="1 hour")
    story.feed.add(5)
    wait_until(lambda: not query.isActive, "the end")
    error = query.exception()
    assert isinstance(error, CheckpointError)
    assert "No space left on device" in str(error)


def test_tasks_that_miss_each_other_when_the_query_is_stopped_are_no_failures(
    story: CountStory, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(6):  # which of them hears first that it is over is a race
        query = story.start()
        story.grow(query, 1)
        query.stop()
    assert [each.message for each in caplog.records if each.levelno >= logging.ERROR] == []


def test_a_task_that_falls_silent_before_it_has_reached_the_others_is_lost(
    story: CountStory, monkeypatch: pytest.MonkeyPatch
) -> None:
    channels: list[Channel] = []

    def hang(*_: object) -> None:
        wait_until(lambda: any(each.dismissed for each in channels), "the end")

    monkeypatch.setattr(SendingWriter, "connect", hang)
    monkeypatch.setattr(Channel, "_say_alive", lambda self: channels.append(self))
    query = story.start(task_timeout_s=1)
    with pytest.raises(TaskLostError, match="is lost: it was silent for 1 s"):
        query.awaitTermination(WAIT_S)


def test_a_state_may_take_longer_to_load_than_tasks_have_to_start(
    story: CountStory, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = story.start()
    story.grow(query, 20)
    story.await_counts(query)
    assert query.drain(WAIT_S)
    looked_s: list[float] = []
    look, restore = StartWatch.look, Keeping.restore

    def watched(watch: StartWatch, now_s: float, unplaced: Callable[[], int]) -> str | None:
        looked_s.append(now_s)
        return look(watch, now_s, unplaced)

    def slowly(keeping: Keeping) -> None:
        wait_until(lambda: bool(looked_s) and looked_s[-1] - looked_s[0] > 1.5, "the driver looks")
        restore(keeping)

    monkeypatch.setattr(StartWatch, "look", watched)
    monkeypatch.setattr(Keeping, "restore", slowly)
    query = story.start(task_start_timeout_s=1)
    story.grow(query, 60)
    story.await_counts(query)
    assert query.drain(WAIT_S)
    assert story.sink.last() == counted(80, 2, before_s=story.closed_before_s())


def test_a_union_of_counts_and_of_a_stream_that_keeps_nothing(story: CountStory) -> None:
    """Its tasks send to nobody, and begin with those that do."""
    counting, stage = pipelines(UPDATE)
    project, *_ = counting.steps
    assert isinstance(project, Project)
    key, time, _ = project.columns
    exchange = Exchange(2, (0, 2))
    plain = Project((key, time, key), stage.schema)
    other = Feed(2)
    made = QueryDefinition(
        name="union",
        streams=(
            StreamBinding(replace(counting, exchange=exchange), ModelReader(story.feed), "counted"),
            StreamBinding(
                replace(counting, steps=(plain,), schema=stage.schema, exchange=None),
                ModelReader(other),
                "plain",
            ),
        ),
        stages=(stage,),
        sink=SinkBinding(
            DriverSink(story.sink.commit, story.sink.abort),
            PlainTaskWriter(story.sink.write),
            "union",
        ),
        checkpoint=story.checkpoint,
        epoch_interval_ms=20,
        options=replace(ONE_ATTEMPT, task_start_timeout_s=10),
    )
    execution = ContinuousExecution(made, ThreadLauncher())
    execution.start()
    query = ContinuousQuery(execution, str)
    story.feed.add(10)
    other.add(7)
    query.processAllAvailable()
    assert query.drain(WAIT_S)
    rows = story.sink.rows()
    passed = [(seq % KEYS, seq, seq % KEYS) for seq in range(7)] * 2
    assert not Counter(passed) - Counter(rows)
    counts: dict[tuple[int, int], int] = {}
    for key_of, at, count in (Counter(rows) - Counter(passed)).elements():
        counts[key_of, at] = max(count, counts.get((key_of, at), 0))
    assert counts == counted(10, 2)
