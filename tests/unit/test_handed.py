"""What the driver finds is handed out, read as a whole, and told."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

from engine.errors import BadRecordError, ContinuousError, SourceError
from engine.execution.handing_out import SourceHandingOut
from engine.sources.contract import HandingOut, Offset
from engine.sources.handed.partition_reader import Content, HandedPartitionReader
from engine.sources.handed.reader import HandedRun, partition_of
from engine.sources.handed.work import Unit, Work
from tests.waiting import wait_until


def batch(*values: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"v": pa.array(values, pa.int64())})


FILES: Mapping[str, Sequence[Content]] = {
    "empty": [],
    "without rows": [batch()],
    "one": [batch(1)],
    "three": [batch(1), batch(2), batch(3)],
    "bad": [batch(1), BadRecordError("no", record="x"), batch(2)],
}


def reader() -> HandedPartitionReader:
    def open_unit(name: str) -> Iterator[Content]:
        yield from FILES[name]

    return HandedPartitionReader(open_unit)


def units(*names: str, first: int = 0) -> tuple[Unit, ...]:
    return tuple(Unit(first + number, name, name) for number, name in enumerate(names))


def read(made: HandedPartitionReader) -> list[int]:
    found = made.read(0)
    return [] if found is None else found.column(0).to_pylist()


def test_a_unit_is_read_with_its_last_batch() -> None:
    made = reader()
    assert read(made) == []
    made.take(Work(units("three", "one")))
    assert not made.midway
    states = []
    for _ in range(4):
        states.append((read(made), made.midway, made.offset["read"]))
    assert states == [([1], True, []), ([2], True, []), ([3], False, [0]), ([1], False, [0, 1])]
    assert made.offset["file"] == "one"


def test_units_without_rows_are_read_too() -> None:
    made = reader()
    made.take(Work(units("empty", "without rows")))
    for _ in range(2):
        assert read(made) == []
    assert made.offset["read"] == [0, 1]
    assert not made.midway


def test_what_is_whole_is_read_before_an_epoch_ends() -> None:
    made = reader()
    made.take(Work(units("one", "empty", "one"), is_whole=True, is_last=True))
    made.take(Work(()))
    states = [(made.midway, made.exhausted)]
    for _ in range(3):
        read(made)
        states.append((made.midway, made.exhausted))
    assert states == [(True, False), (True, False), (True, False), (False, True)]


def test_what_is_committed_is_told_no_more() -> None:
    made = reader()
    made.take(Work(units("one", "one")))
    read(made)
    earlier = made.offset
    read(made)
    made.committed(earlier)
    assert made.offset["read"] == [1]
    assert earlier["read"] == [0]


def test_bad_records_are_told_or_raised() -> None:
    made = reader()
    made.take(Work(units("bad")))
    with pytest.raises(BadRecordError):
        read(made)
    made, told = reader(), []
    made.on_bad_record = told.append
    made.take(Work(units("bad")))
    assert [read(made), read(made)] == [[1], [2]]
    assert [error.record for error in told] == ["x"]


def test_word_and_work_wake_a_reader_that_waits() -> None:
    for wake in (lambda made: made.interrupt(), lambda made: made.take(Work(units("one")))):
        made = reader()
        found: list[Any] = []
        thread = threading.Thread(target=lambda m=made, f=found: f.append(m.read(600)))
        thread.start()
        wake(made)
        thread.join(60)
        assert len(found) == 1


class Run(HandedRun[str]):
    def __init__(self) -> None:
        super().__init__(3)
        self.merges: list[list[str]] = []

    def next(self, timeout_s: float) -> Mapping[int, Work] | None:
        return None

    def merge(self, done: Sequence[str]) -> Offset:
        self.merges.append(list(done))
        return len(self.merges)


def test_what_was_read_is_merged_once() -> None:
    run = Run()
    works = run.works([(name, name, name) for name in "abcdef"])
    assert {unit.name: index for index, work in works.items() for unit in work.units} == {
        name: partition_of(name, 3) for name in "abcdef"
    }
    assert run.merged([{"read": [0, 2]}, {"read": [1]}]) == 1
    assert run.merged([{"read": [0, 2, 3]}, {"read": [1]}]) == 2
    assert run.merges == [["a", "b", "c"], ["d"]]
    assert sorted(run.out.values()) == ["e", "f"]
    assert set(run.works([], is_last=True)) == {0, 1, 2}


class Finds(HandingOut):
    def __init__(self, *found: Any) -> None:
        self._found = list(found)

    def next(self, timeout_s: float) -> Mapping[int, Any] | None:
        found = self._found.pop(0) if self._found else None
        if isinstance(found, Exception):
            raise found
        return found


@pytest.mark.parametrize("error", [OSError("away"), SourceError("away")])
def test_what_cannot_be_looked_at_ends_the_run(error: Exception) -> None:
    sent: list[Any] = []
    errors: list[ContinuousError] = []
    handing_out = SourceHandingOut(
        Finds({0: "a"}, None, {1: "b"}, error), sent.append, errors.append
    )
    handing_out.start()
    wait_until(lambda: bool(errors), "the error")
    handing_out.stop()
    handing_out.await_stopped()
    assert sent == [{0: "a"}, {1: "b"}]
    assert isinstance(errors[0], SourceError)
    assert "away" in errors[0].message


def test_a_partition_has_caught_up_when_all_that_it_was_handed_is_read() -> None:
    made = reader()
    assert not made.caught_up, "nobody has said that there is nothing"
    made.take(Work((), is_all=True))
    assert made.caught_up
    made.take(Work(units("three", "one"), is_all=True))
    states = [(read(made), made.caught_up) for _ in range(4)]
    assert states == [([1], False), ([2], False), ([3], False), ([1], True)]
    made.take(Work(()))
    assert not made.caught_up, "the driver knows of more"
