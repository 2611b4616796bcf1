from __future__ import annotations

import json
import pickle
import re
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import ConfigError
from engine.sources.json_lines import JsonLines
from engine.sources.line_formats import CsvLines, LineFormat, TextLines

UTC = pa.timestamp("us", tz="UTC")


def good(lines: LineFormat, block: bytes, *, at_start: bool = True) -> pa.RecordBatch:
    """The records of a block without a bad line."""
    batch, errors = lines.parse(block, at_start=at_start)
    assert list(errors) == []
    return batch


def json_of(dtype: pa.DataType, zone: str = "UTC") -> JsonLines:
    return JsonLines(pa.schema([("a", dtype)]), zone)


def values(lines: LineFormat, block: bytes) -> list[Any]:
    batch = good(pickle.loads(pickle.dumps(lines)), block)
    batch.validate(full=True)
    assert batch.schema == lines.schema
    return batch.column(0).to_pylist()


INT8_STRUCT = pa.struct([("x", pa.int8()), ("y", pa.string())])
JSON_VALUES: list[tuple[pa.DataType, str, Any]] = [
    (pa.int64(), "7", 7),
    (pa.int64(), "-9223372036854775808", -(2**63)),
    (pa.int8(), "-128", -128),
    (pa.float64(), "1", 1.0),
    (pa.float64(), "1.5e3", 1500.0),
    (pa.float64(), '"Infinity"', float("inf")),
    (pa.float64(), '"-INF"', float("-inf")),
    (pa.float32(), "0.1", pytest.approx(0.1)),
    (pa.bool_(), "true", True),
    (pa.string(), '"x\\u00e4\\n"', "xä\n"),
    (pa.string(), "1.50", "1.50"),
    (pa.string(), "false", "false"),
    (pa.string(), '{"b": [1, 2.0, "c"],"d":null}', '{"b": [1, 2.0, "c"],"d":null}'),
    (pa.list_(pa.string()), "[ [ 1 ], {} ,1.0]", ["[ 1 ]", "{}", "1.0"]),
    (pa.decimal128(5, 2), "1.23", Decimal("1.23")),
    (pa.decimal128(5, 2), "1", Decimal("1.00")),
    (pa.decimal128(5, 2), '"1.2"', Decimal("1.20")),
    (pa.decimal128(5, 2), "1.235", Decimal("1.24")),
    (pa.decimal128(38, 10), "12345678901234567890.5", Decimal("12345678901234567890.5")),
    (pa.binary(), '"aGk="', b"hi"),
    (pa.list_(pa.int64()), "[1,null,3]", [1, None, 3]),
    (INT8_STRUCT, '{"y":"b","z":1}', {"x": None, "y": "b"}),
    (pa.map_(pa.string(), pa.int64()), '{"k":1,"l":null}', [("k", 1), ("l", None)]),
    (pa.list_(pa.binary()), '["aGk=",null]', [b"hi", None]),
]


@pytest.mark.parametrize(("dtype", "text", "expected"), JSON_VALUES)
def test_json_values(dtype: pa.DataType, text: str, expected: Any) -> None:
    block = f'{{"a":{text}}}\n{{"a":null}}\n{{"b":1}}\n'.encode()
    assert values(json_of(dtype), block) == [expected, None, None]


@pytest.mark.parametrize(("dtype", "text", "expected"), JSON_VALUES)
def test_both_json_parsers_agree(dtype: pa.DataType, text: str, expected: Any) -> None:
    lines = json_of(dtype)
    block = f'{{"a":{text}}}\n{{"a":null}}\n'.encode()
    fast = lines._parse_fast(block) if lines._arrow_can else None
    if fast is not None:
        assert fast.equals(lines._parse_by_line(block))


def test_json_not_a_number() -> None:
    (value,) = values(json_of(pa.float64()), b'{"a":"NaN"}\n')
    assert value != value


@pytest.mark.parametrize(
    ("dtype", "text", "expected"),
    [
        (UTC, '"2024-05-06T07:08:09.123456Z"', datetime(2024, 5, 6, 7, 8, 9, 123456)),
        (UTC, '"2024-05-06T07:08:09+02:00"', datetime(2024, 5, 6, 5, 8, 9)),
        (UTC, '"2024-05-06 07:08:09"', datetime(2024, 5, 6, 5, 8, 9)),
        (UTC, "1714979289", datetime(2024, 5, 6, 7, 8, 9)),
    ],
)
def test_json_timestamps(dtype: pa.DataType, text: str, expected: datetime) -> None:
    block = f'{{"a":{text}}}\n{{"a":null}}\n'.encode()
    found = values(json_of(dtype, "Europe/Berlin"), block)
    assert found == [expected.replace(tzinfo=timezone.utc), None]


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("1767225600000", 1767225600000 * 1_000_000),
        ("-62198755200", -62198755200 * 1_000_000),
        ("9223372036854", 9223372036854 * 1_000_000),
        ("-9223372036854", -9223372036854 * 1_000_000),
        ("9223372036855", 9223372036855 * 1_000_000 - 2**64),
        ("9223372036854775807", -1_000_000),
    ],
)
def test_json_timestamps_of_any_number_of_seconds(text: str, micros: int) -> None:
    batch = good(json_of(UTC, "Europe/Berlin"), f'{{"a":{text}}}\n'.encode())
    assert batch.column(0).cast(pa.int64()).to_pylist() == [micros]


