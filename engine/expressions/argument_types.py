"""Types of arguments that not every kernel takes.

Which types a function takes, Spark's analyzer says: it casts others, or refuses them. Of what it
lets through, every kernel takes the common types, alone and inside of arrays, maps and structs.
The *rare* ones below are taken by the kernels that declare them (``takes`` in
:mod:`engine.expressions.registry`); for all others a query is refused when it starts. Types that no
kernel takes at all are not in :mod:`engine.expressions.types`.

``tests/parity/invented/every_type.py`` holds both against Spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Flag, auto
from typing import Final

import pyarrow as pa

from engine.expressions.tree import Expr
from engine.expressions.types import (
    DAY_TIME_INTERVAL,
    YEAR_MONTH_INTERVAL,
    has_variant,
    is_variant,
    sql_name,
)


class Rare(Flag):
    """Sets of types."""

    NONE = 0
    VOID = auto()
    DAYS = auto()
    MONTHS = auto()
    VARIANT = auto()
    INTERVALS = DAYS | MONTHS
    ALL = VOID | DAYS | MONTHS
    """But VARIANT, which most kernels would take for a STRUCT."""
    ALL_AND_VARIANT = ALL | VARIANT


_RARE: Final = {
    pa.null(): Rare.VOID,
    DAY_TIME_INTERVAL: Rare.DAYS,
    YEAR_MONTH_INTERVAL: Rare.MONTHS,
}
_INSTEAD: Final = {
    Rare.VOID: "cast the NULL, or the empty array or map, to a type",
    Rare.DAYS: "use a number of seconds, as unix_seconds() and make_dt_interval() have them",
    Rare.MONTHS: "use a number of months, as make_ym_interval() has it",
    Rare.VARIANT: "use variant_get(), or to_json(), to get other types",
}


def refused_argument(expr: Expr, taken: Rare) -> str | None:
    """Why a node cannot be evaluated for the types of its arguments, or None.

    :param taken: what its kernel declares.
    """
    for child in expr.children:
        for inner in _innermost(child.dtype):
            rare = Rare.VARIANT if is_variant(inner) else _RARE.get(inner, Rare.NONE)
            if rare not in taken:
                name = sql_name(child.dtype)
                return f"an argument of the type {name} is not supported: {_INSTEAD[rare]}"
    if Rare.VARIANT not in taken and has_variant(expr.dtype):
        return f"a result of the type {sql_name(expr.dtype)} is not supported: use parse_json()"
    return None


def _innermost(dtype: pa.DataType) -> Iterator[pa.DataType]:
    """What the type consists of: itself, if it is not nested."""
    if dtype.num_fields == 0 or is_variant(dtype):
        yield dtype
        return
    for index in range(dtype.num_fields):
        yield from _innermost(dtype.field(index).type)
