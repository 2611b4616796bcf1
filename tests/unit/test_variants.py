"""VARIANT in bytes, as its format has it; what no text says that Spark is asked about."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from engine.base.connector_options import Options
from engine.errors import ConfigError, TransformError
from engine.expressions.times.zones import zone
from engine.expressions.types import (
    VARIANT,
    has_variant,
    is_variant,
    schema_to_spark,
    sql_name,
    to_spark,
)
from engine.expressions.variants import building, encoding
from engine.expressions.variants.casting import copied
from engine.expressions.variants.columns import array_of
from engine.expressions.variants.parse_json import octets_of_json
from engine.expressions.variants.paths import parse_path
from engine.expressions.variants.reading import Metadata, Variant
from engine.expressions.variants.variant_texts import json_of
from engine.sinks.delta.schemas import Rows
from engine.sinks.files.csv_format import CsvFormat
from engine.sinks.files.file_formats import JsonFormat, ParquetFormat
from engine.sinks.pyspark_rows import rows_of
from engine.sinks.shown_texts import shown_texts

_NO_NAMES = b"\x01\x00\x00"


def _parsed(text: str, keeps_last: bool = False) -> tuple[bytes, bytes]:
    return octets_of_json(text, keeps_last, validates=True)


def _variant(value: bytes, metadata: bytes = _NO_NAMES) -> Variant:
    return Variant.of(value, Metadata(metadata))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("null", "00"),
        ("true", "04"),
        ("false", "08"),
        ("-1", "0cff"),
        ("128", "108000"),
        ("-32769", "14ff7fffff"),
        ("2147483648", "180000008000000000"),
        ("9223372036854775808", "28" "00" "0000000000000080" "0000000000000000"),
        ("1.50", "200296000000"),
        ("-0.0", "200100000000"),
        ("12345678.901", "2403" "351cdcdf02000000"),
        ("1e0", "1c000000000000f03f"),
        ('"é"', "09c3a9"),
        ("[]", "030000"),
        ("[1, [2]]", "0302000208" "0c01" "030100020c02"),
        ("{}", "020000"),
    ],
)  # fmt: skip
def test_a_value_has_the_bytes_of_its_format(text: str, value: str) -> None:
    assert _parsed(text) == (bytes.fromhex(value), _NO_NAMES)


def test_an_object_has_its_names_in_order_and_its_values_as_they_came() -> None:
    value, metadata = _parsed('{"b": 1, "a": true}')
    assert metadata == b"\x01\x02\x00\x01\x02ba"
    assert value == bytes.fromhex("020201000200030c0104")


def test_names_are_in_the_order_of_utf_16() -> None:
    value, _ = _parsed('{"\\uffff": 1, "\\ud800\\udc00": 2}')
    assert list(value[2:4]) == [1, 0]


def test_a_long_text_has_its_size_in_four_bytes() -> None:
    assert _parsed('"%s"' % ("x" * 64))[0] == b"\x40\x40\x00\x00\x00" + b"x" * 64


def test_a_large_array_has_wide_numbers() -> None:
    value, _ = _parsed(f"[{','.join(['1'] * 300)}]")
    assert value[:9] == bytes.fromhex("172c01000000000200")


def test_of_a_name_that_occurs_twice_the_last_value_is_kept() -> None:
    text = '{"a": 1, "b": {"x": 1}, "a": [7], "b": "z"}'
    value, metadata = _parsed(text, keeps_last=True)
    assert metadata == b"\x01\x03\x00\x01\x02\x03abx"
    assert json_of(_variant(value, metadata), zone("UTC")) == '{"a":[7],"b":"z"}'
    assert value.endswith(bytes.fromhex("030100020c07057a"))
    with pytest.raises(TransformError, match="MALFORMED_RECORD_IN_PARSING"):
        _parsed(text)


def test_values_are_as_deep_as_jackson_lets_them_be() -> None:
    value, metadata = _parsed("[" * 1000 + "]" * 1000)
    deepest = _variant(value, metadata)
    assert json_of(deepest, zone("UTC")) == "[" * 1000 + "]" * 1000
    assert copied(deepest) == (value, metadata)
    with pytest.raises(TransformError, match="MALFORMED_RECORD_IN_PARSING"):
        _parsed("[" * 1001 + "]" * 1001)


@pytest.mark.parametrize("name", ["n" * 50_001, "\U00010000" * 25_001])
def test_names_are_as_long_as_jackson_lets_them_be(name: str) -> None:
    assert _parsed(json.dumps({name[:-1]: 1}, ensure_ascii=False))
    with pytest.raises(TransformError, match="MALFORMED_RECORD_IN_PARSING"):
        _parsed(json.dumps({name: 1}, ensure_ascii=False))


def test_there_is_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert encoding.SIZE_MAX == 1 << 27
    monkeypatch.setattr(building, "SIZE_MAX", 16)
    assert len(_parsed('"%s"' % ("x" * 15))[0]) == 16
    for text in ('"%s"' % ("x" * 16), "[1, 1, 1, 1, 1]", '{"%s": 1}' % ("n" * 13)):
        with pytest.raises(TransformError, match=r"\[VARIANT_SIZE_LIMIT\]"):
            _parsed(text)


@pytest.mark.parametrize(
    "value", ["", "0c", "14ff", "0941", "40ff0000", "0201000001", "4000000080"]
)
def test_malformed_values_are_told(value: str) -> None:
    with pytest.raises(TransformError, match=r"\[MALFORMED_VARIANT\]"):
        json_of(_variant(bytes.fromhex(value)), zone("UTC"))


@pytest.mark.parametrize("metadata", ["", "02", "00"])
def test_metadata_of_another_version_is_told(metadata: str) -> None:
    with pytest.raises(TransformError, match=r"\[MALFORMED_VARIANT\]"):
        Metadata(bytes.fromhex(metadata))


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("$", ()),
        ("$.a.b[1]", ("a", "b", 1)),
        ("$['a b'][\"c'\"]", ("a b", "c'")),
        ("$.a]b c", ("a]b c",)),
        ("$['']", ("",)),
        ("$[007]", (7,)),
        *((each, None) for each in ("", "a", "$a", "$.", "$..a", "$[", "$[-1]", "$['a", "$[x]")),
        ("$[2147483648]", None),
    ],
)
def test_paths(text: str, path: tuple[str | int, ...] | None) -> None:
    assert parse_path(text) == path


def test_a_struct_with_such_fields_is_no_variant() -> None:
    other = pa.struct([pa.field(f.name, f.type, f.nullable) for f in VARIANT])
    assert other == VARIANT, "Arrow does not look at metadata"
    assert is_variant(VARIANT)
    assert not is_variant(other)
    assert (to_spark(VARIANT), sql_name(VARIANT)) == ("variant", "VARIANT")
    assert sql_name(other) == "STRUCT<value: BINARY NOT NULL, metadata: BINARY NOT NULL>"
    assert has_variant(pa.map_(pa.string(), pa.list_(VARIANT)))
    assert not has_variant(other)


_ROWS = pa.RecordBatch.from_arrays(
    [array_of([_parsed('{"a": "x"}'), None])], schema=pa.schema([("v", VARIANT)])
)


def test_a_sink_of_rows_gets_what_pyspark_gives() -> None:
    known, missing = rows_of(_ROWS)
    assert known.v.toJson() == '{"a":"x"}'
    assert missing.v is None


def test_it_is_shown_as_json() -> None:
    assert shown_texts(_ROWS.column(0), "Europe/Berlin") == ['{"a":"x"}', "NULL"]


@pytest.mark.parametrize("kind", [ParquetFormat, CsvFormat])
def test_files_that_cannot_hold_it_say_so(kind: type[ParquetFormat] | type[CsvFormat]) -> None:
    with pytest.raises(ConfigError, match="cannot hold the column v of type VARIANT"):
        kind(Options("sink files", {})).check(_ROWS.schema)


def test_json_files_hold_it() -> None:
    json_lines = JsonFormat(Options("sink files", {}))
    json_lines.check(_ROWS.schema)
    assert json_lines.lines(pa.Table.from_batches([_ROWS])) == ['{"v":{"a":"x"}}', "{}"]


def test_delta_does_not_hold_it() -> None:
    with pytest.raises(ConfigError, match=r"Delta cannot hold the column v.*variant"):
        Rows.of(schema_to_spark(_ROWS.schema), [], adds_columns=False)
