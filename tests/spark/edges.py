"""Input columns full of edge values, for comparisons with Spark."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

NAN, INF = float("nan"), float("inf")


def integers(bits: int) -> list[int | None]:
    """Around zero, and both ends of the range."""
    top = 2 ** (bits - 1) - 1
    return [0, 1, -1, 2, -2, 7, -7, 10, top, top - 1, -top - 1, -top, None]


DOUBLES: list[float | None] = [
    *(0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -3.5, 1e300, -1e300, 4.9e-324, 1.7976931348623157e308),
    *(NAN, INF, -INF, 123456789.125, None),
]
TEXTS: list[str | None] = [
    *(
        "",
        " ",
        "a",
        "A",
        "ab",
        "abc",
        "aXc",
        "%",
        "_",
        "a%c",
        "a\nb",
        "a\r\n",
        "\\",
        "é",
        "😀",
        "a😀c",
    ),
    *("10", "\x00", None),
]
DECIMALS: list[Decimal | None] = [
    *map(
        Decimal, ("0", "1.5", "-1.5", "0.01", "-0.01", "99999999.99", "-99999999.99", "3", "7.25")
    ),
    None,
]


SURROGATES = ["\uffff", "😀", "", "a"]
"""In UTF-16 the first is larger than the second, in UTF-8 it is smaller."""


def collections() -> pa.Table:
    """Arrays ``a b d e s n st``, maps ``m md`` and atomic columns ``i j x k`` beside them: NULL and
    empty ones, NULL items, duplicates, NaN, both zeros, nested arrays, arrays of structs."""
    ints, doubles, texts = pa.list_(pa.int32()), pa.list_(pa.float64()), pa.list_(pa.string())
    structs = pa.list_(pa.struct([("x", pa.int32()), ("y", pa.string())]))
    one, two = {"x": 1, "y": "q"}, {"x": 2, "y": "b"}
    return table(
        {
            "a": (ints, [[1, 2, 3], [], None, [None], [3, 1, None, 3, 2], [2, 2, None, None], [5]]),
            "b": (ints, [[3], [1, None], [1], None, [None, 1, 9], [], [5, 5], [2]]),
            "d": (
                doubles,
                [[0.0, -0.0, NAN], [NAN, NAN, None], [], None, [-0.0, 1.5, 0.0], [INF, -1.0, NAN]],
            ),
            "e": (doubles, [[-0.0], [NAN], [None], [1.0], [0.0, NAN], [], [0.0]]),
            "s": (texts, [["a", "😀", ""], ["b", None], [], None, [*SURROGATES, "a"], [None]]),
            "n": (
                pa.list_(ints),
                [[[1], []], [[2, None], None], [], None, [[1], [1], [None], []], [None, None]],
            ),
            "st": (structs, [[one], [None, {}], [], None, [two, one, two], [{"x": 1}], [None]]),
            "m": (
                pa.map_(pa.string(), pa.int32()),
                [[("a", 1), ("b", None)], [], None, [("", 3)], [("😀", 4), ("a", 5)], [("zz", 6)]],
            ),
            "md": (
                pa.map_(pa.float64(), pa.int32()),
                [[(0.0, 1), (NAN, 2)], [], None, [(1.5, 3)], [(-1.0, 4)], [(NAN, 5)]],
            ),
            "i": (pa.int32(), [1, 0, 2, -1, None, -3, 5, 0]),
            "j": (pa.int32(), [2, 1, -2, 0, 3, None, 1, None]),
            "x": (pa.float64(), [0.0, -0.0, NAN, 1.5, -0.0, None, 2.0, NAN]),
            "k": (pa.string(), ["a", "b", None, "", "😀", "zz", "z", "a"]),
        }
    )


def arrays_of_every_type() -> dict[str, pa.Array]:
    """A column of arrays for each atomic type, by a name for it."""
    day = datetime.date(2024, 2, 29)
    noon = datetime.datetime(2024, 3, 31, 1, 30, 0, 500_000)
    utc = noon.replace(tzinfo=datetime.timezone.utc)
    values: dict[str, tuple[pa.DataType, list[Any]]] = {
        "bools": (pa.bool_(), [True, False]),
        "bytes": (pa.int8(), [127, -128, 0]),
        "shorts": (pa.int16(), [32767, -32768, 0]),
        "longs": (pa.int64(), [2**63 - 1, -(2**63), 0]),
        "floats": (pa.float32(), [NAN, -0.0, 0.0, 1.5, -INF]),
        "doubles": (pa.float64(), [NAN, 0.0, -0.0, 4.9e-324, INF]),
        "decimals": (pa.decimal128(38, 2), [Decimal("-1.10"), Decimal("9" * 36 + ".99")]),
        "texts": (pa.string(), [*SURROGATES, "\x00"]),
        "binaries": (pa.binary(), [b"\xff", b"", b"\x00", b"\x7f"]),
        "dates": (pa.date32(), [day, datetime.date(1, 1, 1), datetime.date(9999, 12, 31)]),
        "times": (pa.timestamp("us", tz="UTC"), [utc, utc.replace(year=1900)]),
        "locals": (pa.timestamp("us"), [noon, noon.replace(year=1900)]),
    }
    return {
        name: pa.array(
            [[*some, None, some[0]], [some[-1], *some[:2]], [], None, [None], some[:1]],
            pa.list_(dtype),
        )
        for name, (dtype, some) in values.items()
    }


def table(columns: Mapping[str, tuple[pa.DataType, Sequence[Any]]]) -> pa.Table:
    """A table from columns of any lengths: shorter ones are filled with nulls."""
    rows = max(len(values) for _, values in columns.values())
    return pa.table(
        {
            name: pa.array([*values, *[None] * (rows - len(values))], dtype)
            for name, (dtype, values) in columns.items()
        }
    )


def pairs(dtype: pa.DataType, values: Sequence[Any]) -> pa.Table:
    """Columns ``a`` and ``b`` with every pair of values."""
    both = list(itertools.product(values, values))
    return pa.table(
        {"a": pa.array([a for a, _ in both], dtype), "b": pa.array([b for _, b in both], dtype)}
    )
