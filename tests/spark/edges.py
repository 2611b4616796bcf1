"""Input columns full of edge values, for comparisons with Spark."""

from __future__ import annotations

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