def test_json_dates_at_any_depth() -> None:
    dtype = pa.list_(pa.struct([("d", pa.date32()), ("t", pa.timestamp("us"))]))
    block = b'{"a":[{"d":"2024-02-29"},null,{"t":"2024-01-01T00:00:00"}]}\n{"a":null}\n{"a":[]}\n'
    assert values(json_of(dtype), block) == [
        [{"d": date(2024, 2, 29), "t": None}, None, {"d": None, "t": datetime(2024, 1, 1)}],
        None,
        [],
    ]


def test_json_lines_need_not_be_tidy() -> None:
    block = b'\n  {"a":1} \r\n\t\n[{"a":2},{"a":3}]\n{"a":4,"a":5}\r\n'
    assert values(json_of(pa.int64()), block) == [1, 2, 3, 5]
    assert values(json_of(pa.int64()), b"\n\n") == []


@pytest.mark.parametrize(
    ("dtype", "line", "reason"),
    [
        (pa.int64(), b'{"a":1', "Expecting"),
        (pa.int64(), b"null", "where an object is due"),
        (pa.int64(), b"7", "where an object is due"),
        (pa.int64(), b'{"a":1}{"a":2}', "Extra data"),
        (pa.int64(), b'{"a":1}null', "Extra data"),
        (pa.int64(), b'{"a":1.5}', "field a: 1.5 is not a whole number"),
        (pa.int64(), b'{"a":"1"}', 'field a: "1" is not a whole number'),
        (pa.int64(), b'{"a":9223372036854775808}', "is not a whole number"),
        (pa.int8(), b'{"a":128}', "from -128 to 127"),
        (pa.float64(), b'{"a":"x"}', "is not a number"),
        (pa.bool_(), b'{"a":1}', "is not true or false"),
        (pa.decimal128(3, 2), b'{"a":10}', "DECIMAL"),
        (pa.string(), b'{"a":"\xff"}', "utf-8"),
        (pa.binary(), b'{"a":"!"}', "Base64"),
        (pa.list_(pa.int64()), b'{"a":{}}', "is not an array"),
        (INT8_STRUCT, b'{"a":{"x":1000}}', "field a: field x: 1000"),
        (UTC, b'{"a":"yesterday"}', "yesterday"),
        (UTC, b'{"a":9223372036854775808}', "field a: 9223372036854775808 is not"),
        (pa.int64(), b"[" * 1_000, "nested too deeply"),
        (pa.string(), b'{"a":' + b"[" * 1_000 + b"]" * 1_000 + b"}", "nested too deeply"),
        (pa.date32(), b'{"a":""}', "is not text"),
    ],
)
def test_a_bad_json_line_is_found(dtype: pa.DataType, line: bytes, reason: str) -> None:
    good = b'{"a":null}\n'
    batch, (error,) = json_of(dtype).parse(good * 3 + line + b"\n" + good, at_start=True)
    assert re.search(reason, error.reason)
    assert (error.position, error.line) == (33, line)
    assert batch.num_rows == 4


def test_objects_that_span_lines_are_bad_even_if_the_counts_match() -> None:
    block = b'{"a":\n1}\n{"a":2}{"a":3}\n'
    _, errors = json_of(pa.int64()).parse(block, at_start=True)
    assert errors[0].position == 0


field_values = st.one_of(
    st.none(), st.integers(-(2**70), 2**70), st.floats(), st.text(), st.booleans(),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=2), st.none(), max_size=2),
)  # fmt: skip
objects = st.dictionaries(st.sampled_from(["a", "b", "c"]), field_values)


@settings(deadline=None)
@given(st.lists(st.one_of(objects, field_values), max_size=4))
def test_the_parsers_never_disagree(rows: list[Any]) -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.list_(pa.int64()))])
    lines = JsonLines(schema, "UTC")
    block = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    fast = lines._parse_fast(block)
    if fast is not None:
        assert fast.equals(lines._parse_by_line(block))


def csv_of(schema: pa.Schema, **options: Any) -> CsvLines:
    return CsvLines(
        schema, "UTC", **({"header": False, "delimiter": ",", "null_value": ""} | options)
    )


