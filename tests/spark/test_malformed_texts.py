"""Texts that are no UTF-8: each function gives what Spark gives, or raises what Spark raises.

No text here ends in the middle of a character: for such Spark's ``substring``, ``lpad``, ``rpad``
and ``levenshtein`` read the memory behind it. Those for which that does not matter get them, too.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.spark.expressions import assert_parity

pytestmark = pytest.mark.spark

_WHOLE = [
    b"", b"abc", "é😀b".encode(), b"\xff", b"a\x80b", b"a\xe2\x82,b c1", b"\xf0\x9f\x98abc ",
    b"  \xed\xa0\x80 x  ", b"\xc0\x80ab", b"\xf5\x80\x80\x80,a", b"12\xff", b"caf\xc3\xa9\xc3 a",
    b"'a\xf8'b", b"a=1&b=\xff,x", "\ufffdab".encode(), b"aAbB\xe9Zz",
    b"\xce\xa3\xce\x91 \xff\xce\xa3", b"aa\xf0aaa", b"2024-02-29 \xff12", b"true\xff", None,
]  # fmt: skip
_CUT = [b"\xe2\x82", b"a\xf0\x9f\x98", b"abc\xc3", b"\xed\xa0", b" \xe2", b"aa\xf0aa"]
_PARTS = [b"a", b"\x80", b"\xff", b" ", b"", b"\xc3", "é".encode()]
_JSON = [
    b'{"a": "\xff\xed\xa0\x80x", "b": [1, "\xc3"]}', b'{"a\xff": 1, "a": "\xe2\x82"}',
    b'{"a": 1\xff}', b'[1, "\xf0\x9f\x98", 2]', b'["\xc0\x80"]', b'\xff{"a": 1}', b'{"a": 1}\xff',
    b'{"a": "\xed\xa0', b"{}",
]  # fmt: skip
_URLS = [b"http://h/\xff?q=\xe9x&a=1", b"http://\xff/", b"http://h/?a=%41\x80", b"http://h/?a=1"]

_OF_CHARACTERS = [
    *("length(s)", "substring(s, 2, 3)", "substring(s, n, 2)", "substring(s, -3)", "left(s, n)"),
    *("right(s, 2)", "lpad(s, 8, c)", "rpad(s, n * 4, '*')", "overlay(s placing c from n)"),
    *("levenshtein(s, 'abc')", "levenshtein(s, 'a', 2)", "repeat(s, 2)"),
]
_OTHERS = {
    "case": [
        *("upper(s)", "lower(s)", "initcap(s)", "upper(c)"),
    ],
    "characters": [
        *("char_length(s)", "reverse(s)", "ascii(s)", "split(s, '')", "split(s, '', 2)"),
        *("instr(s, c)", "instr(s, 'a')", "locate(c, s)", "locate(c, s, n)", "position(c, s)"),
        *("substring(s, 2)", "trim(c FROM s)", "ltrim(c, s)", "rtrim(c, s)"),
        "trim(cast(X'ff80' as string) FROM s)",
    ],
    "octets": [
        *("octet_length(s)", "trim(s)", "replace(s, c, 'x')", "replace(s, 'a', c)", "s || c"),
        *("replace(s, cast(X'80' as string), 'x')", "concat_ws(c, s, s)"),
        *("substring_index(s, c, 1)", "concat_ws(',', array(s, c), s)", "find_in_set(c, s)"),
        *("startswith(s, c)", "contains(s, c)", "endswith(s, c)", "contains(s, '\ufffd')"),
        *("soundex(s)", "hex(s)", "md5(s)", "hash(s)", "xxhash64(s)", "crc32(s)", "base64(s)"),
        *("s = c", "s < c", "s in (c, 'abc')", "elt(n, s, c)", "greatest(s, c)"),
        *("cast(s as binary)", "is_valid_utf8(s)", "make_valid_utf8(s)", "try_validate_utf8(s)"),
    ],
    "java": [
        *("mask(s)", "mask(s, cast(X'ff' as string))", "translate(s, 'a\ufffd', 'xy')"),
        *("quote(s)", "translate(s, c, 'x')", "luhn_check(s)", "printf('%s|%5S', s, c)"),
        *(
            "unbase64(s)",
            "unbase64(s || 'ab==c')",
            "encode(s, 'UTF-8')",
            "encode(s, 'UTF-16')",
            "encode(s, 'US-ASCII')",
        ),
        *("url_encode(s)", "split_part(s, 'a', 1)", "split_part(s, c, 1)"),
        *(
            "try_cast(cast(x'ffba' as string) as date)",
            "split_part(s, '', 1)",
            "url_decode(s)",
            "str_to_map(s, '&', '=')",
        ),
        "to_binary(s, 'utf-8')",
    ],
    "patterns": [
        *("s like '_%'", "s like '__b'", "s like '%a%b'", "s like '%\ufffd%'"),
        *("s like '_\ufffd%'", "s like 'aa%aa'", "s like any ('aa%aa', '_')"),
        *("s like cast(X'25ff25' as string)", "s ilike 'A%'", "s rlike '^.$'"),
        *("s rlike '\ufffd'", "s rlike 'a.b'", "split(s, 'a')", "s rlike cast(X'ff' as string)"),
        *("regexp_replace(s, 'zz', '?')", "regexp_instr(s, '\ufffd')"),
        *("regexp_replace(s, '[a-z]', '?')", "regexp_extract(s, '.$', 0)"),
        *("regexp_count(s, '.')", "regexp_replace(s, 'a', cast(X'ff' as string))"),
        "regexp_extract_all(s, '.', 0)",
    ],
    "times": [
        *("next_day(dt, s)", "to_timestamp(s, 'yyyy-MM-dd')", "try_to_timestamp(s, 'yyyy')"),
        *("from_utc_timestamp(cast(dt as timestamp), s)", "unix_timestamp(s, 'yyyy-MM-dd')"),
        "date_format(dt, cast(X'27ff2779' as string))",
    ],
    "collections": [
        *("array_join(array(s, c), c)", "array_contains(array(s, 'x'), c)"),
        *("sort_array(array(s, c))", "map(c, 1, s, 2)", "element_at(map('x', s), 'x')"),
        *("transform(array(s), x -> lower(x))", "array_distinct(array(s, c, s))"),
        "concat_ws('-', array(s, null))",
    ],
    "to_json": [
        *("to_json(named_struct('a', s))", "to_json(array(s))", "to_json(map(1, s))"),
    ],
    "raising": [
        *("unhex(s)", "validate_utf8(s)", "raise_error(s)", "to_timestamp(s, 'yyyy-MM-dd')"),
        *("next_day(dt, s)", "element_at(map('x', s), 'x')"),
    ],
    "casts": [
        f"{how}(s as {target})"
        for how in ("cast", "try_cast")
        for target in (
            *("tinyint", "bigint", "float", "double", "decimal(8,2)", "boolean"),
            *("date", "timestamp", "timestamp_ntz"),
        )
    ],
    "nested casts": ["cast(array(s, c) as string)", "cast(map(1, s) as string)"],
}


def _texts(values: Sequence[bytes | None]) -> pa.Array:
    return pa.array(values, pa.binary()).cast(pa.string(), safe=False)


def _table(values: Sequence[bytes | None]) -> pa.Table:
    rows = len(values)
    parts = [_PARTS[row % len(_PARTS)] for row in range(rows)]
    return pa.table(
        {
            "s": _texts(values),
            "c": _texts(parts),
            "n": pa.array([row % 5 - 1 for row in range(rows)], pa.int32()),
            "dt": pa.array(range(rows), pa.int32()).cast(pa.date32()),
        }
    )


def test_functions_of_characters(spark: SparkSession) -> None:
    assert_parity(spark, _table(_WHOLE), _OF_CHARACTERS, ansi=[True])


@pytest.mark.parametrize("kind", _OTHERS)
def test_functions(spark: SparkSession, kind: str) -> None:
    assert_parity(spark, _table([*_WHOLE, *_CUT]), _OTHERS[kind])


def test_json(spark: SparkSession) -> None:
    paths = [f"get_json_object(s, '{path}')" for path in ("$.a", "$", "$[1]", "$.b[1]")]
    schemas = ["a string, b string", "a int", "map<string,string>", "array<string>"]
    records = [f"from_json(s, '{schema}')" for schema in schemas]
    outlines = ["json_array_length(s)", "json_object_keys(s)"]
    assert_parity(spark, _table([*_JSON, *_CUT]), [*paths, *records, *outlines], ansi=[True])


def test_corrupt_records(spark: SparkSession) -> None:
    """The column has the bytes of a JSON text, and of a CSV text what Java has read."""
    expressions = [
        f"{reader}(s, '{schema}', map('mode', 'PERMISSIVE'))"
        for reader in ("from_json", "from_csv")
        for schema in ("a int, _corrupt_record string", "a float, _corrupt_record string")
    ]
    assert_parity(spark, _table([*_JSON, *_WHOLE, *_CUT]), expressions, ansi=[True])


def test_urls(spark: SparkSession) -> None:
    parts = [f"try_parse_url(s, '{part}')" for part in ("HOST", "PATH", "QUERY")]
    more = ["parse_url(s, 'QUERY', 'a')", "try_url_decode(s)"]
    assert_parity(spark, _table([*_URLS, *_CUT]), [*parts, *more], ansi=[True])
