"""The partitions that a task reads: in turn, and woken when the driver has sent word."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from engine.base.clock import ManualClock
from engine.errors import SourceError
from engine.pipeline.pipeline import Pipeline, SourceRelation
from engine.sources.contract import PartitionReader, PartitionsReader
from engine.sources.rate import RateReader
from engine.sources.tail.data_source import TailDataSource
from engine.task import inputs
from engine.task.inputs import INTERRUPTED_POLL_S, MARKER_POLL_S, Behind, TaskInput, open_input
from engine.task.spec import Reading
from tests.model import SCHEMA, Feed, ModelReader

WAIT_S = 30.0
PIPELINE = Pipeline(SourceRelation("model", {}, SCHEMA), (), SCHEMA)


def idle_rate(folder: Path) -> PartitionReader:
    reader = RateReader(1, 10_000)  # its first row is due in three hours
    return reader.open(reader.partitions(reader.initialOffset())[0])


def idle_tail(folder: Path) -> PartitionReader:
    schema = StructType().add("id", "long")
    options = {"path": str(folder), "fileFormat": "json"}
    reader = TailDataSource(options).continuousReader(schema)
    return reader.open(reader.partitions(reader.initialOffset())[0])


@pytest.mark.parametrize("idle", [idle_rate, idle_tail])
def test_a_reader_that_waits_is_interrupted(idle: object, tmp_path: Path) -> None:
    reader: PartitionReader = idle(tmp_path)  # type: ignore[operator]
    assert reader.interruptible
    got: list[object] = []
    waiting = threading.Thread(target=lambda: got.append(reader.read(10 * WAIT_S)))
    waiting.start()
    reader.interrupt()  # before it waits, or while it does
    waiting.join(WAIT_S)
    assert got == [None]
    reader.close()


def task_input(feed: Feed) -> TaskInput:
    reader = ModelReader(feed)
    partitions = tuple(reader.partitions(reader.initialOffset()))
    return open_input(Reading(reader, partitions, PIPELINE, first_partition=4), None)


def rows(batch: pa.RecordBatch | None) -> list[int]:
    return [] if batch is None else batch.column("partition").to_pylist()


def test_a_busy_partition_does_not_keep_the_others_waiting() -> None:
    feed = Feed(3)
    source = task_input(feed)
    feed.add(2)
    feed.available[0] = 100
    seen = [(rows(source.read()), source.partition) for _ in range(6)]
    assert sorted(seen[:3]) == [([0], 4), ([1], 5), ([2], 6)]
    assert sorted(seen[3:]) == [([0], 4), ([1], 5), ([2], 6)]
    assert source.offsets == ([0, 2], [1, 2], [2, 2])
    assert [rows(source.read()) for _ in range(3)] == [[0], [0], [0]]
    assert source.offset == [0, 5]


class CountedReader(PartitionReader):
    """Has what is put into ``batches``; time passes only while it is asked."""

    offset = 0

    def __init__(self, clock: ManualClock, asked: list[float], cost_s: float) -> None:
        self.batches: list[pa.RecordBatch] = []
        self._clock, self._asked, self._cost_s = clock, asked, cost_s

    def read(self, timeout_s: float) -> pa.RecordBatch | None:
        self._asked.append(timeout_s)
        self._clock.advance(self._cost_s)
        if self.batches:
            return self.batches.pop()
        self._clock.advance(timeout_s)
        return None


class Counted:
    """A task input of many partitions that says how often they are asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, partitions: int, cost_s: float) -> None:
        self.clock = ManualClock()
        self.asked: list[float] = []
        self.readers = [CountedReader(self.clock, self.asked, cost_s) for _ in range(partitions)]
        source = ModelReader(Feed(partitions))
        monkeypatch.setattr(source, "open", lambda partition, until: self.readers[partition])
        monkeypatch.setattr(inputs, "monotonic", self.clock.monotonic_s, raising=False)
        self.input = open_input(Reading(source, tuple(range(partitions)), PIPELINE), None)

    def idle(self, seconds: float) -> None:
        end_s = self.clock.monotonic_s() + seconds
        while self.clock.monotonic_s() < end_s:
            assert self.input.read() is None


