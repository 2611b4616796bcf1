"""A task that sends its rows to others leaves few rows time to become more."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from engine.pipeline.stateful import Exchange
from engine.progress.counters import EpochCounters
from engine.sources.contract import Offset, PartitionReader
from engine.state.contract import EventClock
from engine.task import intake
from engine.task.channel import TaskDismissed
from engine.task.inputs import open_input
from engine.task.intake import FEW_ROWS, SourceIntake
from engine.task.spec import Reading, TaskSpec
from engine.wire.connection import Dialing
from engine.wire.messages import Dismissed, DriverMessage, EpochMarker
from tests.model import SCHEMA, Feed, ModelReader, ModelSink, definition, task_spec
from tests.unit.test_channel import Driver
from tests.waiting import wait_until

LONG_S = 3600.0


class _Reader(ModelReader):
    """Batches of so many rows; all of them are there at once."""

    def __init__(self, *rows: int) -> None:
        super().__init__(Feed(1))
        self.rows = rows

    def open(self, partition: Any, until: Offset | None = None) -> PartitionReader:
        return _Batches(self.rows, bounded=until is not None)


class _Batches(PartitionReader):
    def __init__(self, rows: Sequence[int], *, bounded: bool) -> None:
        self._left = list(rows)
        self._bounded = bounded

    def read(self, timeout_s: float) -> pa.RecordBatch | None:
        if not self._left:
            threading.Event().wait(timeout_s)
            return None
        numbers = range(self._left.pop(0))
        columns = [pa.array(numbers, field.type) for field in SCHEMA]
        return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)

    @property
    def offset(self) -> Offset:
        return len(self._left)

    @property
    def exhausted(self) -> bool:
        return self._bounded and not self._left


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    """Of a task that would gather for an hour."""
    monkeypatch.setattr(intake, "GATHERING_S", LONG_S)
    made = Driver()
    yield made
    made.channel.close()


@pytest.fixture
def spec(tmp_path: Path) -> TaskSpec:
    """A task that sends its rows to others."""
    made = task_spec(definition(Feed(1), ModelSink(), tmp_path), Dialing(("", 0), b""))
    assert made.reading is not None
    pipeline = replace(made.reading.pipeline, exchange=Exchange(1, (0,)))
    return replace(made, reading=replace(made.reading, pipeline=pipeline))


def _batches(
    driver: Driver, spec: TaskSpec, *rows: int, until: Offset | None = None
) -> Iterator[pa.RecordBatch]:
    assert spec.reading is not None
    reading: Reading = replace(spec.reading, reader=_Reader(*rows), until=until)
    source = open_input(reading, None)
    made = SourceIntake(spec, reading, source, driver.channel, EventClock(), lambda: False)
    driver.channel.on_word = made.interrupt
    return made.batches(0, EpochCounters(), tells_idle=False)


def _soon(what: Callable[[], object]) -> list[object]:
    """Gets what it returns, or what it raises."""
    found: list[object] = []

    def run() -> None:
        try:
            found.append(what())
        except BaseException as exc:
            found.append(exc)

    threading.Thread(target=run, daemon=True).start()
    return found


def _rows(batches: Iterator[pa.RecordBatch]) -> int | None:
    batch = next(batches, None)
    return None if batch is None else batch.num_rows


@pytest.mark.parametrize("word", [EpochMarker(0), Dismissed("over")])
def test_behind_few_rows_it_waits_until_word_comes(
    driver: Driver, spec: TaskSpec, word: DriverMessage
) -> None:
    batches = _batches(driver, spec, FEW_ROWS - 1, 1)
    assert _rows(batches) == FEW_ROWS - 1
    found = _soon(lambda: _rows(batches))
    driver.says(EpochMarker(-1, committed=7))  # says nothing of this epoch
    wait_until(lambda: driver.channel.committed_epoch == 7, "the word to be heard")
    assert not found
    driver.says(word)
    wait_until(lambda: found, "the end of the epoch")
    if isinstance(word, EpochMarker):
        assert found == [None]
    else:
        assert isinstance(found[0], TaskDismissed)


def test_behind_many_rows_it_reads_on(driver: Driver, spec: TaskSpec) -> None:
    batches = _batches(driver, spec, FEW_ROWS, 1)
    assert _rows(batches) == FEW_ROWS
    found = _soon(lambda: _rows(batches))
    wait_until(lambda: found == [1], "the next batch")


def test_rows_for_a_sink_are_not_kept_waiting(driver: Driver, spec: TaskSpec) -> None:
    assert spec.reading is not None
    pipeline = replace(spec.reading.pipeline, exchange=None)
    own = replace(spec, reading=replace(spec.reading, pipeline=pipeline))
    batches = _batches(driver, own, 1, 2)
    assert _rows(batches) == 1
    found = _soon(lambda: _rows(batches))
    wait_until(lambda: found == [2], "the next batch")


def test_nor_are_those_of_an_epoch_that_is_run_again(driver: Driver, spec: TaskSpec) -> None:
    batches = _batches(driver, spec, 1, 2, until={"0": 3})
    assert _rows(batches) == 1
    found = _soon(lambda: _rows(batches))
    wait_until(lambda: found == [2], "the next batch")
