"""Columns of arrays and maps, taken apart and put together."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from engine.expressions.json.to_json import to_json
from engine.expressions.lists import Lists
from engine.expressions.registry import Context
from engine.expressions.tree import Expr

MAPS = pa.array(
    [[("a", 1)], None, [], [("b", 2), ("c", None)], [("d", 4)]], pa.map_(pa.string(), pa.int64())
)
LISTS = pa.array([[1], None, [], [2, None], [4]], pa.list_(pa.int64()))


@pytest.mark.parametrize("array", [MAPS, LISTS], ids=["maps", "lists"])
@pytest.mark.parametrize("start", range(5))
def test_a_slice_is_what_it_was(array: pa.Array, start: int) -> None:
    part = array.slice(start, 2)
    again = Lists.of(part).array(array.type)
    again.validate(full=True)
    assert again.to_pylist() == part.to_pylist()
    assert str(again) == str(pa.array(part.to_pylist(), array.type))


def test_the_keys_of_a_slice_are_its_own() -> None:
    """Arrow looks for keys where those of the whole column begin."""
    again = Lists.of(MAPS.slice(3)).array(MAPS.type)
    assert again.keys.to_pylist() == ["b", "c", "d"]
    assert again.items.to_pylist() == [2, None, 4]


@pytest.mark.parametrize(
    ("array", "texts"),
    [
        (MAPS, ['{"a":1}', None, "{}", '{"b":2,"c":null}', '{"d":4}']),
        (LISTS, ["[1]", None, "[]", "[2,null]", "[4]"]),
    ],
    ids=["maps", "lists"],
)
def test_a_slice_as_json(array: pa.Array, texts: list[Any]) -> None:
    column = Expr("Column", dtype=array.type, params={"ordinal": 0})
    write = to_json(Expr("StructsToJson", (column,), params={"options": {}}), Context("UTC"))
    for start in range(5):
        part = Lists.of(array.slice(start)).array(array.type)
        assert write(part).to_pylist() == texts[start:]
        assert write(array.slice(start)).to_pylist() == texts[start:]
