"""An epoch that is run again beside its query: the same rows, and nothing is touched."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from engine.checkpoint.checkpoint import Checkpoint
from engine.errors import SourceError
from engine.execution.definition import StreamBinding
from engine.execution.replay import ReplayedEpoch, checkpoint_before, replay
from engine.pipeline.stateful import APPEND, COMPLETE, UPDATE
from tests.model import NEVER_MS, ONE_ATTEMPT, Feed, ModelReader, ModelSink, definition
from tests.simulation.counting import BEGAN_S, CountStory, pipelines, where_it_is_read
from tests.simulation.story import WAIT_S, Story
from tests.waiting import wait_until


def contents(folder: Path) -> dict[str, bytes]:
    """Every file, byte for byte."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def again(
    checkpoint: Checkpoint, epoch: int, streams: Any, stages: Any = (), rows: int = 3
) -> ReplayedEpoch:
    return replay(
        streams,
        stages,
        checkpoint_before(checkpoint.storage, epoch),
        epoch,
        ONE_ATTEMPT,
        watermark_policy="min",
        shuffle_partitions=2,
        rows=rows,
        keeps_all=True,
    )


def rows_of(epoch: ReplayedEpoch) -> list[dict[str, Any]]:
    return [row for table in epoch.went_out.tables() for row in table.to_pylist()]


def model_streams(feed: Feed) -> tuple[StreamBinding, ...]:
    (stream,) = definition(feed, ModelSink(), Path("unused")).streams
    return (StreamBinding(stream.pipeline, ModelReader(feed), "model"),)


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path / "checkpoint")


def test_an_epoch_has_its_rows_again_and_the_checkpoint_every_byte(story: Story) -> None:
    query = story.start(min_epochs_to_retain=1_000)
    for count in (3, 5, 2):
        story.feed.add(count)
        query.processAllAvailable()
    assert query.drain(WAIT_S)
    before = contents(story.folder)
    for epoch, committed in story.sink.committed.items():
        streams = model_streams(story.feed)
        found = again(story.checkpoint, epoch, streams)
        rows = [(row["partition"], row["seq"]) for row in rows_of(found)]
        assert Counter(rows) == Counter(committed)
        assert found.rows_read == found.went_out.count == len(committed)
        assert found.ends == story.checkpoint.committed_offsets(epoch)
        (pipeline,) = found.pipelines
        assert pipeline.came_in.count == len(committed)
        assert streams[0].reader.commits == []  # type: ignore[attr-defined]
        assert streams[0].reader.stopped  # type: ignore[attr-defined]
    assert contents(story.folder) == before


@pytest.mark.parametrize("partitions", [1, 3])
def test_partitions_may_have_come_and_gone_since(story: Story, partitions: int) -> None:
    query = story.start(min_epochs_to_retain=1_000)
    story.feed.add(4)
    query.processAllAvailable()
    assert query.drain(WAIT_S)
    epoch, committed = max((each, rows) for each, rows in story.sink.committed.items() if rows)
    story.feed.available = [5] * partitions
    found = again(story.checkpoint, epoch, model_streams(story.feed))
    rows = [(row["partition"], row["seq"]) for row in rows_of(found)]
    assert Counter(rows) == Counter(row for row in committed if row[0] < partitions)
    assert found.ends == story.checkpoint.committed_offsets(epoch)


def test_it_runs_beside_the_query_which_notices_nothing(story: Story) -> None:
    query = story.start(min_epochs_to_retain=1_000)
    story.feed.add(4)
    query.processAllAvailable()
    epoch = max(each for each, rows in story.sink.committed.items() if rows)
    holder = story.checkpoint.holder()
    found = again(story.checkpoint, epoch, model_streams(story.feed))
    assert found.went_out.count == len(story.sink.committed[epoch])
    assert query.isActive
    now = story.checkpoint.holder()
    assert holder is not None
    assert now is not None
    assert (now.run_id, now.generation) == (holder.run_id, holder.generation)
    story.feed.add(1)
    query.processAllAvailable()
    assert query.drain(WAIT_S)
    story.sink.assert_exactly_once(2)


def test_what_fails_in_it_is_raised_and_not_logged_as_well(
    story: Story, caplog: pytest.LogCaptureFixture
) -> None:
    query = story.start(min_epochs_to_retain=1_000)
    story.feed.add(4)
    query.processAllAvailable()
    assert query.drain(WAIT_S)
    epoch = max(each for each, rows in story.sink.committed.items() if rows)
    story.feed.faults[max(story.sink.committed[epoch])] = SourceError("gone")
    with pytest.raises(SourceError, match="gone"):
        again(story.checkpoint, epoch, model_streams(story.feed))
    assert not any("Traceback" in each.getMessage() for each in caplog.records)


