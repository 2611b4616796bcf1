"""Positions, lengths and counts at the ends of INT, where Java's arithmetic wraps around in one
release of Spark and not in the next: ``make test-spark-matrix`` runs this on each."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.spark.expressions import assert_parity

pytestmark = pytest.mark.spark

_LEAST, _MOST = -(2**31), 2**31 - 1
_EDGES = [_LEAST, _LEAST + 1, _LEAST + 3, -5, -1, 0, 1, 2, 3, 5, _MOST - 2, _MOST - 1, _MOST]
_TEXTS = ["", "a.b.c", "ab\U0001f600"]
_BYTES_MAX = 10**6

_OF_ONE = [
    *("substring(s, i)", "left(s, i)", "right(s, i)", "left(b, i)", "right(b, i)"),
    *("substring_index(s, '.', i)", "locate('b', s, i)", "split_part(s, '.', i)"),
    *("overlay(s placing '' from i)", "overlay(s placing '_' from i)"),
    *("lpad(s, if(i > 100, 3, i), 'xy')", "rpad(s, if(i > 100, 3, i), 'xy')"),
    *("lpad(s, if(i > 100, 3, i), '')", "rpad(b, if(i < -9, -9, if(i > 9, 9, i)), X'0102')"),
    *("repeat(s, if(i > 100, 3, i))", "space(if(i > 100, 3, i))", "levenshtein(s, 'abc', i)"),
    *("split(s, '', i)", "split(s, 'b', i)", "regexp_extract(s, '(a)(b)', i)"),
    *("format_number(12345.678D, if(i > 100, 3, i))", "chr(i)", "bin(i)", "hex(i)", "elt(i, s)"),
    *("element_at(array(1, 2), coalesce(i, 1))", "try_element_at(array(1, 2), i)"),
    *("get(array(1, 2), i)", "array_repeat(1, if(i > 100, 3, i))"),
    *("array_insert(array(1, 2), if(abs(i % 9) = i, i, 3), 7)", "factorial(i)"),
    "width_bucket(1.5, 0, 9, i)",
    *("date_add(DATE'2020-01-01', i)", "add_months(DATE'2020-01-01', i)", "make_date(i, 1, 1)"),
    *("shiftleft(1, i)", "shiftrightunsigned(-1, i)", "bit_get(5L, i)", "abs(i)", "-i"),
]  # fmt: skip
_OF_TWO = [
    *("substring(s, i, n)", "overlay(s placing '12345' from i for n)", "conv(s, i, n)"),
    *("slice(array(1, 2, 3), i, n)", "pmod(i, n)", "i div n", "i % n", "i + n", "i * n"),
]
_OF_BYTES = [
    *("substring(b, i, n)", "overlay(b placing X'0102' from i for n)"),
    *("substring(b, i)", "overlay(b placing X'' from i)"),
]


def test_of_one_number(spark: SparkSession) -> None:
    rows = [(text, i, 0) for text, i in product(_TEXTS, _EDGES)]
    assert_parity(spark, _table(rows), _OF_ONE)


def test_of_two_numbers(spark: SparkSession) -> None:
    assert_parity(spark, _table(list(product(_TEXTS, _EDGES, _EDGES))), _OF_TWO)


def test_of_bytes(spark: SparkSession) -> None:
    rows = [row for row in product(_TEXTS, _EDGES, _EDGES) if _fits(*row)]
    assert_parity(spark, _table(rows), _OF_BYTES)


def test_counterparts_of_u_0000(spark: SparkSession) -> None:
    texts = ["translate(s, 'ab', char(0))", "translate(s, concat('b', s), concat(char(0), s))"]
    assert_parity(spark, _table([(text, 0, 0) for text in _TEXTS]), texts)


def _table(rows: Sequence[tuple[str, int, int]]) -> pa.Table:
    texts, i, n = zip(*rows, strict=True)
    data = [text.encode() for text in texts]
    ints = {"i": pa.array(i, pa.int32()), "n": pa.array(n, pa.int32())}
    return pa.table({"s": texts, "b": data, **ints})


def _fits(text: str, position: int, length: int) -> bool:
    """Where the end wraps around, Spark has filled up to 2 GiB with zeros."""
    size = len(text.encode())
    start = position - 1 if position > 0 else size + position if position < 0 else 0
    for end in (start + length, start + _MOST):
        wrapped = (end - _LEAST) % 2**32 + _LEAST
        if wrapped - max(start, 0) > _BYTES_MAX:
            return (size - start - _LEAST) % 2**32 + _LEAST < length
    return True
