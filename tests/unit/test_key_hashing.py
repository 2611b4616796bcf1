"""The hash that decides who owns a key, and how batches are split by it."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.exchange.few_hashes import FEW
from engine.exchange.hashing import hash_rows
from engine.exchange.key_groups import groups_of
from engine.exchange.partitioning import Partitioner, groups_of_rows

STRUCT = pa.struct([("a", pa.int32()), ("b", pa.string())])
VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.int8(): st.integers(-128, 127),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(max_size=40),
    pa.binary(): st.binary(max_size=40),
    pa.date32(): st.integers(-1000, 100000),
    pa.timestamp("us", "UTC"): st.integers(-(2**50), 2**50),
    pa.decimal128(38, 3): st.decimals(-(10**30), 10**30, places=3, allow_nan=False),
    pa.list_(pa.string()): st.lists(st.none() | st.text(max_size=3), max_size=3),
    pa.list_(pa.list_(pa.int64())): st.lists(
        st.none() | st.lists(st.integers(0, 2), max_size=2), max_size=2
    ),
    STRUCT: st.fixed_dictionaries(
        {"a": st.none() | st.integers(0, 2), "b": st.none() | st.text(max_size=2)}
    ),
}


def hashes(*columns: pa.Array) -> list[tuple[int, int]]:
    lanes = hash_rows(columns, len(columns[0]))
    return list(zip(lanes[0].tolist(), lanes[1].tolist(), strict=True))


@pytest.mark.parametrize("dtype", VALUES, ids=str)
@settings(deadline=None)
@given(data=st.data())
def test_equal_values_and_no_others_have_equal_hashes(dtype: pa.DataType, data: Any) -> None:
    values = data.draw(st.lists(st.none() | VALUES[dtype], min_size=1, max_size=20))
    column = pa.array(values, dtype)
    found = hashes(column)
    assert len(set(found)) == len({repr(value) for value in column.to_pylist()})
    by_value: dict[str, tuple[int, int]] = {}
    for value, each in zip(column.to_pylist(), found, strict=True):
        assert by_value.setdefault(repr(value), each) == each


@pytest.mark.parametrize("dtype", VALUES, ids=str)
@settings(deadline=None)
@given(data=st.data())
def test_a_slice_has_the_hashes_of_its_rows(dtype: pa.DataType, data: Any) -> None:
    values = data.draw(st.lists(st.none() | VALUES[dtype], min_size=1, max_size=20))
    start = data.draw(st.integers(0, len(values) - 1))
    column = pa.array(values, dtype)
    assert hashes(column.slice(start)) == hashes(column)[start:]
    one = pa.array(values[start : start + 1], dtype)
    assert hashes(one) == hashes(column)[start : start + 1]


@pytest.mark.parametrize("dtype", VALUES, ids=str)
@settings(deadline=None)
@given(data=st.data())
def test_a_row_has_the_same_hash_among_few_and_among_many(dtype: pa.DataType, data: Any) -> None:
    values = data.draw(st.lists(st.none() | VALUES[dtype], min_size=1, max_size=FEW))
    many = pa.array(values * (2 + FEW // len(values)), dtype)
    start = data.draw(st.integers(0, len(many) - 1))
    few = many.slice(start, FEW)
    nested = [pa.StructArray.from_arrays([each, each], names=["a", "b"]) for each in (many, few)]
    found = [hashes(each, column) for each, column in zip(nested, (many, few), strict=True)]
    assert found[1] == found[0][start : start + FEW]


def test_few_long_texts_have_the_hashes_of_many() -> None:
    texts = pa.array(["x" * size for size in range(100, 1_000, 9)])
    assert hashes(texts)[:2] == hashes(texts.slice(0, 2))
    assert hashes(texts)[-2:] == hashes(texts.slice(len(texts) - 2))


def test_texts_of_no_rows_may_have_no_offsets() -> None:
    nothing = pa.py_buffer(b"")
    texts = pa.Array.from_buffers(pa.string(), 0, [None, nothing, nothing])
    assert hash_rows([texts], 0).shape == (2, 0)


@pytest.mark.parametrize("dtype", [pa.float32(), pa.float64()], ids=str)
def test_floating_numbers_are_grouped_as_spark_does(dtype: pa.DataType) -> None:
    other_nan = np.frombuffer(np.uint64(0xFFF8000000000123).tobytes(), np.float64)[0]
    values = pa.array([0.0, -0.0, math.nan, float(other_nan), 1.5, math.inf], dtype)
    found = hashes(values)
    assert found[0] == found[1]
    assert found[2] == found[3]
    assert len(set(found)) == 4
    inside = pa.StructArray.from_arrays([values], names=["x"])
    assert len(set(hashes(inside))) == 4


def test_places_and_lengths_count() -> None:
    texts = pa.array(["", "\0", "\0\0", "a", "a\0", "a" * 8, "a" * 8 + "\0", "a" * 9, "ab", "ba"])
    assert len(set(hashes(texts))) == len(texts)
    left, right = pa.array(["ab", "a", ""]), pa.array(["c", "bc", "abc"])
    assert len(set(hashes(left, right))) == 3
    lists = pa.array(
        [[], None, [None], [None, None], [[]], [[], []]], pa.list_(pa.list_(pa.int8()))
    )
    assert len(set(hashes(lists))) == 6
    structs = pa.array([None, {"a": None, "b": None}], STRUCT)
    assert len(set(hashes(structs))) == 2


def test_very_long_texts() -> None:
    texts = pa.array(["x" * 1_000_000, "x" * 999_999 + "y", "z", None])
    assert len(set(hashes(texts))) == 4
    assert hashes(texts.slice(2, 1)) == hashes(pa.array(["z"]))


def test_many_numbers_side_by_side() -> None:
    """Whatever the pattern of the keys: all hashes differ, in each lane, and groups are even."""
    for step in (1, 10, 1 << 16, 1 << 32, 10**7):
        lanes = hash_rows([pa.array(np.arange(100_000) * step)], 100_000)
        assert len(np.unique(lanes[0])) == len(np.unique(lanes[1])) == 100_000
        groups = np.bincount((lanes[0] >> np.uint64(57)).astype(np.int64), minlength=128)
        assert groups.min() > 600
        assert groups.max() < 1_000
        lower = np.bincount((lanes[0] & np.uint64(127)).astype(np.int64), minlength=128)
        assert lower.min() > 600
        assert lower.max() < 1_000


def test_the_hash_stays_as_it_is() -> None:
    """Checkpoints depend on it."""
    batch = {
        "long": pa.array([0, -1, None]),
        "text": pa.array(["", "a somewhat longer text", None]),
        "bool": pa.array([True, False, None]),
        "double": pa.array([-0.0, math.nan, None]),
        "float": pa.array([-0.0, math.nan, None], pa.float32()),
        "decimal": pa.array([Decimal("1.5"), Decimal(-1), None], pa.decimal128(20, 1)),
        "time": pa.array([0, 1_700_000_000_000_000, None], pa.timestamp("us", "UTC")),
        "struct": pa.array([{"a": 1, "b": "x"}, {"a": None, "b": None}, None], STRUCT),
        "list": pa.array([["a", None], [], None], pa.list_(pa.string())),
    }
    assert {name: hashes(column)[:2] for name, column in batch.items()} == GOLDEN
    assert len({hashes(column)[2] for column in batch.values()}) == 1
    whole = hash_rows(list(batch.values()), 3)
    assert whole[0].tolist() == GOLDEN_WHOLE
    many = [pa.concat_arrays([column] * FEW) for column in batch.values()]
    assert hash_rows(many, 3 * FEW)[0].tolist() == GOLDEN_WHOLE * FEW


GOLDEN = {
    "long": [
        (0xEC8B9096D590E6AB, 0x58C8B3780605556E),
        (0xB2FC88BF84D48E7F, 0x303819E79685441C),
    ],
    "text": [
        (0x1B2B100292331239, 0x4CBCF3A2DD482A03),
        (0x740D91E7EFC5EA39, 0xB281640F6FE30269),
    ],
    "bool": [
        (0xEA0E3AAC670B2E96, 0x63E0BFE9F06CF3F9),
        (0xEC8B9096D590E6AB, 0x58C8B3780605556E),
    ],
    "double": [
        (0xEC8B9096D590E6AB, 0x58C8B3780605556E),
        (0x8669A775452AD148, 0xE298892DD9CD6F3B),
    ],
    "float": [
        (0xEC8B9096D590E6AB, 0x58C8B3780605556E),
        (0x09A617E5104A22F2, 0xE4D00BC79E4E2668),
    ],
    "decimal": [
        (0x8CA86C793599EACA, 0x9ACB6D8B73D176DC),
        (0x0D57B2D08317815E, 0x7CF6B758D82EDD3D),
    ],
    "time": [
        (0xEC8B9096D590E6AB, 0x58C8B3780605556E),
        (0xB4FDBDB6B4B5DDFA, 0x901C06F615FF990C),
    ],
    "struct": [
        (0x2F395C9D5003FFD4, 0x10A54D28BA4F3F2C),
        (0xF58B435E055B0567, 0xD61A50B00202C5A4),
    ],
    "list": [
        (0x3925EFB1599E401B, 0x462E7CEEC4055DD2),
        (0x09F446E3CA5B9EC4, 0x23F83EA1461D8B00),
    ],
}
GOLDEN_WHOLE = [0x7D51FE53A350394D, 0x2E8A5DE98BCC5EDC, 0xB05C65B92768ACCE]


@settings(deadline=None)
@given(
    st.lists(st.none() | st.integers(0, 50), max_size=60), st.integers(1, 7), st.integers(7, 200)
)
def test_a_batch_is_split_by_the_owners_of_its_keys(
    keys: list[int | None], tasks: int, groups: int
) -> None:
    numbers = list(range(len(keys)))
    batch = pa.RecordBatch.from_pydict({"row": numbers, "key": pa.array(keys, pa.int64())})
    parts = Partitioner([1], tasks, groups).split(batch)
    owners = groups_of_rows([batch.column(1)], len(keys), groups)
    expected = [
        (task, [row for row in numbers if owners[row] in groups_of(task, tasks, groups)])
        for task in range(tasks)
    ]
    assert [(task, part.column(0).to_pylist()) for task, part in parts] == [
        each for each in expected if each[1]
    ]
    assert all(part.schema == batch.schema for _, part in parts)


def test_without_keys_one_task_gets_all() -> None:
    batch = pa.RecordBatch.from_pydict({"row": [1, 2, 3]})
    assert Partitioner([], 4, 128).split(batch) == [(0, batch)]
    assert Partitioner([0], 1, 128).split(batch) == [(0, batch)]
    assert Partitioner([0], 4, 128).split(batch.slice(0, 0)) == []
