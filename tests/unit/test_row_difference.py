"""Rows that only one of two tables has."""

from __future__ import annotations

import pyarrow as pa

from engine.query.row_difference import difference


def test_order_does_not_count_and_how_often_does() -> None:
    before = pa.table({"a": [1, 2, 2, None], "b": ["x", "y", "y", "z"]})
    after = pa.table({"a": [None, 2, 1, 3], "b": ["z", "y", "x", "w"]})
    found = difference(before, after)
    assert found.only_before.to_pylist() == [{"a": 2, "b": "y"}]
    assert found.only_after.to_pylist() == [{"a": 3, "b": "w"}]
    assert not found.is_empty
    assert difference(before, before.take([3, 2, 1, 0])).is_empty


def test_columns_of_one_alone_are_told_and_the_others_compared() -> None:
    before = pa.table({"a": [1, 2], "gone": [1.0, 2.0], "kind": [1, 1]})
    after = pa.table({"new": ["n"], "a": [2], "kind": ["one"]})
    found = difference(before, after)
    assert (found.columns_before, found.columns_after) == (("gone", "kind"), ("new", "kind"))
    assert found.only_before.to_pylist() == [{"a": 1, "gone": 1.0, "kind": 1}]
    assert found.only_after.num_rows == 0
    assert not found.is_empty


def test_columns_may_have_one_name() -> None:
    names = ["a", "a", "b"]
    before = pa.Table.from_arrays([pa.array(each) for each in ([1, 2], ["x", "y"], [0, 0])], names)
    after = pa.Table.from_arrays([pa.array(each) for each in ([1, 2], ["x", "z"])], names[:2])
    found = difference(before, after)
    assert found.columns_before == ("b",)
    assert [each.to_pylist() for each in found.only_before.columns] == [[2], ["y"], [0]]
    assert [each.to_pylist() for each in found.only_after.columns] == [[2], ["z"]]


def test_nested_and_odd_values_are_compared() -> None:
    rows = [{"m": {"list": [1, None]}, "f": float("nan"), "t": 2**62}]
    kind = pa.schema(
        [
            ("m", pa.struct([("list", pa.list_(pa.int64()))])),
            ("f", pa.float64()),
            ("t", pa.int64()),
        ]
    )
    table = pa.Table.from_pylist(rows, schema=kind)
    far = table.set_column(2, "t", table["t"].cast(pa.timestamp("us")))
    assert difference(far, far).is_empty


def test_nothing_and_something() -> None:
    table = pa.table({"a": [1]})
    assert difference(table.slice(0, 0), table).only_after.num_rows == 1
    assert difference(table.slice(0, 0), table.slice(0, 0)).is_empty
