"""CSV as Spark has it. The pairs are what Spark 4.2 made of the lines."""

from __future__ import annotations

import pytest

from engine.sources.files.csv_dialect import CsvDialect

BACKSLASH = CsvDialect(",", "\\")


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("", [None]),
        ("a,,b", ["a", None, "b"]),
        ('"say \\"hi\\", ok",2', ['say "hi", ok', "2"]),
        ('"a\\\\"', ["a\\"]),
        ('"a\\b"', ["a\\b"]),
        ('\\"a\\",x"y', ['\\"a\\"', 'x"y']),
        ('"a"  ,b', ["a", "b"]),
        ('"x""y",z', ['"x""y"', "z"]),
        ('"not, closed', ["not, closed"]),
        ('"not closed\\', ["not closed"]),
        ('a,"', ["a", '"']),
        ('"",', [None, None]),
    ],
)
def test_values_are_sparks(line: str, values: list[str | None]) -> None:
    assert BACKSLASH.values(line) == values


def test_a_quote_may_be_its_own_escape() -> None:
    assert CsvDialect(";", '"').values('"x""y;";\\') == ['x"y;', "\\"]


def test_what_stands_for_null_does_so_in_quotes_too() -> None:
    dialect = CsvDialect(",", "\\", "NA")
    assert dialect.values('"NA",NA,"",') == [None, None, "", None]
    assert dialect(b'1,"NA",""\n') == b'"1",NA,""\n'


def test_lines_of_a_block_stay_lines() -> None:
    block = b'1,"plain"\r\n2,"a \\"b\\" \xff"\n3,\\\n""\n'
    assert BACKSLASH(block) == b'1,"plain"\r\n"2","a ""b"" \xff"\n3,\\\n""\n'


def test_what_both_understand_alike_is_left_as_it_is() -> None:
    block = b'1,"a b"\n2,c\\d\n'
    assert BACKSLASH(block) is block