@pytest.mark.parametrize("partitions", [2, 50])
def test_many_idle_partitions_are_waited_for_no_more_often_than_one(
    monkeypatch: pytest.MonkeyPatch, partitions: int
) -> None:
    counted = Counted(monkeypatch, partitions, cost_s=1e-6)
    counted.idle(1.0)
    turns = 1.0 / MARKER_POLL_S
    waits = [timeout_s for timeout_s in counted.asked if timeout_s]
    assert len(waits) <= turns + 1
    assert max(waits) <= MARKER_POLL_S
    assert len(counted.asked) <= (partitions + 1) * (turns + 1)


def test_idle_partitions_that_are_costly_to_ask_are_asked_less_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted = Counted(monkeypatch, 10, cost_s=1e-4)
    counted.idle(1.0)
    assert counted.asked.count(0.0) * 1e-4 <= 0.06
    waits = [timeout_s for timeout_s in counted.asked if timeout_s]
    assert max(waits) <= MARKER_POLL_S  # the driver's word is seen as soon as ever


def test_what_comes_after_a_pause_comes_soon_and_without_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    batch = pa.RecordBatch.from_pydict({"x": [1]})
    counted = Counted(monkeypatch, 50, cost_s=1e-3)
    counted.idle(1.0)
    for _ in range(100):
        counted.readers[7].batches.append(batch)
    began_s = counted.clock.monotonic_s()
    while counted.input.read() is None:
        pass
    pass_s = 50 * 1e-3
    assert counted.clock.monotonic_s() - began_s <= inputs.PAUSE_MAX_S + 2 * pass_s
    counted.asked.clear()
    for _ in range(99):
        assert counted.input.read() is batch
    assert set(counted.asked) == {0.0}


