"""How a state is cut: every row is in one slice, and no slice is too large."""

from __future__ import annotations

import math
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import ConfigError, StateTooLargeError
from engine.state import pieces
from engine.state.contract import GONE, GROUP
from engine.state.files import TableHead
from engine.state.pieces import Gathering, Spooled
from engine.state.scratch import Scratch
from engine.state.slices import slices_of

SCHEMA = pa.schema([GROUP, GONE, pa.field("key", pa.float64()), pa.field("n", pa.int64())])
KEYS = [0.0, -0.0, math.nan, 1.0, 2.0, None, math.inf]


@given(
    st.lists(st.sampled_from([0, 1, 30, 99, 100, 101, 750]), min_size=1, max_size=12),
    st.integers(0, 3),
    st.booleans(),
)
@settings(max_examples=200, deadline=None)
def test_every_row_is_in_one_slice(sizes: list[int], first: int, is_sorted: bool) -> None:
    groups = range(first, first + len(sizes))
    rows = [
        (group, KEYS[n % 7]) for group, size in zip(groups, sizes, strict=True) for n in range(size)
    ]
    if not is_sorted:
        rows = rows[::2] + rows[1::2]
    columns = [
        pa.array([group for group, _ in rows], GROUP.type),
        pa.array(np.zeros(len(rows), np.bool_)),
        pa.array([key for _, key in rows], pa.float64()),
        pa.array(range(len(rows)), pa.int64()),
    ]
    table = pa.Table.from_arrays(columns, schema=SCHEMA)
    nbytes = np.zeros(groups.stop)
    nbytes[first:] = sizes
    found = slices_of(groups, nbytes, 100)
    numbers: list[int] = []
    homes: dict[Any, set[int]] = {}
    for place, each in enumerate(found):
        part = each.of(table, 1, groups)
        assert set(part.column(0).to_pylist()) <= set(each.groups)
        assert each.parts == 1 or len(each.groups) == 1
        if each.parts == 1:
            assert part.num_rows <= 100
        numbers += part.column("n").to_pylist()
        for group, key in zip(part.column(0).to_pylist(), part.column(2).to_pylist(), strict=True):
            same = "nan" if key is not None and math.isnan(key) else key
            homes.setdefault((group, same), set()).add(place)  # 0.0 equals -0.0
    assert sorted(numbers) == [*range(len(rows))]
    assert all(len(places) == 1 for places in homes.values()), "a key is in one slice"


def test_a_table_without_a_key_is_in_one_slice() -> None:
    table = pa.Table.from_arrays(
        [pa.array([c], f.type) for c, f in zip([0, False, 1.0, 1], SCHEMA, strict=True)],
        schema=SCHEMA,
    )
    found = slices_of(range(1), np.array([1_000.0]), 100)
    assert len(found) > 1
    assert sum(each.of(table, 0, range(1)).num_rows for each in found) == 1


# -- files without a name -------------------------------------------------------------------------


def open_files() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


class Full(Scratch):
    """A disk on which there is nothing left."""

    def file(self) -> IO[bytes]:
        return Path("/dev/full").open("r+b", buffering=0)


def gathered(scratch: Scratch, monkeypatch: pytest.MonkeyPatch) -> Gathering:
    monkeypatch.setattr(pieces, "PIECE_BYTES", 2_000)  # a hundred rows, and no two hundred
    gathering = Gathering(scratch)
    for start in range(0, 1_000, 100):
        numbers = np.arange(start, start + 100)
        columns = [
            pa.array(numbers % 7, GROUP.type),
            pa.array(np.zeros(100, np.bool_)),
            pa.array(numbers * 1.0),
            pa.array(numbers),
        ]
        gathering.add(TableHead("s", "t", 1), pa.Table.from_arrays(columns, schema=SCHEMA))
    return gathering


def test_what_waits_is_read_as_it_was_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = open_files()
    found = gathered(Scratch(str(tmp_path)), monkeypatch).pieces()
    assert len(found) == 5
    assert [*tmp_path.iterdir()] == []
    assert open_files() == before + 1
    numbers = [n for piece in found for table in piece.tables for n in table["n"].to_pylist()]
    assert sorted(numbers) == [*range(1_000)]
    for piece in found:
        (table,) = piece.tables
        assert table["#group"].to_pylist() == sorted(table["#group"].to_pylist())
    del found, piece, table
    assert open_files() == before


def test_a_full_disk_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StateTooLargeError, match="No space left") as failed:
        gathered(Full("/dev/full"), monkeypatch)
    assert "stateScratchFolder" in str(failed.value.hint)


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere.*No such file") as failed:
        Spooled(Scratch(str(tmp_path / "nowhere")))
    assert "stateScratchFolder" in str(failed.value.hint)


def test_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Scratch("/a").place == "/a"
    monkeypatch.setenv("SPARK_LOCAL_DIRS", "/b,/c")
    assert Scratch().place == "/b"
    monkeypatch.delenv("SPARK_LOCAL_DIRS")
    assert Path(Scratch().place).is_dir()
