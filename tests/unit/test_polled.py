"""Other people's stream readers, one at a time: what they return, and what they must not."""

from __future__ import annotations

import logging
import pickle
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from engine.errors import ConfigError, SourceError
from engine.expressions.schemas import to_arrow
from engine.sources.contract import PartitionReader
from engine.sources.polled import partition_reader
from engine.sources.polled.reader import PolledReader, polled_reader
from tests.waiting import wait_until

WAIT_S = 60.0
COLUMNS = StructType().add("id", "long")
SCHEMA = to_arrow(COLUMNS, "test")


class Scripted(DataSourceStreamReader):
    """Ends at each of ``ends`` in turn, and then at the last one."""

    ends: tuple[Any, ...] = ({"next": 2},)
    records: tuple[Any, ...] = ((0,), [1])

    def __init__(self) -> None:
        self._left = list(self.ends)

    def initialOffset(self) -> dict:
        return {"next": 0}

    def latestOffset(self) -> Any:
        end = self._left.pop(0) if len(self._left) > 1 else self._left[0]
        if isinstance(end, Exception):
            raise end
        return end

    def partitions(self, start: dict, end: dict) -> list[InputPartition]:
        return [InputPartition((start, end))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return iter(self.records)


class AllBad(Scripted):
    """A range that does not end before it is told to."""

    is_over = threading.Event()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        yield from ((f"bad{n}",) for n in range(1_000))
        self.is_over.wait(WAIT_S)


class Source:
    def __init__(self, reader: Any) -> None:
        self.reader = reader

    def streamReader(self, schema: Any) -> Any:
        return self.reader


def polled(reader: Any) -> PolledReader:
    return polled_reader("source scripted", Source(reader), COLUMNS, SCHEMA, 1)


def opened(reader: Any) -> PartitionReader:
    made = polled(reader)
    return made.open(made.partitions(made.initialOffset())[0])


def ids(reader: PartitionReader, count: int) -> list[int]:
    """The first records."""
    found: list[int] = []

    def enough() -> bool:
        batch = reader.read(0.01)
        if batch is not None:
            assert batch.schema == SCHEMA
            found.extend(batch["id"].to_pylist())
        return len(found) >= count

    wait_until(enough, "the records", WAIT_S)
    return found


def failure(reader: PartitionReader) -> Exception:
    """What its reading ends with."""
    while True:
        try:
            assert reader.read(WAIT_S) is None
        except SourceError as exc:
            return exc
        finally:
            reader.close()


def test_tuples_and_lists_are_rows() -> None:
    reader = opened(Scripted())
    assert ids(reader, 2) == [0, 1]
    assert (reader.offset, reader.midway) == ({"next": 2}, False)
    reader.close()


def test_offsets_pass_through_json() -> None:
    class Numbered(Scripted):
        ends = ({1: 2},)

    reader = opened(Numbered())
    assert ids(reader, 2) == [0, 1]
    assert reader.offset == {"1": 2}
    reader.close()


def test_an_offset_that_is_none_is_nothing_new() -> None:
    class Silent(Scripted):
        ends = (None, None, {"next": 2})

    reader = opened(Silent())
    assert ids(reader, 2) == [0, 1]
    reader.close()


def test_an_offset_that_is_no_json_is_refused() -> None:
    class Wild(Scripted):
        ends = ({"at": object()},)

    assert "an offset from latestOffset() that is no JSON" in str(failure(opened(Wild())))


def test_a_batch_of_other_columns_is_refused() -> None:
    class Wide(Scripted):
        records = (pa.RecordBatch.from_pydict({"id": [1], "more": [2]}),)

    assert "none of its columns'" in str(failure(opened(Wide())))


def test_a_range_without_records_moves_the_offset() -> None:
    class Empty(Scripted):
        records = ()

    reader = opened(Empty())

    def moved() -> bool:
        assert reader.read(0.01) is None
        return reader.offset == {"next": 2}

    wait_until(moved, "the offset", WAIT_S)
    assert not reader.midway
    reader.close()


def test_a_range_is_known_to_be_midway_until_its_last_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Long(Scripted):
        ends = ({"next": 2_500},)
        records = tuple((number,) for number in range(2_500))

    monkeypatch.setattr(partition_reader, "HELD_BYTES", 1)
    reader = opened(Long())
    states = []
    while sum(rows for rows, _ in states) < 2_500:
        batch = reader.read(WAIT_S)
        assert batch is not None
        states.append((batch.num_rows, reader.midway))
    assert states == [(1_000, True), (1_000, True), (500, False)]
    reader.close()


def test_bad_records_of_a_large_range_are_not_held_back_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partition_reader, "HELD_BYTES", 100_000)
    bad: list[Any] = []
    reader = opened(AllBad())
    reader.on_bad_record = bad.append

    def has_come() -> bool:
        reader.read(0.01)
        return bool(bad)

    wait_until(has_come, "a bad record", WAIT_S / 2)
    AllBad.is_over.set()
    reader.close()


def test_what_has_come_meanwhile_is_known() -> None:
    class Twice(Scripted):
        ends = ({"next": 2}, {"next": 4})

    reader = opened(Twice())
    assert ids(reader, 2) == [0, 1]
    wait_until(lambda: reader.has_more, "another range", WAIT_S)
    assert ids(reader, 2) == [0, 1]
    assert not reader.has_more
    reader.close()


def test_a_reader_that_waits_is_interrupted() -> None:
    class Idle(Scripted):
        ends = ({"next": 0},)

    reader = opened(Idle())
    got: list[object] = []
    waiting = threading.Thread(target=lambda: got.append(reader.read(10 * WAIT_S)))
    waiting.start()
    reader.interrupt()
    waiting.join(WAIT_S)
    assert got == [None]
    reader.close()


def test_a_call_that_does_not_return_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    gate = threading.Event()
    monkeypatch.setattr(Scripted, "latestOffset", lambda self: gate.wait(WAIT_S) and None)
    monkeypatch.setattr(partition_reader, "LATE_AFTER_S", 0.0)
    monkeypatch.setattr(partition_reader, "CLOSE_WAIT_S", 0.0)
    reader = opened(Scripted())
    with caplog.at_level(logging.WARNING):
        wait_until(lambda: reader.read(0.001) or caplog.messages, "the warning", WAIT_S)
        for _ in range(3):
            reader.read(0.001)
        reader.close()
    gate.set()
    assert [text.partition(" for ")[0] for text in caplog.messages] == [
        "source scripted has not returned",
        "source scripted does not return: it is left behind",
    ]


class WithLock(Scripted):
    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()


def test_a_reader_that_cannot_travel_is_refused() -> None:
    with pytest.raises(ConfigError, match="cannot be pickled"):
        polled(WithLock())


def test_what_the_drivers_reader_holds_does_not_travel() -> None:
    class Late(Scripted):
        def initialOffset(self) -> dict:
            self.lock = threading.Lock()
            return {"next": 0}

    made = polled(Late())
    made.initialOffset()
    assert "_reader" not in vars(pickle.loads(pickle.dumps(made)))


def test_a_source_without_a_reader_is_refused() -> None:
    class Batch:
        def streamReader(self, schema: Any) -> Any:
            raise NotImplementedError

        simpleStreamReader = streamReader

    with pytest.raises(NotImplementedError):
        polled_reader("source batch", Batch(), COLUMNS, SCHEMA)
