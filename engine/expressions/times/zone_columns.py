"""Time zones that are arguments: mostly constants, but a column may name another in each row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import TransformError
from engine.expressions.ansi import failure
from engine.expressions.datum import constant_value
from engine.expressions.malformed import value_of
from engine.expressions.registry import Datum
from engine.expressions.times.zones import is_zone, zone
from engine.expressions.tree import Expr
from engine.expressions.vectors import all_null


def unknown_zone(position: int) -> Callable[[Expr], str | None]:
    """For ``supports``: a constant has to be a time zone."""

    def reason(expr: Expr) -> str | None:
        name = constant_value(expr.children[position]) if position < len(expr.children) else None
        return None if name is None or is_zone(name) else f"unknown time zone {name!r}"

    return reason


def per_zone(
    function: Callable[..., Datum],
    dtype: pa.DataType,
    zones: Datum,
    *values: Datum,
    unknown: Callable[..., Datum] | None = None,
) -> Datum:
    """Apply a function of a :class:`Zone` and columns to the rows of each zone.

    :param unknown: what is applied in its place to the rows that name a zone that there is not,
        and to that name.
    :raises TransformError: a row without NULLs names a zone that there is not.
    """

    def of(name: str, values: Sequence[Datum]) -> Datum:
        try:
            known = zone(name)
        except ValueError:
            if unknown is not None:
                return unknown(name, *values)
            if not pc.any(reduce(pc.and_, map(pc.is_valid, values))).as_py():
                return all_null(values, dtype)
            raise invalid_zone(name) from None
        return function(known, *values)

    if isinstance(zones, pa.Scalar):
        return of(value_of(zones), values) if zones.is_valid else all_null(values, dtype)
    count = len(zones)
    reached = zones.is_valid()
    for value in values:
        reached = pc.and_(reached, pc.is_valid(value))
    result = pa.nulls(count, dtype)
    for name in pc.unique(zones.filter(reached)):  # scalars: a name may be no UTF-8
        mask = pc.fill_null(pc.and_(pc.equal(zones, name), reached), False)
        part = [v if isinstance(v, pa.Scalar) else v.filter(mask) for v in values]
        found = of(value_of(name), part)
        if isinstance(found, pa.Scalar):
            found = pa.repeat(found, mask.true_count)
        result = pc.replace_with_mask(result, mask, found)
    return result


def invalid_zone(name: str) -> TransformError:
    """A row names a zone that there is not."""
    return failure(
        "INVALID_TIMEZONE",
        f"The time zone {name!r} is not known.",
        "Use a name such as Europe/Berlin.",
    )
