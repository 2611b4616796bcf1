"""Values of state and grouping keys: what is kept of what the user gives, and how it is found."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import Row
from pyspark.sql import types as T

from engine.functions.custom_state.due import Due
from engine.functions.custom_state.keys import Keys
from engine.functions.custom_state.values import Codec

NESTED = T.StructType(
    [
        T.StructField("i", T.IntegerType()),
        T.StructField("s", T.StringType()),
        T.StructField("f", T.FloatType()),
        T.StructField("t", T.TimestampType()),
        T.StructField("d", T.DateType()),
        T.StructField("m", T.DecimalType(10, 2)),
        T.StructField("b", T.BinaryType()),
        T.StructField("a", T.ArrayType(T.IntegerType())),
        T.StructField("p", T.MapType(T.StringType(), T.FloatType())),
        T.StructField(
            "x",
            T.StructType([T.StructField("y", T.LongType()), T.StructField("z", T.DateType())]),
        ),
        T.StructField("v", T.DayTimeIntervalType()),
    ]
)
NOW = datetime(2024, 1, 2, 3, 4, 5, 678901)


def test_half_a_character_is_what_java_makes_of_it() -> None:
    text = T.StructType([T.StructField("s", T.StringType()), T.StructField("a", NAMES)])
    codec = Codec(text.json())
    kept = codec.take(("caf\ud83d", {"\ud83d\ude00é": "ok"}))
    assert codec.give(kept) == Row(s="caf\ufffd", a={"\ufffd\ufffdé": "ok"})
    assert codec.from_arrow(codec.to_arrow([kept])) == [kept]
    assert codec.take(("é😀", {})) == ("é😀", [])


NAMES = T.MapType(T.StringType(), T.StringType())


def test_nested_values_come_back() -> None:
    codec = Codec(NESTED.json())
    given = (
        1, "é", 0.1, NOW, date(2024, 1, 2), Decimal("1.2"), b"ab", [1, None], {"k": 0.1},
        (5, date(2024, 1, 3)), NOW - datetime(2024, 1, 1),
    )  # fmt: skip
    kept = codec.take(given)
    single = 0.10000000149011612
    expected = (
        1, "é", single, NOW, date(2024, 1, 2), Decimal("1.20"), b"ab", [1, None], {"k": single},
        Row(y=5, z=date(2024, 1, 3)), NOW - datetime(2024, 1, 1),
    )  # fmt: skip
    assert codec.give_tuple(kept) == expected
    assert codec.give(kept).asDict()["t"] == NOW
    nothing = codec.take((None,) * len(given))
    assert codec.from_arrow(codec.to_arrow([kept, None, nothing])) == [kept, None, nothing]
    # What the user does to a list is not done to the state.
    codec.give_tuple(kept)[7].append(9)
    assert codec.give_tuple(kept) == expected


ODD = T.StructType(
    [
        T.StructField("a", T.IntegerType()),
        T.StructField("b", T.StringType()),
        T.StructField("c", T.DoubleType()),
        T.StructField("d", T.ByteType()),
        T.StructField("e", T.BooleanType()),
        T.StructField("f", T.BinaryType()),
        T.StructField("g", T.ArrayType(T.IntegerType())),
    ]
)


@pytest.mark.parametrize(
    ("given", "expected"),
    [  # as Spark 4.2 answered
        (("1", 5, 1, 300, 1, "txt", (1, 2)), (None, "5", None, 44, None, b"txt", [1, 2])),
        (
            (2**40, 1.5, "2.5", True, "true", bytearray(b"z"), [1.5, "2"]),
            (0, "1.5", None, None, None, b"z", [None, None]),
        ),
        (
            (1.0, True, Decimal("1.5"), -129, None, b"x", [2**33]),
            (None, "true", None, 127, None, b"x", [0]),
        ),
        ((1, [1, None, "s"], 1.5, 1, True, b"", []), (1, "[1, null, s]", 1.5, 1, True, b"", [])),
    ],
)
def test_what_does_not_fit_its_type(given: Any, expected: Any) -> None:
    codec = Codec(ODD.json())
    assert codec.give_tuple(codec.take(given)) == expected


_KEY_TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "text": (pa.string(), st.text(max_size=2)),
    "number": (pa.int64(), st.integers(-2, 2)),
    "float": (pa.float64(), st.sampled_from([0.0, -0.0, 1.5, float("nan")])),
    "flag": (pa.bool_(), st.booleans()),
    "time": (
        pa.timestamp("us", "UTC"),
        st.sampled_from([datetime(2024, 1, day, tzinfo=timezone.utc) for day in (1, 2)]),
    ),
    "money": (pa.decimal128(5, 1), st.sampled_from([Decimal("1.0"), Decimal("2.5")])),
    "items": (pa.list_(pa.float64()), st.lists(st.sampled_from([0.0, -0.0, None]), max_size=2)),
    "parts": (
        pa.struct([("x", pa.int64()), ("y", pa.float64())]),
        st.fixed_dictionaries({"x": st.integers(0, 1), "y": st.sampled_from([0.0, -0.0, None])}),
    ),
    "raw": (pa.binary(), st.binary(max_size=1)),
}


def _model(value: Any) -> Any:
    """Equal for equal keys."""
    if isinstance(value, float):
        return "NaN" if value != value else value + 0.0
    if isinstance(value, dict):
        return tuple(_model(each) for _, each in sorted(value.items()))
    return tuple(map(_model, value)) if isinstance(value, list) else value


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.data())
def test_rows_are_grouped_as_spark_groups_them(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(_KEY_TYPES)), min_size=1, max_size=3))
    values = st.tuples(*(st.one_of(st.none(), _KEY_TYPES[name][1]) for name in names))
    rows = data.draw(st.lists(values, min_size=1, max_size=12))
    fields = [pa.field(f"c{i}", _KEY_TYPES[name][0]) for i, name in enumerate(names)]
    columns = [
        pa.array(list(each), field.type)
        for each, field in zip(zip(*rows, strict=True), fields, strict=True)
    ]
    numbered = pa.RecordBatch.from_arrays(
        [*columns, pa.array(range(len(rows)))], schema=pa.schema([*fields, ("n", pa.int64())])
    )
    keys = Keys(fields)
    grouped = keys.group(numbered, range(len(names)))
    expected: dict[Any, list[int]] = {}
    for number, row in enumerate(rows):
        expected.setdefault(tuple(map(_model, row)), []).append(number)
    found = grouped.rows.column(len(names)).to_pylist()
    bounds = list(zip(grouped.starts, grouped.starts[1:], strict=False))
    assert [found[start:end] for start, end in bounds] == list(expected.values())
    assert len(set(grouped.keys)) == len(expected)
    # A key is the same after a snapshot.
    assert keys.of(keys.to_arrow(grouped.keys)) == grouped.keys
    assert set(keys.of(columns)) == set(grouped.keys)


def test_a_key_as_a_row() -> None:
    fields = [
        pa.field("t", pa.timestamp("us", "UTC")),
        pa.field("x", pa.struct([("y", pa.int32())])),
    ]
    keys = Keys(fields)
    moment = datetime(2024, 1, 2, tzinfo=timezone.utc)
    (key,) = keys.of([pa.array([moment], fields[0].type), pa.array([{"y": 1}], fields[1].type)])
    local = moment.astimezone().replace(tzinfo=None)
    assert keys.row(key) == Row(t=local, x=Row(y=1))


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9), st.integers(0, 3)), max_size=30))
def test_what_is_due(story: list[tuple[bool, int, int]]) -> None:
    due: Due[int] = Due()
    expected: set[tuple[int, int]] = set()
    for is_added, at_ms, item in story:
        if is_added:
            due.add(at_ms, item)
            expected.add((at_ms, item))
        else:
            due.remove(at_ms, item)
            expected.discard((at_ms, item))
        for until in (at_ms, 9):
            found = due.until(until)
            assert [at for at, _ in found] == sorted(at for at, _ in found)
            assert set(found) == {each for each in expected if each[0] <= until}
            assert len(found) == len(set(found))


def test_a_timer_that_is_put_off_again_and_again_takes_no_memory() -> None:
    due = Due[str]()
    for at_ms in range(10_000):
        due.remove(at_ms, "late")
        due.add(at_ms + 1, "late")
        due.add(1_000_000 - at_ms % 7, "other")
    assert len(due._times) < 200
    assert due.until(10_000) == [(10_000, "late")]
    assert due.next_ms() == 10_000
    assert due.next_ms(10_001) == 999_994
    assert due.next_ms(1_000_001) is None
    assert [at_ms for at_ms, _ in due.until(1_000_000)] == [10_000, *range(999_994, 1_000_001)]