@pytest.mark.parametrize("output_mode", [APPEND, UPDATE, COMPLETE])
def test_state_is_that_of_the_epoch_before(tmp_path: Path, output_mode: str) -> None:
    story = CountStory(tmp_path / "checkpoint")
    query = story.start(output_mode=output_mode, min_epochs_to_retain=1_000)
    story.grow(query, 60)
    query.processAllAvailable()
    assert query.drain(WAIT_S)
    before = contents(story.folder)
    told = [epoch for epoch, rows in story.sink.committed.items() if rows]
    stream, stage = pipelines(output_mode)
    for epoch in (told[0], told[len(told) // 2], told[-1]):
        streams = (StreamBinding(stream, ModelReader(story.feed), "model"),)
        found = again(story.checkpoint, epoch, streams, (stage,))
        rows = [(r["key"], int(r["at"].timestamp()) - BEGAN_S, r["count"]) for r in rows_of(found)]
        if output_mode == UPDATE:  # how often a count is told on its way depends on how rows arrive
            told_last = {row[:2]: row[2] for row in story.sink.committed[epoch]}
            assert {row[:2]: row[2] for row in rows} == told_last
        else:
            assert Counter(rows) == Counter(story.sink.committed[epoch])
        reading, counting = found.pipelines
        assert reading.made[-1].count == counting.came_in.count == found.rows_read
        assert counting.made[-1].count == found.went_out.count
        assert sum(table.num_rows for table in counting.came_in.tables()) == min(3, found.rows_read)
    assert contents(story.folder) == before


@pytest.mark.parametrize("output_mode", [APPEND, UPDATE])
def test_state_that_the_tasks_which_read_keep_is_that_of_the_epoch_before(
    tmp_path: Path, output_mode: str
) -> None:
    partitions = 3
    story = CountStory(tmp_path / "checkpoint", partitions, stays=True)
    query = story.start(output_mode=output_mode, min_epochs_to_retain=1_000, partitions_per_task=2)
    story.grow(query, 60)
    query.processAllAvailable()
    assert query.drain(WAIT_S)
    before = contents(story.folder)
    told = [epoch for epoch, rows in story.sink.committed.items() if rows]
    stream = where_it_is_read(partitions, output_mode)
    for epoch in (told[0], told[len(told) // 2], told[-1]):
        found = again(
            story.checkpoint, epoch, (StreamBinding(stream, ModelReader(story.feed), "model"),)
        )
        rows = [(r["key"], int(r["at"].timestamp()) - BEGAN_S, r["count"]) for r in rows_of(found)]
        # How often a count is told on its way depends on how rows arrive.
        told_last = {row[:2]: row[2] for row in story.sink.committed[epoch]}
        assert {row[:2]: row[2] for row in rows} == told_last
    assert contents(story.folder) == before


def test_late_rows_are_counted_again_and_their_letters_are_not_written_again(
    tmp_path: Path,
) -> None:
    story = CountStory(tmp_path / "checkpoint")
    letters = tmp_path / "letters"
    query = story.start(
        interval_ms=100,
        min_epochs_to_retain=1_000,
        on_late_record="dead-letter",
        dead_letter_path=str(letters),
    )
    story.bring_late(query, 70)  # the second partition is a minute behind
    assert query.drain(WAIT_S)
    before, written = contents(story.folder), contents(letters)
    assert written
    stream, stage = pipelines(APPEND)
    epochs = range(max(story.sink.committed) + 1)
    late = 0
    for epoch in epochs:
        streams = (StreamBinding(stream, ModelReader(story.feed), "model"),)
        late += sum(
            each.late_rows for each in again(story.checkpoint, epoch, streams, (stage,)).pipelines
        )
    assert late > 0
    lines = [line for text in written.values() for line in text.splitlines() if b"LATE" in line]
    assert late == len(lines)
    assert contents(story.folder) == before
    assert contents(letters) == written


def test_only_so_many_rows_are_kept_of_each_step(story: Story) -> None:
    query = story.start(interval_ms=NEVER_MS)
    wait_until(lambda: query.status["state"] == "RUNNING", "it runs", WAIT_S)
    story.feed.add(7)
    story.feed.await_read(7, WAIT_S)
    assert query.drain(WAIT_S)
    (epoch,) = story.sink.committed
    found = again(story.checkpoint, epoch, model_streams(story.feed), rows=2)
    (table,) = found.pipelines[0].came_in.tables()
    assert isinstance(table, pa.Table)
    assert table.num_rows == 2 < found.pipelines[0].came_in.count