def test_word_from_the_driver_ends_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one begins where it was."""
    counted = Counted(monkeypatch, 50, cost_s=0.02)

    def read_meanwhile(timeout_s: float) -> None:
        counted.input.interrupt()

    monkeypatch.setattr(counted.readers[3], "read", read_meanwhile)
    assert counted.input.read() is None
    assert counted.input.partition == 3
    counted.readers[2].batches.append(pa.RecordBatch.from_pydict({"x": [1]}))
    assert counted.input.read() is not None
    assert counted.input.partition == 2
    assert len(counted.asked) == 2 + 49


def test_what_cannot_be_closed_does_not_hide_what_cannot_be_opened(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def cannot(reader: PartitionReader) -> None:
        raise OSError("the socket is gone")

    feed = Feed(3)
    source = ModelReader(feed)
    first, *others = source.partitions(source.initialOffset())
    monkeypatch.setattr("tests.model.ModelPartitionReader.close", cannot)
    reading = Reading(source, (first, None, *others), PIPELINE, first_partition=4)
    with pytest.raises(SourceError, match=r"^Partition 5 failed in opening the source") as caught:
        open_input(reading, None)
    assert caught.value.partition == 5
    assert "the socket is gone" in caplog.text


def test_one_that_is_interrupted_waits_longer_than_several() -> None:
    assert task_input(Feed(2)).wait_s == MARKER_POLL_S
    assert task_input(Feed(1)).wait_s == MARKER_POLL_S  # the model's cannot be interrupted
    reader = RateReader(1, 1)
    reading = Reading(reader, tuple(reader.partitions(reader.initialOffset())), PIPELINE)
    assert open_input(reading, None).wait_s == INTERRUPTED_POLL_S


class TellingReader(PartitionReader):
    """Has what is put into ``batches``, and tells what ``caught_up`` says."""

    offset = 0

    def __init__(self, caught_up: bool | None, *, in_order: bool = True) -> None:
        self.batches: list[pa.RecordBatch] = []
        self.tells, self.ordered = caught_up, in_order
        self.has: bool | None = None

    @property
    def caught_up(self) -> bool | None:
        return self.tells

    @property
    def has_more(self) -> bool:
        return super().has_more if self.has is None else self.has

    @property
    def in_order(self) -> bool:
        return self.ordered

    def read(self, timeout_s: float) -> pa.RecordBatch | None:
        return self.batches.pop() if self.batches else None


class TellingTogether(PartitionsReader):
    """Reads from ``found``."""

    offsets = (0, 0)

    def __init__(self) -> None:
        self.found: list[int] = []
        self.tells: set[int] | None = None

    @property
    def caught_up(self) -> set[int] | None:
        return self.tells

    def read(self, timeout_s: float) -> tuple[int, pa.RecordBatch] | None:
        return (self.found.pop(), BATCH) if self.found else None


BATCH = pa.RecordBatch.from_pylist([{"partition": 0}])


def in_turn(monkeypatch: pytest.MonkeyPatch, *readers: PartitionReader) -> TaskInput:
    source = ModelReader(Feed(len(readers)))
    monkeypatch.setattr(source, "open", lambda partition, until: readers[partition])
    return open_input(Reading(source, tuple(range(len(readers))), PIPELINE, 4), None)


def test_a_partition_has_caught_up_when_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    readers = [TellingReader(False), TellingReader(False, in_order=False)]
    source = in_turn(monkeypatch, *readers)
    for each in readers:
        each.batches = [BATCH, BATCH]
    source.begin_epoch()
    assert source.read()
    assert source.read()
    assert source.behind() == {4: Behind.TIME, 5: Behind.NOTHING}
    readers[1].tells = True
    assert source.read()
    assert source.read()
    assert source.behind() == {4: Behind.TIME}
    readers[1].tells = False
    readers[1].batches = [BATCH]
    assert source.read()
    readers[1].has = False
    assert source.behind() == {4: Behind.TIME}, "it had, at some time of the epoch"
    assert not source.has_released, "no epoch was told that it was behind"
    source.begin_epoch()
    assert source.behind() == {4: Behind.TIME}, "nothing was read of it in this one"
    assert not source.has_released
    readers[1].batches = [BATCH]
    assert source.read()
    assert source.behind() == {4: Behind.TIME, 5: Behind.NOTHING}
    source.begin_epoch()
    readers[1].tells = True
    assert source.read() is None
    assert source.read() is None
    assert source.behind() == {4: Behind.TIME}
    assert source.has_released


def test_one_that_has_something_again_is_behind_if_others_keep_the_task_busy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    readers = [TellingReader(True), TellingReader(True, in_order=False)]
    source = in_turn(monkeypatch, *readers)
    source.begin_epoch()
    assert source.read() is None
    readers[1].has = True
    assert source.behind() == {}, "the task comes to it at once"
    source.begin_epoch()
    assert source.behind() == {5: Behind.NEWS}, "it was not asked"
    readers[1].has = False
    readers[0].batches = [BATCH, BATCH]
    source.begin_epoch()
    assert source.read()
    assert source.behind() == {5: Behind.TIME}, "not since the epoch before"
    assert source.read()
    assert source.behind() == {}
    assert source.has_released


def test_or_when_it_has_nothing_if_it_cannot_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = TellingReader(None)
    source = in_turn(monkeypatch, reader)
    reader.batches = [BATCH]
    assert source.behind() == {4: Behind.TIME}, "it was not read yet"
    assert source.read()
    assert source.behind() == {4: Behind.TIME_IF_ANY}
    assert source.read() is None
    assert source.behind() == {}


def test_partitions_that_are_read_together_catch_up_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    together = TellingTogether()
    source = ModelReader(Feed(2))
    monkeypatch.setattr(source, "openTogether", lambda partitions, until: together)
    read = open_input(Reading(source, (0, 1), PIPELINE, 4), None)
    assert read.behind() == {4: Behind.TIME, 5: Behind.TIME}, "nothing was read yet"
    together.found = [0, 1]
    assert read.read()
    assert read.behind() == {4: Behind.TIME_IF_ANY, 5: Behind.TIME_IF_ANY}, "it may have nothing"
    assert read.read()
    assert read.behind() == {4: Behind.TIME_IF_ANY, 5: Behind.TIME_IF_ANY}
    assert read.read() is None
    assert read.behind() == {}
    read.begin_epoch()
    together.tells, together.found = {0}, [0, 1]
    assert read.read()
    assert read.read()
    assert read.behind() == {5: Behind.TIME}
    together.found = [1]
    together.tells = {0}
    assert read.read()
    together.tells, together.found = {0, 1}, [0]
    assert read.read()
    assert read.behind() == {}
    together.tells, together.found = {0}, [1]
    assert read.read()
    assert read.behind() == {5: Behind.TIME}, "the batch of another does not tell since when it had"