def test_csv_values() -> None:
    schema = pa.schema(
        [
            ("i", pa.int32()), ("f", pa.float64()), ("b", pa.bool_()), ("s", pa.string()),
            ("m", pa.decimal128(5, 2)), ("d", pa.date32()), ("t", UTC), ("x", pa.binary()),
        ]
    )  # fmt: skip
    block = (
        b'1,1.5,true,"a,""b""",1.2,2024-01-02,2024-01-02 03:04:05,raw\r\n'
        b",,,,,,,\n"
        b'\n-2,1e3,FALSE,"",12,1999-12-31,2024-01-02T03:04:05+01:00,""\n'
    )
    batch = good(csv_of(schema), block)
    assert batch.schema == schema
    assert batch.to_pylist() == [
        {
            "i": 1, "f": 1.5, "b": True, "s": 'a,"b"', "m": Decimal("1.20"),
            "d": date(2024, 1, 2), "t": datetime(2024, 1, 2, 3, 4, 5, tzinfo=timezone.utc),
            "x": b"raw",
        },
        dict.fromkeys(schema.names),
        {
            "i": -2, "f": 1000.0, "b": False, "s": "", "m": Decimal("12.00"),
            "d": date(1999, 12, 31), "t": datetime(2024, 1, 2, 2, 4, 5, tzinfo=timezone.utc),
            "x": b"",
        },
    ]  # fmt: skip


def test_csv_options() -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.string())])
    lines = csv_of(schema, header=True, delimiter=";", null_value="NA")
    block = b"a;b\nNA;x\n1;NA\n2;\n"
    assert good(lines, block).to_pylist() == [
        {"a": None, "b": "x"},
        {"a": 1, "b": None},
        {"a": 2, "b": None},
    ]
    assert good(lines, b"5;y\n", at_start=False).to_pylist() == [{"a": 5, "b": "y"}]
    assert good(lines, b"a;b\n").num_rows == 0


@pytest.mark.parametrize("line", [b"1", b"1,x,2", b"x,y", b"1.5,y", b'1,"y'])
def test_a_bad_csv_line_is_found(line: bytes) -> None:
    lines = csv_of(pa.schema([("a", pa.int64()), ("b", pa.string())]))
    batch, (error,) = lines.parse(b"1,x\n2,\n" + line + b"\n3,z\n", at_start=True)
    assert (error.position, error.line) == (7, line)
    assert batch.num_rows == 3


def test_csv_holds_no_nested_values() -> None:
    with pytest.raises(ConfigError, match="column a of type ARRAY<BIGINT>"):
        csv_of(pa.schema([("a", pa.list_(pa.int64()))]))


def test_text_lines() -> None:
    lines = TextLines(pa.schema([("value", pa.string())]))
    assert values(lines, "a\r\n\n ä \n".encode()) == ["a", "", " ä "]
    batch, (error,) = lines.parse(b"a\n\xff\n", at_start=True)
    assert error.position == 2
    assert batch.num_rows == 1


ID = pa.schema([("id", pa.int64())])


@pytest.mark.parametrize(
    ("lines", "line", "value"),
    [
        (TextLines(pa.schema([("value", pa.string())])), "\ufeffa", "a"),
        (JsonLines(ID, "UTC"), '\ufeff{"id":1}', 1),
        (csv_of(ID), "\ufeff1", 1),
        (csv_of(ID, header=True), "\ufeffid\n1", 1),
    ],
    ids=["text", "json", "csv", "header"],
)
def test_a_mark_of_the_byte_order_is_no_part_of_a_line(
    lines: LineFormat, line: str, value: object
) -> None:
    """As in Hadoop: at the beginning of a file."""
    assert good(lines, f"{line}\n".encode()).column(0).to_pylist() == [value]


@pytest.mark.parametrize("at", [0, 1])
def test_positions_count_a_mark_of_the_byte_order(at: int) -> None:
    parts = ['{"id":1}', '{"id":1}']
    parts[at] = "bad"
    block = ("\ufeff" + "\n".join(parts) + "\n").encode()
    _, (error,) = JsonLines(ID, "UTC").parse(block, at_start=True)
    assert (error.position, error.line) == (block.index(b"bad"), b"bad")


def test_a_mark_of_the_byte_order_elsewhere_is_text() -> None:
    lines = TextLines(pa.schema([("value", pa.string())]))
    block = "\ufeffa\n".encode()
    assert good(lines, block, at_start=False).column(0).to_pylist() == ["\ufeffa"]
    assert good(lines, block * 2).column(0).to_pylist() == ["a", "\ufeffa"]


def test_columns_that_nobody_asks_for_are_not_parsed() -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.float64())])
    rows = good(JsonLines(schema, "UTC").prune(["c"]), b'{"a":"no number","c":2.5}\n')
    assert rows.to_pydict() == {"c": [2.5]}
    lines = CsvLines(schema, "UTC", header=True, delimiter=",", null_value="-")
    block = b"a,b,c\nno number,-,1\n7,x,\n"
    assert good(lines.prune(["b"]).prune(["b"]), block).to_pydict() == {"b": [None, "x"]}
    assert good(lines.prune(["c", "b"]), block).to_pydict() == {
        "c": [1.0, None],
        "b": [None, "x"],
    }
