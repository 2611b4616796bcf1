"""JSON as Jackson writes it for Spark.

Source: ``WriterBasedJsonGenerator`` and ``UTF8JsonGenerator`` of
``com.fasterxml.jackson.core.json``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

from engine.expressions.java_doubles import double_text
from engine.expressions.json.jackson import Members

Quote: TypeAlias = Callable[[str], str]

_TO_ESCAPE: Final = re.compile(r'[\x00-\x1f"\\]')
_TO_ESCAPE_IN_BYTES: Final = re.compile('[\\x00-\\x1f"\\\\\\U00010000-\\U0010ffff\\ud800-\\udfff]')
_TO_ESCAPE_IN_ASCII: Final = re.compile(r'[\x00-\x1f"\\]|[^\x00-\x7f]')
_ESCAPES: Final = {
    **{chr(code): f"\\u{code:04X}" for code in range(32)},
    "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\",
}  # fmt: skip


def quoted(text: str) -> str:
    """A text as Jackson writes it."""
    if _TO_ESCAPE.search(text) is None:
        return f'"{text}"'
    return '"' + _TO_ESCAPE.sub(lambda match: _ESCAPES[match[0]], text) + '"'


def quoted_in_ascii(text: str) -> str:
    """As :func:`quoted`, with all that is not ASCII escaped."""
    if _TO_ESCAPE_IN_ASCII.search(text) is None:
        return f'"{text}"'
    return '"' + _TO_ESCAPE_IN_ASCII.sub(_escape, text) + '"'


def quoted_in_bytes(text: str) -> str:
    """As :func:`quoted`, but Jackson escapes surrogates when it writes bytes."""
    if _TO_ESCAPE_IN_BYTES.search(text) is None:
        return f'"{text}"'
    return '"' + _TO_ESCAPE_IN_BYTES.sub(_escape, text) + '"'


def _escape(match: re.Match[str]) -> str:
    if match[0] in _ESCAPES:
        return _ESCAPES[match[0]]
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex().upper()}" for i in range(0, len(units), 2))


def written(value: Any, quote: Quote = quoted_in_bytes) -> str:
    """A value read by :func:`read`, or by Python's :mod:`json`, as Jackson copies it: numbers with
    a point or an exponent are written anew, as DOUBLEs.

    :param quote: Jackson writes into bytes, or into a text.
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        text = double_text(float(value))
        return text if text[-1].isdigit() else f'"{text}"'
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, (Members, dict)):
        pairs: Iterable[tuple[str, Any]] = value.items() if isinstance(value, dict) else value
        return "{" + ",".join(f"{quote(name)}:{written(item, quote)}" for name, item in pairs) + "}"
    return "[" + ",".join(written(item, quote) for item in value) + "]"
