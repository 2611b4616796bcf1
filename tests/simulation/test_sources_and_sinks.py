"""What sources and sinks are promised: first offsets, shared tasks, all that is there, an object
on the executor."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from engine.errors import OffsetOutOfRangeError, SinkError, SourceError
from engine.execution.execution import ContinuousExecution
from engine.execution.launcher import Slots, ThreadLauncher
from engine.pipeline.pipeline import IDLE, FunctionSession, MapBatches, PythonFunction
from engine.query.handle import ContinuousQuery
from engine.sinks.adapter import PlainTaskWriter
from engine.sinks.contract import SinkContext, TaskWriter, WriterContext
from engine.sources.contract import Offset
from tests.model import (
    HOUR_MS,
    NEVER_MS,
    SCHEMA,
    Feed,
    ModelMessage,
    ModelPartitionReader,
    ModelReader,
    definition,
)
from tests.simulation.story import WAIT_S, Story, await_status
from tests.waiting import wait_until


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path)


def started(made: Any, launcher: Any = None) -> ContinuousQuery:
    execution = ContinuousExecution(made, launcher or ThreadLauncher())
    execution.start()
    return ContinuousQuery(execution, str)


def await_running(query: ContinuousQuery) -> None:
    """Until all tasks have run at once: before, a failure is told at once."""

    def runs() -> bool:
        assert query.isActive, query.exception()
        return query.status["state"] == "RUNNING"

    wait_until(runs, "the query runs")


# -- where a source begins ------------------------------------------------------------------------


class FromNow(ModelReader):
    """Begins at the end."""

    def initialOffset(self) -> Offset:
        return {str(p): count for p, count in enumerate(self.feed.available)}


def from_now(story: Story, **options: Any) -> Any:
    made = definition(story.feed, story.sink, story.folder, **options)
    return replace(made, streams=(replace(made.streams[0], reader=FromNow(story.feed)),))


def test_a_failure_in_the_first_epoch_loses_nothing_of_a_source_that_starts_at_the_end(
    story: Story,
) -> None:
    story.feed.add(3)
    story.feed.faults[(0, 5)] = SystemExit("killed")
    query = started(from_now(story, interval_ms=NEVER_MS, retry_infrastructure_for_ms=HOUR_MS))
    await_running(query)
    story.feed.add(4)  # 3 to 6; the task dies at 5, long before the first epoch ends
    while query.status["restarts"] < 1 or query.status["state"] != "RUNNING":
        assert not query.awaitTermination(0.01)
    story.feed.add(1)
    story.feed.await_read(8, WAIT_S)  # as far as the tasks before have not come
    query.drain(WAIT_S)
    assert sorted(story.sink.rows()) == [(p, seq) for p in (0, 1) for seq in range(3, 8)]


def test_nor_does_another_start(story: Story) -> None:
    story.feed.add(3)
    query = started(from_now(story, interval_ms=NEVER_MS))
    query.stop()
    assert story.checkpoint.committed_epoch() == -1
    story.feed.add(2)
    query = started(from_now(story))
    query.processAllAvailable()
    query.drain(WAIT_S)
    assert sorted(story.sink.rows()) == [(p, seq) for p in (0, 1) for seq in (3, 4)]


def test_another_source_begins_where_it_says(story: Story) -> None:
    story.feed.add(3)
    started(from_now(story, interval_ms=NEVER_MS)).stop()
    story.feed.add(2)
    made = from_now(story, allow_changed_query=True)
    (stream,) = made.streams
    relation = replace(stream.pipeline.source, format="another")
    stream = replace(stream, pipeline=replace(stream.pipeline, source=relation))
    query = started(replace(made, streams=(stream,)))
    story.feed.add(1)
    query.processAllAvailable()
    query.drain(WAIT_S)
    assert sorted(story.sink.rows()) == [(0, 5), (1, 5)]


@pytest.mark.parametrize("logged", [0, 1], ids=["committed", "to-be-run-again"])
def test_a_source_without_an_offset_in_sparks_log_begins_at_its_beginning(
    story: Story, logged: int
) -> None:
    """Of a union of Kafka and a folder that is empty Spark logs a dash for the folder."""
    other, storage = ModelReader(Feed(1)), story.checkpoint.storage
    metadata = '{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}'
    story.checkpoint.create_or_read_query_id("from-spark")
    storage.create("commits/0", b'v1\n{"nextBatchWatermarkMs":0}')
    for epoch in range(logged + 1):
        ends = f'{{"0":{epoch + 1},"1":{epoch + 1}}}'
        storage.create(f"offsets/{epoch}", f"v1\n{metadata}\n{ends}\n-".encode())
    story.feed.add(4)
    other.feed.add(3)
    made = definition(story.feed, story.sink, story.folder)
    (stream,) = made.streams
    query = started(replace(made, streams=(stream, replace(stream, reader=other))))
    query.processAllAvailable()
    assert query.drain(WAIT_S)
    known = [(p, seq) for p in (0, 1) for seq in range(1, 4)]
    assert Counter(story.sink.rows()) == Counter([*known, *((0, seq) for seq in range(3))])
    if logged:
        assert sorted(story.sink.committed[1]) == [(0, 1), (1, 1)]
    assert story.checkpoint.committed_offsets() == ({"0": 4, "1": 4}, {"0": 3})


# -- all that is there ----------------------------------------------------------------------------


def test_all_that_was_there_is_committed_however_many_epochs_it_takes(story: Story) -> None:
    query = story.start(interval_ms=5)
    story.feed.add(4_000)  # returned one by one: many more than two epochs
    query.processAllAvailable()
    assert len(story.sink.rows()) >= 8_000
    query.drain(WAIT_S)


def test_nothing_is_waited_for_where_nothing_was(story: Story) -> None:
    """The first epoch is empty, and stays open for an hour."""
    query = story.start(interval_ms=5, empty_epoch_interval="1 hour")
    waiting = threading.Thread(target=query.processAllAvailable)
    waiting.start()
    waiting.join(WAIT_S)
    has_waited = waiting.is_alive()
    query.stop()
    assert not has_waited


def test_two_epochs_are_waited_for_where_the_source_cannot_tell(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ModelReader, "latestOffset", lambda self, start: None)
    query = story.start()
    before = query._execution.open_epoch
    query.processAllAvailable()
    assert query.status["epoch"] >= before + 1
    query.drain(WAIT_S)


def test_a_source_that_cannot_be_asked_fails_the_caller_not_the_query(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(self: ModelReader, start: Offset) -> Offset:
        raise SourceError("the broker is down")

    monkeypatch.setattr(ModelReader, "latestOffset", down)
    query = story.start()
    with pytest.raises(SourceError, match="the broker is down"):
        query.processAllAvailable()
    assert query.isActive
    query.drain(WAIT_S)


# -- partitions that share a task -----------------------------------------------------------------


class FewSlots(ThreadLauncher):
    def __init__(self, *totals: int) -> None:
        self._totals = list(totals)

    def slots(self) -> Slots:
        total = self._totals.pop(0) if len(self._totals) > 1 else self._totals[0]
        return Slots(total, total)


def test_partitions_share_the_slots_there_are(tmp_path: Path) -> None:
    story = Story(tmp_path, partitions=7)
    query = story.start(FewSlots(2))
    story.feed.add(50)
    query.processAllAvailable()
    assert (query._execution.spread.partitions, query._execution.spread.tasks) == (7, 2)
    query.drain(WAIT_S)
    assert story.sink.assert_exactly_once(7) == 350
    assert story.checkpoint.committed_offsets() == ({str(p): 50 for p in range(7)},)


def test_shared_partitions_survive_their_task(tmp_path: Path) -> None:
    story = Story(tmp_path, partitions=5)
    story.feed.faults[(3, 20)] = SystemExit("killed")
    query = story.start(partitions_per_task=3, retry_infrastructure_for_ms=HOUR_MS)
    await_running(query)
    story.feed.add(40)
    query.processAllAvailable()
    assert query._execution.spread.tasks == 2
    query.drain(WAIT_S)
    assert story.sink.assert_exactly_once(5) == 200


def test_an_error_names_the_partition_not_the_task(tmp_path: Path) -> None:
    story = Story(tmp_path, partitions=4)
    story.feed.faults[(2, 0)] = ValueError("a bad page")
    query = story.start(partitions_per_task=4)
    story.feed.add(1)
    with pytest.raises(SourceError, match="Partition 2 failed in reading") as caught:
        query.awaitTermination(WAIT_S)
    assert caught.value.partition == 2


def test_where_it_may_be_any_of_a_task_s_partitions_all_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(batches: Iterator[pa.RecordBatch]) -> ModelMessage:
        for _ in batches:
            raise ValueError("a bad row")
        return ModelMessage([])

    story = Story(tmp_path, partitions=4)
    monkeypatch.setattr(story.sink, "write", refuse)
    query = story.start(partitions_per_task=2)
    story.feed.available[3] += 1
    told = r"^Partitions \[2, 3\] failed in the sink's write"
    with pytest.raises(SinkError, match=told) as caught:
        query.awaitTermination(WAIT_S)
    assert caught.value.partition == 2


def test_the_partitions_of_a_late_task_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on, read = threading.Event(), ModelPartitionReader.read

    def hangs(self: ModelPartitionReader, timeout_s: float) -> pa.RecordBatch | None:
        if self._index == 3:
            assert goes_on.wait(WAIT_S)
        return read(self, timeout_s)

    monkeypatch.setattr(ModelPartitionReader, "read", hangs)
    story = Story(tmp_path, partitions=4)
    options = {"stall_after_intervals": 1, "epoch_backlog_max": 1_000}
    query = story.start(partitions_per_task=2, **options)
    told = "partitions [2, 3] have not finished it"  # at first others may be late, too
    await_status(story, lambda s: s.state == "STALLED" and told in (s.message or ""))
    goes_on.set()
    query.drain(WAIT_S)


def test_partitions_spread_when_there_are_more_slots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.execution.attempt.SPREAD_LOOK_S", 0.0)
    story = Story(tmp_path, partitions=4)
    query = story.start(FewSlots(1, 1, 4))
    story.feed.add(5)
    while query._execution.spread.tasks < 4:
        assert not query.awaitTermination(0.01)
    query.processAllAvailable()
    query.drain(WAIT_S)
    assert story.sink.assert_exactly_once(4) == 20


# -- a source that takes its time -----------------------------------------------------------------


def test_epochs_do_not_wait_for_a_look_at_the_source(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, answered = threading.Event(), threading.Event()

    def slow(self: ModelReader) -> bool:
        asked.set()
        assert answered.wait(WAIT_S)
        return False

    monkeypatch.setattr(ModelReader, "needsReconfiguration", slow)
    query = story.start()
    assert asked.wait(WAIT_S)
    story.feed.add(10)
    query.processAllAvailable()
    assert story.sink.assert_exactly_once(2) == 20
    answered.set()
    query.drain(WAIT_S)


# -- a sink that is an object on the executor -----------------------------------------------------


class Recorder(TaskWriter):
    """Tells all that it is told."""

    def __init__(self, story: list[Any], fail: Callable[[int], None] = lambda epoch: None) -> None:
        self.story, self.fail = story, fail

    def open(self, context: WriterContext) -> None:
        self.story.append(("open", context.task, context.tasks, context.generation))

    def write(self, epoch: int, batches: Iterator[pa.RecordBatch]) -> ModelMessage:
        rows = []
        for batch in batches:
            rows += [[row["partition"], row["seq"]] for row in batch.to_pylist()]
            self.story.append(("rows", epoch))
        self.fail(epoch)
        self.story.append(("written", epoch))
        return ModelMessage(rows)

    def committed(self, epoch: int) -> None:
        self.story.append(("committed", epoch))

    def aborted(self, epoch: int) -> None:
        self.story.append(("aborted", epoch))

    def close(self) -> None:
        self.story.append("close")


def recorded(story: Story, writer: TaskWriter, **options: Any) -> Any:
    made = definition(story.feed, story.sink, story.folder, **options)
    return replace(made, sink=replace(made.sink, writer=writer))


def test_the_life_of_a_writer(tmp_path: Path) -> None:
    story, told = Story(tmp_path, partitions=1), list[Any]()
    query = started(recorded(story, Recorder(told)))
    assert query.awaitEpoch(3, WAIT_S)
    query.drain(WAIT_S)
    assert told[0] == ("open", 0, 1, 0)
    written = [each[1] for each in told if each[0] == "written"]
    committed = [each[1] for each in told if each[0] == "committed"]
    assert written == list(range(written[-1] + 1))
    assert committed == written
    assert told[-2:] == [("committed", written[-1]), "close"]
    for epoch in committed:  # told after it was written, and between two epochs
        assert told.index(("committed", epoch)) > told.index(("written", epoch))
    assert ("aborted", written[-1]) not in told


def test_an_epoch_that_fails_is_aborted_and_the_writer_closed(tmp_path: Path) -> None:
    story, told = Story(tmp_path, partitions=1), list[Any]()

    def fail(epoch: int) -> None:
        if epoch == 2 and not any(each[0] == "aborted" for each in told):
            raise OSError("no route")

    query = started(recorded(story, Recorder(told, fail), retry_sink_for_ms=HOUR_MS))
    assert query.awaitEpoch(3, WAIT_S)
    query.drain(WAIT_S)
    aborted = told.index(("aborted", 2))
    assert told[aborted + 1] == "close"
    assert told[aborted + 2][:1] == ("open",)
    assert told[aborted + 2][3] == 1  # another generation


def test_a_writer_that_cannot_close_does_not_fail_a_drain(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class CannotClose(Recorder):
        def close(self) -> None:
            raise OSError("the socket is gone")

    story = Story(tmp_path, partitions=1)
    query = started(recorded(story, CannotClose([])))
    assert query.awaitEpoch(0, WAIT_S)
    assert query.drain(WAIT_S)
    assert query.exception() is None
    assert "the socket is gone" in caplog.text


def test_a_source_that_cannot_close_is_the_source_s_fault(
    story: Story, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(ModelPartitionReader, "close", cannot_close)
    query = story.start()
    assert query.awaitEpoch(0, WAIT_S)
    assert query.drain(WAIT_S)
    assert "SourceError: Partition 1 failed in closing the source: OSError" in caplog.text


@pytest.mark.parametrize("kind", [PlainTaskWriter, ModelPartitionReader])
def test_what_cannot_be_closed_hides_no_failure(
    story: Story, monkeypatch: pytest.MonkeyPatch, kind: type, caplog: pytest.LogCaptureFixture
) -> None:
    """It is no outage that a restart may end."""
    monkeypatch.setattr(kind, "close", cannot_close)
    bears = {"retry_infrastructure_for_ms": HOUR_MS, "retry_sink_for_ms": HOUR_MS}
    query = story.start(**bears)
    story.feed.faults[(1, 0)] = OffsetOutOfRangeError("the data has expired")
    story.feed.add(1)
    with pytest.raises(OffsetOutOfRangeError, match="the data has expired"):
        query.awaitTermination(WAIT_S)
    assert "failed as well" in caplog.text
    assert "the socket is gone" in caplog.text


def cannot_close(closed: object) -> None:
    raise OSError("the socket is gone")


def test_a_writer_that_has_to_leave_aborts_the_open_epoch(tmp_path: Path) -> None:
    story, told = Story(tmp_path, partitions=1), list[Any]()
    query = started(recorded(story, Recorder(told), interval_ms=NEVER_MS))
    story.feed.add(1)
    while ("rows", 0) not in told:
        assert not query.awaitTermination(0.01)
    query.stop()
    assert told[1:] == [("rows", 0), ("aborted", 0), "close"]


def test_the_driver_s_side_is_told_whose_epochs_it_gets(story: Story) -> None:
    told: list[SinkContext] = []
    story.sink.bind = told.append  # type: ignore[attr-defined]
    story.sink.fail_commit[1] = OSError("down")
    query = story.start(retry_sink_for_ms=HOUR_MS)
    assert query.awaitEpoch(2, WAIT_S)
    query.drain(WAIT_S)
    assert [context.generation for context in told] == [0, 1]
    assert {(context.query_id, context.run_id) for context in told} == {(query.id, query.runId)}


# -- a transform that is driven without input -----------------------------------------------------


class Ticking:
    """Passes rows on, and adds one when nothing has come for a while."""

    wants_idle = True

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch is IDLE:
                yield pa.RecordBatch.from_pylist([{"partition": 9, "seq": 0}], schema=SCHEMA)
            else:
                yield batch


@pytest.mark.parametrize("empty_epoch_interval", ["", "1 hour"])
def test_a_stage_with_timers_returns_rows_though_none_come(
    tmp_path: Path, empty_epoch_interval: str
) -> None:
    """And the epochs that they are in are not empty."""
    story = Story(tmp_path, partitions=1)
    options = {"empty_epoch_interval": empty_epoch_interval}
    made = definition(story.feed, story.sink, story.folder, **options)
    (stream,) = made.streams
    step = MapBatches(
        eval_type=0,
        function=PythonFunction("ticking", (), (), (), pa.null()),
        input=SCHEMA,
        schema=SCHEMA,
        session=FunctionSession({}),
        start=lambda step: Ticking(),
    )
    stream = replace(stream, pipeline=replace(stream.pipeline, steps=(step,)))
    query = started(replace(made, streams=(stream,)))
    wait_until(lambda: sum(map(bool, list(story.sink.committed.values()))) >= 3, "the rows")
    query.drain(WAIT_S)
    assert set(story.sink.rows()) == {(9, 0)}
