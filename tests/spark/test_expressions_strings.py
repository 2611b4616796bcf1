"""Texts, binaries and digests are Spark's."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.spark.expressions import assert_parity

pytestmark = pytest.mark.spark

_TEXTS = [
    "", "a", "abc", "ABC def", "  pad ", "\tx\n", "héllo wörld", "ß", "ΑΣ ΣΑΣ", "İi", "ǆx", "ﬁ",
    "😀a😀", "e\u0301x", "a.b.c", "aaa", "..", "a,b,,c", "abab", "1234", "日本語", "x\u00a0", "Å1",
    "Robert", "Tymczak", "O'Hara", "\u0000z", "aXbXc", "$1\\2", "\u1c8a\ua7cb\U00010d70", "aΣ.b",
    "ŉa ΌΣΟΣ.", None,
]  # fmt: skip
_PARTS = ["", "a", ".", "ab", "é", "😀", "zz", None, "aa", "ΑΣ", "  ", "X"]
_NUMBERS = [0, 1, -1, 2, -2, 3, -3, 100, -100, 2147483647, -2147483648, None]


def _table() -> pa.Table:
    """Every text with a few parts and numbers: neighbours differ in all of them."""
    texts = [text for text in _TEXTS for _ in range(5)]
    take = len(texts)
    parts = list(itertools.islice(itertools.cycle(_PARTS), take))
    others = list(itertools.islice(itertools.cycle([*_PARTS[3:], "c", "b"]), take))
    numbers = list(itertools.islice(itertools.cycle(_NUMBERS), take))
    small = list(itertools.islice(itertools.cycle([1, 2, -1, 0, 3, -3, 7, 12, None]), take))
    return pa.table(
        {
            "s": texts,
            "t": parts,
            "u": others,
            "b": pa.array([None if text is None else text.encode() for text in texts], pa.binary()),
            "i": pa.array(numbers, pa.int32()),
            "n": pa.array(small, pa.int32()),
            "l": pa.array(numbers, pa.int64()),
        }
    )


_WHOLE = [
    "upper(s)", "lower(s)", "ucase(s)", "lcase(t)", "initcap(s)", "initcap(concat(s, ' ', t))",
    "length(s)", "char_length(s)", "length(b)", "octet_length(s)", "octet_length(b)",
    "bit_length(s)", "concat(s, t)", "s || t || u", "concat(s)", "concat()", "concat(b, b)",
    "concat(s, i)", "concat_ws(t, s, u)", "concat_ws(',', s, null, u)", "concat_ws(',')",
    "concat_ws(t)", "concat_ws('-', split(s, ''), u)",
    "trim(s)", "ltrim(s)", "rtrim(s)", "btrim(s)", "btrim(s, t)", "ltrim(t, s)", "rtrim(t, s)",
    "trim('a' from s)", "trim('' from s)", "trim(leading 'aX' from s)",
    "lpad(s, n, t)", "rpad(s, n, t)", "lpad(s, 5)", "rpad(s, 5, 'xy')", "lpad(s, -3, 'x')",
    "repeat(s, n)", "repeat(s, 3)", "repeat(s, 0)", "space(n)", "space(2)", "reverse(s)",
    "replace(s, t)", "replace(s, t, u)", "replace(s, 'a', 'b')", "replace(s, '', 'b')",
    "replace(s, 'a', null)", "translate(s, t, u)", "translate(s, 'abc', 'x')",
    "translate(s, 'a😀', 'é')", "translate(s, 'aa', 'xy')",
]  # fmt: skip
_PARTIAL = [
    "substring(s, i, n)", "substring(s, 2)", "substring(s, 2, 2)", "substring(s, 0, 2)",
    "substring(s, -2)", "substring(s, -2, 1)", "substring(s, -5, 3)", "substring(s, -5, 7)",
    "substring(s, 3, -1)", "substring(s, 3, 0)", "substring(s, n)", "substring(b, n, 2)",
    "substring(s, 1, n)", "substring(s, -2147483648, 5)", "substring(s, 2147483647, 5)",
    "substring(s, null, 2)", "substr(s, n, 1)", "left(s, 2)", "left(s, n)", "right(s, 2)",
    "right(s, n)", "right(s, 0)", "left(b, 2)",
    "substring_index(s, t, n)", "substring_index(s, '.', 2)", "substring_index(s, '.', -1)",
    "substring_index('aaaa', 'aa', 2)", "substring_index('aaaa', 'aa', -2)",
    "instr(s, t)", "instr(s, '')", "locate(t, s)", "locate(t, s, n)", "locate('a', s, 2)",
    "locate('', s, 3)", "locate(t, s, null)", "position(t in s)", "find_in_set(t, s)",
    "startswith(s, t)", "endswith(s, t)", "contains(s, t)", "startswith(s, 'a')",
    "endswith(s, 'c')", "contains(s, 'b')", "contains(s, '')", "startswith(s, null)",
    "ascii(s)", "chr(l)", "chr(n)", "char(65)", "split_part(s, '.', nullif(n, 0))",
    "split_part(s, t, 1)", "split_part(s, ',', -1)", "split_part(s, '', 1)",
    "split_part(s, t, int(-2147483648))",
    "overlay(s, t, n, 1)", "overlay(s placing t from 2)", "overlay(s placing t from 2 for 0)",
    "overlay(s, t, n)", "overlay(s, t, 2147483647, 5)", "overlay(b, b, 2)",
    "soundex(s)", "levenshtein(s, t)", "levenshtein(s, t, 2)", "elt(1, s, t)", "elt(2, s, t)",
]  # fmt: skip
_PATTERNS = [
    r"regexp_extract(s, '([a-z])(\\d)?', 1)", r"regexp_extract(s, '([a-z])(\\d)?', 2)",
    "regexp_extract(s, 'b', 0)", "regexp_extract(s, null, 0)", "regexp_replace(s, 'a', '<$0>')",
    "regexp_replace(s, '([a-z])([A-Z])', '$2$1')", r"regexp_replace(s, '(?<q>a)', '\\$x')",
    "regexp_replace(s, '(a)', '$12')", "regexp_replace(s, 'b', '')",
    "regexp_replace(s, 'a', null)", "regexp_count(s, 'a')", "regexp_substr(s, 'b.')",
    "regexp_instr(s, 'a')", "regexp_extract_all(s, '[ab]', 0)",
    "regexp_extract_all(s, '([ab])(c)?', 2)", r"split(s, '\\.')", "split(s, '[,.]')",
    "split(s, '')", "split(s, '', 2)", "split(s, '', n)", "split(s, '[ab]', 2)",
    "split(s, 'a', n)", "split(s, 'b+', 0)", "split(s, '(?i)A')", "regexp_like(s, '^a.*c$')",
]  # fmt: skip
_BYTES = [
    "base64(b)", "base64(s)", "base64(repeat(s, 40))", "hex(s)", "hex(b)", "hex(l)", "hex(i)",
    "unhex(s)", "unhex(hex(s))", "encode(s, 'utf-8')", "decode(b, 'UTF-8')", "md5(s)", "sha1(s)",
    "sha(b)", "sha2(s, 256)", "sha2(s, 0)", "sha2(s, 224)", "sha2(s, 384)", "sha2(s, 512)",
    "sha2(s, n)", "crc32(s)", "unbase64(base64(s))",
]  # fmt: skip


@pytest.mark.parametrize(
    "expressions", [_WHOLE, _PARTIAL, _PATTERNS, _BYTES], ids=["whole", "part", "regex", "bytes"]
)
def test_texts(spark: SparkSession, expressions: list[str]) -> None:
    assert_parity(spark, _table(), expressions)


def test_case_of_every_character(spark: SparkSession) -> None:
    points = [code for code in range(0x110000) if not 0xD800 <= code <= 0xDFFF]
    step = 64
    texts = [
        "".join(f"{chr(code)} a{chr(code)}b" for code in points[start : start + step])
        for start in range(0, len(points), step)
    ]
    expressions = ["upper(s)", "lower(s)", "initcap(s)"]
    assert_parity(spark, pa.table({"s": texts}), expressions, ansi=[True])


def test_texts_that_cannot_be_decoded(spark: SparkSession) -> None:
    texts = [
        "a", "ab", "ab=", "ab==", "abc", "abc=", "abcd", "=", "a=", "abcd=", "ab=c", "ab= =",
        "ab==x", "YW\nJj", "é", "YWJj====", "", "abé==", "éab==c", "😀ab=-=c",
        None,
    ]  # fmt: skip
    table = pa.table(
        {
            "s": texts,
            "n": pa.array([0, 1, 2, 3, -1, 5, -5, *range(12), None, 9], pa.int32()),
            "b": [b"\xff", b"\xc3\xa9", b"\xed\xa0\x80", b"\xc0\x80", b"", None, *[b"z"] * 15],
        }
    )
    expressions = ["unbase64(s)", "decode(b, 'utf-8')", "hex(b)"]
    assert_parity(spark, table, expressions)


def test_positions_out_of_range(spark: SparkSession) -> None:
    table = pa.table(
        {"s": ["a=b", "", "=", None], "n": pa.array([0, 1, 3, -1], pa.int32())},
    )
    expressions = [
        "split_part(s, '=', n)", "elt(n, s, 'x')", "elt(n, s)", "elt(n, s, string(1 div (n - 1)))",
        "split_part(s, '=', 0)",
    ]  # fmt: skip
    assert_parity(spark, table, expressions)


def test_exponents_of_the_least_numbers(spark: SparkSession) -> None:
    table = pa.table({"d": [5e-324, -5e-324, 2.2250738585072014e-308, 1e22, 123.0, 0.0, None]})
    assert_parity(spark, table, ["format_string('%e %.1e %.2f', d, d, d)", "printf('%.0e', d)"])
