"""The age of files, where those of a folder are further apart than ``maxFileAge``."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from engine.sources.handed.reader import partition_of
from tests.connectors.lakes.folders import Case
from tests.connectors.lakes.queries import WAIT_S, Kept, KeptRows, failure

DAY_S = 86_400


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


def names_of(partition: int, count: int, folder: Path) -> list[str]:
    """Names of files that this partition of two reads."""
    names = (f"{number}.json" for number in itertools.count())
    return list(
        itertools.islice(
            (name for name in names if partition_of(str(folder / name), 2) == partition), count
        )
    )


class SlowOnSome(Kept):
    """Takes its time for some values, and fails once when the log of the source has a file."""

    slow: frozenset[int] = frozenset()
    log: Path
    name: str
    failed = False

    def write(self, batches: Iterator[pa.RecordBatch]) -> KeptRows:
        return super().write(map(self._slowly, batches))

    def _slowly(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self.slow.intersection(batch.column("value").to_pylist()):
            threading.Event().wait(0.1)
        return batch

    def commit(self, messages: list[KeptRows], epoch: int) -> None:
        logged = "".join(path.read_text() for path in self.log.glob("*"))
        if self.name in logged and not self.failed:
            self.failed = True
            raise RuntimeError("lost")
        super().commit(messages, epoch)


@pytest.mark.parametrize("latest_first", ["false", "true"])
def test_a_file_that_was_found_is_read_after_a_restart_however_far_others_were(
    case: Case, latest_first: str
) -> None:
    now_s, folder = time.time(), case.folder / "in"
    sink = SlowOnSome()
    case.sink = sink
    for number, name in enumerate(names_of(0, 6, folder)):
        case.put(name, modified_s=now_s - (60 - number) * DAY_S)
    (new,) = names_of(1, 1, folder)
    sink.slow, sink.log, sink.name = frozenset(range(6)), case.checkpoint / "sources/0", new
    case.put(new, modified_s=now_s)
    query = case.start(latestFirst=latest_first)
    assert "lost" in failure(query)
    case.read(latestFirst=latest_first)
    assert case.sink.values() == list(range(7))


def test_a_backlog_of_years_is_read_in_order_over_restarts(case: Case) -> None:
    now_s = time.time()
    for number in range(30):
        case.put(f"{number}.json", modified_s=now_s - (300 - 10 * number) * DAY_S)
    query = case.start(maxFilesPerTrigger="4")
    case.sink.await_rows(5)
    assert query.drain(WAIT_S)
    case.put("late.json", modified_s=now_s + DAY_S)
    case.read(maxFilesPerTrigger="4")
    assert case.sink.values() == list(range(31))
    assert max(case.epochs()) <= 4
    assert [row["value"] for row in case.sink.rows if row["value"] % 4 == 0] == list(
        range(0, 31, 4)
    )


def test_old_files_that_were_read_are_not_told_as_left_out(
    case: Case, caplog: pytest.LogCaptureFixture
) -> None:
    now_s = time.time()
    for number in range(4):
        case.put(f"{number}.json", modified_s=now_s - 10 * number * DAY_S)
    for _ in range(2):
        case.read()
    assert case.sink.values() == [0, 1, 2, 3]
    assert "maxFileAge" not in caplog.text
    case.put("older.json", modified_s=now_s - 99 * DAY_S)
    case.read()
    assert "allows are not read: 1" in caplog.text
    assert case.sink.values() == [0, 1, 2, 3]
