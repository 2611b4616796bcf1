"""``json_array_length`` and ``json_object_keys``: what a JSON text holds, without its values.

Source: ``JsonExpressionUtils`` of Spark.
"""

from __future__ import annotations

from engine.expressions.json.jackson import (
    END_ARRAY,
    HIVE,
    NAME,
    START_ARRAY,
    START_OBJECT,
    JsonError,
    JsonParser,
    as_utf8,
)
from engine.expressions.rowwise import rowwise


@rowwise("LengthOfJsonArray")
def json_array_length(text: str) -> int | None:
    """``json_array_length``: NULL for what is no array."""
    parser = JsonParser(text, HIVE)
    try:
        if parser.next() != START_ARRAY:
            return None
        length = 0
        while parser.next() != END_ARRAY:
            parser.skip_children()
            length += 1
    except JsonError:
        return None
    return length


@rowwise("JsonObjectKeys")
def json_object_keys(text: str) -> list[str] | None:
    """``json_object_keys``: NULL for what is no object."""
    parser = JsonParser(text, HIVE)
    keys = []
    try:
        if parser.next() != START_OBJECT:
            return None
        while parser.next() == NAME:
            keys.append(as_utf8(parser.name or ""))
            parser.next()
            parser.skip_children()
    except JsonError:
        return None
    return keys
