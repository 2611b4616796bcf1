"""Java's properties, as ``java.util.Properties`` documents them."""

from __future__ import annotations

import pytest

from airflow_provider_continuous.deploy.java_properties import read, written


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1\nb:2\rc 3\r\nd\t=\t4", {"a": "1", "b": "2", "c": "3", "d": "4"}),
        ("# a=1\n  ! b=2\n\n \t\n c=3 ", {"c": "3"}),
        ("a=1,\\\n   2,\\\n   3\nb=4", {"a": "1,2,3", "b": "4"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=1\\\n#b=2", {"a": "1#b=2"}),
        ("a=1\\", {"a": "1"}),
        ("a\\ b\\=c=d=e", {"a b=c": "d=e"}),
        ("a=\\u0047r\\u00f6\\uD83D\\uDE00\\tx\\q", {"a": "Grö😀\txq"}),
        ("a\nb=\n=c", {"a": "", "b": "", "": "c"}),
        ("a=1\na=2", {"a": "2"}),
    ],
)
def test_what_is_read(text: str, expected: dict[str, str]) -> None:
    assert read(text) == expected


def test_what_is_written_is_read() -> None:
    odd = {"spark.a b": "x=#!:\\ y\n\\u0041 'ö' 😀", "=": "", "#no": "comment\\"}

    assert read(written(odd)) == odd
