"""State that is beyond its budget is as that which is not."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from engine.base.open_files import open_files_max
from engine.errors import StateTooLargeError
from engine.state import arrays, columns
from engine.state.arrays import Budget, full, grown, kept, kept_rows, within
from engine.state.columns import column_of
from engine.state.scratch import Scratch
from tests.disks import disk_of_64k
from tests.unit import (
    test_deduplicating,
    test_grouping_stage,
    test_joining,
    test_session_stage,
)
from tests.unit.little_memory import check_that_it_spills

__all__ = ["disk_of_64k"]


@pytest.fixture(scope="module", autouse=True)
def budget(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Budget]:
    """In which there is nothing: all is in files."""
    folder = tmp_path_factory.mktemp("scratch")
    made = Budget(0, Scratch(str(folder)))
    with pytest.MonkeyPatch.context() as patch, within(made):
        patch.setattr(arrays, "_SMALL", 1)
        patch.setattr(columns, "_PART_BYTES", 200)
        patch.setattr(columns, "_ROWS_MIN", 64)
        patch.setattr(columns, "_SLOTS_AT_ONCE", 64)
        yield made
    assert [*folder.iterdir()] == []


# What is drawn for each kind of stage where its state is in memory:
test_groups = test_grouping_stage.test_as_the_model
test_sessions = test_session_stage.test_as_the_model
test_first_rows = test_deduplicating.test_the_first_row_of_each_key
test_streams_joined = test_joining.test_any_streams
test_rows_of_one_key = test_joining.test_a_key_that_many_rows_have


@pytest.mark.parametrize("share", [1, 20])
def test_what_no_slot_remembers_goes(share: int) -> None:
    column = column_of(pa.string())
    assert isinstance(column, columns._PartsColumn)
    column.grow(2_000)
    for turn in range(40):
        slots = np.arange(2_000)[turn % share :: share] if turn else np.arange(2_000)
        column.put(slots, pa.array([f"{turn} {slot}" for slot in slots]))
    newest = {slot: turn for turn in range(40) for slot in range(turn % share, 2_000, share)}
    expected = [f"{newest[slot]} {slot}" for slot in range(2_000)]
    assert column.take(np.arange(2_000)).to_pylist() == expected
    assert column.take(np.arange(2_000)[::-7]).to_pylist() == expected[::-7]
    assert column._parts.count < 3 * 2_000
    column.clear(np.arange(0, 2_000, 2))
    assert column.take(np.arange(4)).to_pylist() == [None, expected[1], None, expected[3]]
    assert column.take(np.empty(0, np.int64)).to_pylist() == []


def test_what_fits_stays_and_what_goes_makes_room(tmp_path: Path) -> None:
    made = Budget(3 << 20, Scratch(str(tmp_path)))
    with within(made):
        first = full(1 << 17, 7, np.int64)  # a megabyte
        first = grown(first, 1 << 18, 8)  # two, while the first is there
        assert made.spilled_bytes == 0
        first = grown(first, 1 << 19, 9)
        assert made.spilled_bytes == 4 << 20
        assert [first[0], first[1 << 17], first[1 << 18], first[-1]] == [7, 8, 9, 9]
        made.let_go()
        assert first.sum() == (7 << 17) + (8 << 17) + (9 << 18)
        inside = kept(np.arange(3 << 17))
        assert made.spilled_bytes == 4 << 20
        rows = kept_rows(pa.array(["text"] * (1 << 15)))
        assert made.spilled_bytes > 4 << 20
        assert rows.to_pylist() == ["text"] * (1 << 15)
        batch = kept_rows(pa.record_batch([rows], ["x"]))
        assert batch.column(0) == rows
        del first, rows, batch, inside
        assert made.spilled_bytes == 0
        kept(np.zeros(3 << 17))
        assert made.spilled_bytes == 0


def test_a_full_disk_is_told_before_anything_is_written(disk_of_64k: Path) -> None:
    with (
        within(Budget(0, Scratch(str(disk_of_64k)))),
        pytest.raises(StateTooLargeError, match="No space left"),
    ):
        full(1 << 30, 0, np.int64)
    assert [*disk_of_64k.iterdir()] == [], "nor is there anything now"


def test_a_state_may_have_as_many_files_as_the_system_allows() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (before[0] - 1, before[1]))
        Budget(0, Scratch())
        hard = before[1]
        assert open_files_max() == (1 << 20 if hard == resource.RLIM_INFINITY else hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_who_may_open_no_more_files_is_told_so(tmp_path: Path) -> None:
    """In a process of its own: a limit that was lowered for good cannot be raised again."""
    code = f"""
import resource
from engine.errors import StateTooLargeError
from engine.state.arrays import Budget, full, within
from engine.state.scratch import Scratch
resource.setrlimit(resource.RLIMIT_NOFILE, (50, 50))
with within(Budget(0, Scratch({str(tmp_path)!r}))):
    try:
        kept = [full(1 << 16, 0, "int64") for _ in range(100)]
    except StateTooLargeError as exc:
        print(exc)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "more files than its process may have open, which are 50" in ran.stdout
    assert "ulimit -n" in ran.stdout


def test_little_memory(tmp_path: Path) -> None:
    """A state that does not fit it, by all kinds of stages."""
    check_that_it_spills("tests.unit.spilled_state", tmp_path)
