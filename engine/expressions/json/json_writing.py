"""JSON as Jackson writes it for Spark.

Source: ``WriterBasedJsonGenerator`` and ``UTF8JsonGenerator`` of
``com.fasterxml.jackson.core.json``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeAlias

from engine.expressions.java_doubles import double_text
from engine.expressions.json.jackson import Members

Quote: TypeAlias = Callable[[str], str]
_Entries: TypeAlias = Iterator[tuple[str, Any]]

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
    pieces: list[str] = []
    outside: list[tuple[_Entries, str]] = []  # what is open, and how it ends
    entries: _Entries = iter((("", value),))
    while True:
        for before, item in entries:
            pieces.append(before)
            if isinstance(item, (list, dict)):
                opening, closing = "{}" if isinstance(item, (Members, dict)) else "[]"
                pieces.append(opening)
                outside.append((entries, closing))
                entries = _entries(item, quote)
                break
            pieces.append(_plain(item, quote))
        else:
            if not outside:
                return "".join(pieces)
            entries, closing = outside.pop()
            pieces.append(closing)


def _entries(holder: Any, quote: Quote) -> _Entries:
    """The members or items, and what is written in front of each."""
    comma = ""
    if isinstance(holder, (Members, dict)):
        pairs: Iterable[tuple[str, Any]] = holder.items() if isinstance(holder, dict) else holder
        for name, item in pairs:
            yield f"{comma}{quote(name)}:", item
            comma = ","
    else:
        for item in holder:
            yield comma, item
            comma = ","


def _plain(value: Any, quote: Quote) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        text = double_text(float(value))
        return text if text[-1].isdigit() else f'"{text}"'
    return quote(value)
