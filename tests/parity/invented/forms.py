"""Productions that fit every type: what surrounds a value, and what takes any.

``{a}``, ``{b}`` and ``{c}`` are holes of one kind; the others have the kind that ``OTHER_HOLES``
says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

OTHER_HOLES: Final = {
    "t": "boolean",
    "u": "boolean",
    "m": "int",
    "s": "string",
    "bin": "binary",
}
AROUND: Final = {
    "if": ["if({t}, {a}, {b})"],
    "case": ["CASE WHEN {t} THEN {a} ELSE {b} END", "CASE WHEN {t} THEN {a} WHEN {u} THEN {b} END"],
    "raise_error": ["if({t}, {a}, raise_error('no'))", "if({t}, raise_error({s}), {a})"],
    "coalesce": ["coalesce({a}, {b})"],
    "nvl2": ["nvl2({c}, {a}, {b})"],
    "nullif": ["nullif({a}, {b})"],
    "greatest": ["greatest({a}, {b})"],
    "least": ["least({a}, {b}, {c})"],
    "array[]": ["array({a}, {b})[{m}]", "get(array({a}, {b}), {m})"],
    "struct.": ["named_struct('f', {a}, 'g', {b}).f"],
    "map[]": ["map('k', {a}, 'l', {b})['k']"],
    "try_element_at": ["try_element_at(array({a}, {b}), 1)"],
    "transform[]": ["transform(array({a}, {b}), v -> v)[0]"],
    "filter[]": ["get(filter(array({a}, {b}), v -> v is not null), 0)"],
    "array_max": ["array_max(array({a}, {b}))"],
}
"""The result is of the kind of ``{a}``."""
TAKING: Final = {
    "boolean": {
        "is null": ["{a} is null", "{a} is not null"],
        "=": ["{a} = {b}"],
        "<=>": ["{a} <=> {b}"],
        "<": ["{a} < {b}", "{a} >= {b}"],
        "in": ["{a} in ({b}, {c})"],
        "array_contains": ["array_contains(array({a}, {b}), {c})"],
        "exists": ["exists(array({a}, {b}), v -> v = {c})"],
    },
    "int": {"hash": ["hash({a}, {b})"], "size": ["size(array_distinct(array({a}, {b})))"]},
    "bigint": {
        "xxhash64": ["xxhash64({a})"],
        "array_position": ["array_position(array({a}, {b}), {c})"],
    },
    "string": {
        "cast string": ["cast({a} as string)", "cast(array({a}, {b}) as string)"],
        "cast binary string": ["cast({bin} as string)"],
        "to_json": ["to_json(named_struct('f', {a}, 'g', {b}))"],
        "typeof": ["typeof({a})"],
    },
    "decimal": {
        "cast decimal": [
            f"{how}({{a}} as decimal({size}))"
            for how in ("cast", "try_cast")
            for size in ("38,0", "38,38", "5,5", "1,0", "20,2")
        ],
    },
    "float": {"cast float": ["cast({a} as float)"]},
    "double": {"cast double": ["cast({a} as double)"]},
    "tinyint": {"cast tinyint": ["cast({a} as tinyint)", "try_cast({a} as tinyint)"]},
    "smallint": {"cast smallint": ["cast({a} as smallint)", "try_cast({a} as smallint)"]},
    "binary": {"cast binary": ["cast({a} as binary)"]},
    "date": {"cast date": ["cast({a} as date)", "try_cast({a} as date)"]},
    "timestamp": {"cast timestamp": ["cast({a} as timestamp)", "try_cast({a} as timestamp)"]},
    "timestamp_ntz": {"cast timestamp_ntz": ["cast({a} as timestamp_ntz)"]},
    "interval day to second": {"-": ["INTERVAL '1' DAY * {m}", "INTERVAL '1:30' MINUTE TO SECOND"]},
    "interval year to month": {"-": ["INTERVAL '1' MONTH * {m}"]},
}
"""The kind of the result → what takes ``{a}`` of a kind drawn at random."""
OF_ITEMS: Final = {
    "array": ["array({a}, {b})", "array({a})"],
    "array_repeat": ["array_repeat({a}, 2)"],
    "array_distinct": ["array_distinct(array({a}, {b}))"],
    "slice": ["slice(array({a}, {b}, {c}), 2, 2)"],
    "reverse": ["reverse(array({a}, {b}))"],
    "sort_array": ["sort_array(array({a}, {b}, {c}))"],
    "array_union": ["array_union(array({a}, {b}), array({c}))"],
    "filter": ["filter(array({a}, {b}), v -> {t})"],
}
"""The result is an array of what ``{a}`` is."""
NO_MAPS: Final = frozenset(
    {"nullif", "greatest", "least", "array_max", "=", "<=>", "<", "in", "array_contains", "exists"}
    | {"hash", "size", "xxhash64", "array_position", "array_distinct", "sort_array", "array_union"}
)
"""Spark neither compares nor hashes maps."""
_NUMBERS: Final = ["tinyint", "smallint", "int", "bigint", "float", "double", "decimal"]
_MOMENTS: Final = ["date", "timestamp", "timestamp_ntz", "string"]
CAST_FROM: Final[Mapping[str, list[str]]] = {
    **{
        f"cast {name}": [*_NUMBERS, "boolean", "string"]
        for name in ("decimal", "float", "double", "tinyint", "smallint")
    },
    "cast binary": ["string", "int"],
    "cast date": _MOMENTS,
    "cast timestamp": [*_MOMENTS, "int"],
    "cast timestamp_ntz": _MOMENTS,
}
"""What Spark casts to the type."""
