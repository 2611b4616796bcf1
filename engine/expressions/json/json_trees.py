"""A JSON text as a tree: by Python's :mod:`json` where that reads what Jackson does.

Source: ``SharedFactory`` of Spark, whose parser takes single quotes and control characters.
"""

from __future__ import annotations

import json
from typing import Any, Final

from engine.expressions.json.jackson import HIVE, may_be_too_much, read


def read_tree(text: str) -> Any:
    """The first value of a text: objects are dicts, or
    :class:`~engine.expressions.json.jackson.Members` where a name occurs twice.

    :raises JsonError: there is none, or it is malformed.
    """
    if not may_be_too_much(text):
        try:
            return _decode(text)
        except (ValueError, RecursionError):
            pass  # malformed, or one of the things that Jackson reads in another way
    return read(text, HIVE)


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A dict, unless a name occurs twice."""
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a name occurs twice")
    return members


def no_number(text: str) -> Any:
    """For names of numbers where they are none."""
    raise ValueError(f"{text} is not a number")


_decode: Final = json.JSONDecoder(
    object_pairs_hook=unique, parse_constant=no_number, strict=False
).decode
