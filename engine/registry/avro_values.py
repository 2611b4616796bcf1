"""What Avro's own rules let pass, and what would change values without a word.

Avro resolves numbers, and knows nothing of what they count: milliseconds would be read as
microseconds. And fastavro writes 1.5 as the ``long`` 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

_UNITS: Final = ("millis", "micros", "nanos")
_WHOLE: Final = ("int", "long")


def units_of(schema: Any, named: Mapping[str, Any]) -> dict[str, str]:
    """In what a schema counts its times: ``$.order.at`` → ``millis``.

    :param schema: as fastavro has parsed it; ``named`` its records by their full names.
    """
    return dict(_units(schema, named, "$", ()))


def other_unit(written: Mapping[str, str], read: Mapping[str, str]) -> str | None:
    """How one time is counted in another unit by who has written it; None if none is."""
    for where, unit in read.items():
        if written.get(where, unit) != unit:
            return f"the time at {where} is in {written[where]}, and is read as {unit}"
    return None


def cut_off(schema: Any, named: Mapping[str, Any], dtype: pa.DataType) -> str | None:
    """Where a fraction would be cut off: ``$.amount``; None if nowhere.

    :param dtype: of the values that are to be written.
    """
    return next(_cuts(schema, named, dtype, "$"), None)


def _units(
    schema: Any, named: Mapping[str, Any], where: str, inside: tuple[str, ...]
) -> Iterator[tuple[str, str]]:
    """:param inside: the records around it."""
    if isinstance(schema, list):
        for branch in schema:
            yield from _units(branch, named, where, inside)
        return
    found = _resolved(schema, named)
    kind = found["type"]
    if "fields" in found:
        if found["name"] not in inside:
            around = (*inside, found["name"])
            for each in found["fields"]:
                yield from _units(each["type"], named, f"{where}.{each['name']}", around)
    elif kind == "array":
        yield from _units(found["items"], named, f"{where}[]", inside)
    elif kind == "map":
        yield from _units(found["values"], named, f"{where}.*", inside)
    else:
        unit = str(found.get("logicalType")).rpartition("-")[2]
        if unit in _UNITS:
            yield where, unit


def _cuts(schema: Any, named: Mapping[str, Any], dtype: pa.DataType, where: str) -> Iterator[str]:
    if isinstance(schema, list):
        others = [each for each in schema if each != "null"]
        if len(others) == 1:
            yield from _cuts(others[0], named, dtype, where)
        return  # of several none is taken that does not fit
    found = _resolved(schema, named)
    kind = found["type"]
    if "fields" in found and pa.types.is_struct(dtype):
        for each in found["fields"]:
            place = dtype.get_field_index(each["name"])
            if place >= 0:
                inner = dtype.field(place).type
                yield from _cuts(each["type"], named, inner, f"{where}.{each['name']}")
    elif kind == "array" and pa.types.is_list(dtype):
        yield from _cuts(found["items"], named, dtype.value_type, f"{where}[]")
    elif kind == "map" and pa.types.is_map(dtype):
        yield from _cuts(found["values"], named, dtype.item_type, f"{where}.*")
    elif kind in _WHOLE and (
        pa.types.is_floating(dtype) or (pa.types.is_decimal(dtype) and dtype.scale > 0)
    ):
        yield where


def _resolved(schema: Any, named: Mapping[str, Any]) -> Mapping[str, Any]:
    """A type by its name, and one of no parts, as an object."""
    if isinstance(schema, str):
        found: Mapping[str, Any] = named.get(schema, {"type": schema})
        return found
    return schema if isinstance(schema["type"], str) else _resolved(schema["type"], named)
