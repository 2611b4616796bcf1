"""JSON as Spark's logs have it: compact, UTF-8, on one line."""

from __future__ import annotations

import json
import math
from datetime import date, datetime
from typing import Any, NoReturn

from engine.redaction.texts import encodable

JSON = Any
"""None, bool, int, float, str, list or dict of such."""
EXCERPT_CHARACTERS = 4096
_ASCII = json.JSONEncoder(separators=(",", ":"))


def dump(value: JSON) -> str:
    """The escape of what is no UTF-8 is JSON's own: it is read as it was.

    :raises ValueError: the value is not JSON (NaN is not)."""
    try:
        text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except TypeError as exc:
        raise ValueError(str(exc)) from exc
    return encodable(text)


def excerpt(value: JSON) -> str:
    """A value as people read it: ASCII, and cut behind :data:`EXCERPT_CHARACTERS`, which ``...``
    tells. What is cut off costs nothing.

    :raises TypeError: the value is not JSON."""
    parts: list[str] = []
    left = EXCERPT_CHARACTERS
    for part in _ASCII.iterencode(value):
        if len(part) > left:
            return "".join([*parts, part[:left], "..."])
        parts.append(part)
        left -= len(part)
    return "".join(parts)


def load(text: str | bytes) -> JSON:
    """:raises ValueError: the text is not JSON."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("JSON is nested too deeply") from None


def load_object(text: str | bytes) -> dict[str, Any]:
    """:raises ValueError: the text is not a JSON object."""
    value = load(text)
    if not isinstance(value, dict):
        raise ValueError(f"Not a JSON object: {str(text)[:80]}")
    return value


def plain(value: Any) -> JSON:
    """A value of a row as JSON, for people: times as ISO 8601, bytes in hexadecimal, what is no
    number of JSON as Spark writes it (``"NaN"``, ``"-Infinity"``)."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity"
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
