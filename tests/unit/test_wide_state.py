"""State whose rows are so wide that few of them fit an array of Arrow's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql.types import BinaryType, StructType

from engine.errors import StateTooLargeError
from engine.exchange.hashing import hash_rows
from engine.expressions.registry import Context
from engine.functions.custom_state.kept import Values
from engine.functions.custom_state.keys import Keys
from engine.functions.custom_state.layout import Layout
from engine.functions.custom_state.rows import RowResults
from engine.functions.custom_state.values import Codec, one_array
from engine.pipeline.stateful import APPEND, Aggregate, GroupRows
from engine.state import columns, joined_rows
from engine.state.arrays import Budget, within
from engine.state.columns import Slots
from engine.state.contract import GROUP, EventClock
from engine.state.files import TableHead
from engine.state.pieces import Gathering
from engine.state.portions import in_portions, portions_of
from engine.state.scratch import Scratch
from engine.task.grouping import Grouping
from tests.custom_states import groups_of
from tests.unit.stateful_stages import column

ROWS = pa.schema([("key", pa.int64()), ("value", pa.string())])
VALUE = StructType().add("bytes", BinaryType())


def test_a_snapshot_of_values_that_do_not_fit_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def joined(parts: list[pa.Array]) -> pa.Array:
        if sum(map(len, parts)) > 2:
            raise StateTooLargeError("more than fits an array")
        return pa.concat_arrays(parts)

    monkeypatch.setattr(columns, "_PART_BYTES", 0)
    monkeypatch.setattr(columns, "_joined", joined)
    last = Aggregate("Last", (column(ROWS, "value"),), pa.string())
    with within(Budget(1 << 20, Scratch(str(tmp_path)))):
        step = GroupRows("g", (0,), (last,), ROWS, APPEND)
        stage = Grouping(step, EventClock(), Context(), 8)
        for key in range(5):
            rows = [pa.array([key]), pa.array([f"text {key}"])]
            list(stage(iter([pa.RecordBatch.from_arrays(rows, schema=ROWS)])))
        taken = pa.concat_tables([rows for _, rows in stage.changes(whole=True)])
    assert taken.column("key").to_pylist() == list(range(5))


def test_as_many_as_fit() -> None:
    def take(slots: Slots) -> pa.Array:
        if len(slots) > 3:
            raise StateTooLargeError("too many")
        return pa.array(slots)

    parts = list(in_portions(np.arange(20), 16, take))
    assert [slot for slots, _ in parts for slot in slots] == list(range(20))
    assert all(slots.tolist() == taken.to_pylist() for slots, taken in parts)


def test_what_does_not_fit_by_itself_is_told() -> None:
    def take(slots: Slots) -> pa.Array:
        raise StateTooLargeError("too wide")

    with pytest.raises(StateTooLargeError, match="too wide"):
        list(in_portions(np.arange(20), 16, take))


def test_objects_one_after_the_other() -> None:
    def take(numbers: Sequence[int]) -> pa.Array:
        if sum(numbers) > 300 and len(numbers) > 1:
            raise StateTooLargeError("too many")
        return pa.array(numbers)

    parts = [part.to_pylist() for part in portions_of(iter(range(400)), 128, take)]
    assert [number for part in parts for number in part] == list(range(400))
    assert len(parts[0]) == 16
    assert len(parts[-1]) == 1


def test_wide_values_of_custom_state_are_several_tables() -> None:
    keys = Keys([pa.field("key", pa.int64())])
    kept = Values(Layout("v", keys, groups_of, value=Codec(VALUE.json())))
    for key in range(300):
        kept.put((key,), (bytes(1 << 20),))
    told: list[int] = []
    for rows in kept.changes(whole=False):
        assert rows.num_rows <= 64
        told += rows["key"].to_pylist()
    assert told == list(range(300))


def test_objects_that_do_not_fit_an_array() -> None:
    wide = [bytes((1 << 31) // 3 + 1)] * 3
    with pytest.raises(StateTooLargeError, match=r"3 values .* more than 2\*\*31 bytes"):
        one_array(wide, pa.binary())
    results = RowResults(pa.schema([("value", pa.binary())]))
    results.add(Row(value=value) for value in wide)
    assert sum(batch.num_rows for batch in results.made()) == 3


def test_wide_rows_that_come_at_once_are_several_pieces(tmp_path: Path) -> None:
    rows = pa.table({GROUP.name: pa.array([0] * 9, GROUP.type), "text": ["x" * (1 << 20)] * 9})
    gathering = Gathering(Scratch(str(tmp_path), piece_bytes=1))
    gathering.add(TableHead("g", "groups", 0), rows)
    pieces = gathering.pieces()
    assert len(pieces) > 1
    assert sum(piece.rows for piece in pieces) == gathering.rows == 9


def test_rows_that_wait_for_others_are_merged_by_their_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(joined_rows, "RUN_BYTES_MAX", 10_000)
    waiting = joined_rows.JoinedRows()
    for number in range(16):
        keys = pa.array([number])
        rows = pa.record_batch([keys, pa.array(["x" * 4_000])], ["key", "text"])
        far, alone = np.full(1, 1 << 60), np.zeros(1, np.bool_)
        waiting.add(hash_rows([keys], 1), rows, far, alone)
    assert len(waiting) == 16
    assert [len(run) for run in waiting.runs] == [2] * 8
