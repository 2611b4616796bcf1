"""JSON as Jackson reads and writes it for Spark: a little more than the standard allows.

Texts and names may be in single quotes; ``NaN``, ``Infinity``, ``+INF`` and the like are numbers
where Spark says so; whatever follows the first value is ignored. A name may occur twice.

This reader is exact and slow: Python's own :mod:`json` reads what both read the same way.

Source: ``JSONOptions`` of Spark; ``com.fasterxml.jackson.core``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from engine.expressions.cast_texts import double_text

_BLANKS: Final = re.compile(r"[ \t\r\n]*")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_NOT_A_NUMBER: Final = re.compile(r"NaN|Infinity|[+-]Infinity|[+-]INF")
_STRINGS: Final = {
    quote: re.compile(
        rf"""{quote}((?:[^{quote}\\\x00-\x1f]|\\["'\\/bfnrt]|\\u[0-9a-fA-F]{{4}})*){quote}"""
    )
    for quote in "\"'"
}
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")
_ESCAPED: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_SURROGATE_PAIR: Final = re.compile("([\ud800-\udbff])([\udc00-\udfff])")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_WORDS: Final = {"true": True, "false": False, "null": None}
_TO_ESCAPE: Final = re.compile(r'[\x00-\x1f"\\]')
_TO_ESCAPE_IN_COPIES: Final = re.compile('[\\x00-\\x1f"\\\\\\U00010000-\\U0010ffff\\ud800-\\udfff]')
_ESCAPES: Final = {
    **{chr(code): f"\\u{code:04X}" for code in range(32)},
    "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\",
}  # fmt: skip


class JsonError(ValueError):
    """The text is not JSON, by Jackson's rules."""


class Number(float):
    """A number with a point or an exponent, and how it was written."""

    text: str

    def __new__(cls, text: str) -> Number:
        """By its text; the names of infinity as in :data:`_NOT_A_NUMBER`."""
        number = super().__new__(cls, text.replace("INF", "Infinity"))
        number.text = text
        return number


class Members(list[tuple[str, Any]]):
    """An object: names and values in their order."""


def read(text: str, non_numeric_numbers: bool) -> Any:
    """The first value of a text: None, bool, int, :class:`Number`, str, list or
    :class:`Members`.

    :raises JsonError: there is none, or it is malformed.
    """
    reader = _Reader(text, non_numeric_numbers)
    try:
        return reader.root()
    except RecursionError:
        raise JsonError("nested too deeply") from None


def is_blank(text: str) -> bool:
    """Whether there is no value at all."""
    return _BLANKS.fullmatch(text) is not None


class _Reader:
    def __init__(self, text: str, non_numeric_numbers: bool) -> None:
        self._text = text
        self._position = 0
        self._non_numeric = non_numeric_numbers

    def root(self) -> Any:
        value = self._value()
        following = self._text[self._position : self._position + 1]
        scalar = not isinstance(value, (list, str))
        if scalar and following and following not in " \t\r\n":
            raise JsonError("a value is not separated from what follows")
        return value

    def _value(self) -> Any:
        char = self._skip_blanks()
        if char == "{":
            return self._object()
        if char == "[":
            return self._array()
        if char in ('"', "'") and char:
            return self._string(char)
        for word, value in _WORDS.items():
            if self._text.startswith(word, self._position):
                self._position += len(word)
                return value
        if self._non_numeric and (match := _NOT_A_NUMBER.match(self._text, self._position)):
            self._position = match.end()
            return Number(match[0])
        match = _NUMBER.match(self._text, self._position)
        if match is None:
            raise JsonError("a value is missing")
        self._position = match.end()
        return Number(match[0]) if match[1] or match[2] else _integer(match[0])

    def _object(self) -> Members:
        members = Members()
        self._position += 1
        if self._skip_blanks() == "}":
            self._position += 1
            return members
        while True:
            quote = self._skip_blanks()
            if quote not in ('"', "'") or not quote:
                raise JsonError("a name is missing")
            name = self._string(quote)
            if self._skip_blanks() != ":":
                raise JsonError("a colon is missing")
            self._position += 1
            members.append((name, self._value()))
            if self._ends_with("}"):
                return members

    def _array(self) -> list[Any]:
        items: list[Any] = []
        self._position += 1
        if self._skip_blanks() == "]":
            self._position += 1
            return items
        while True:
            items.append(self._value())
            if self._ends_with("]"):
                return items

    def _ends_with(self, bracket: str) -> bool:
        char = self._skip_blanks()
        if char not in (",", bracket) or not char:
            raise JsonError(f"{bracket!r} is missing")
        self._position += 1
        return char == bracket

    def _string(self, quote: str) -> str:
        match = _STRINGS[quote].match(self._text, self._position)
        if match is None:
            raise JsonError("a text is malformed")
        self._position = match.end()
        return _unescaped(match[1]) if "\\" in match[1] else match[1]

    def _skip_blanks(self) -> str:
        match = _BLANKS.match(self._text, self._position)
        assert match is not None
        self._position = match.end()
        return self._text[self._position : self._position + 1]


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:  # Python reads at most some thousand digits, Jackson a thousand
        raise JsonError("a number is too long") from None


def _unescaped(text: str) -> str:
    def replaced(match: re.Match[str]) -> str:
        if match[1] is not None:
            return chr(int(match[1], 16))
        return _ESCAPED.get(match[2], match[2])

    return _SURROGATE_PAIR.sub(_joined, _ESCAPE.sub(replaced, text))


def _joined(match: re.Match[str]) -> str:
    return chr(0x10000 + ((ord(match[1]) - 0xD800) << 10) + ord(match[2]) - 0xDC00)


def as_utf8(text: str) -> str:
    """Half of a surrogate pair becomes a question mark, as when Java encodes UTF-8."""
    return _SURROGATE.sub("?", text)


def quoted(text: str) -> str:
    """A text as Jackson writes it."""
    if _TO_ESCAPE.search(text) is None:
        return f'"{text}"'
    return '"' + _TO_ESCAPE.sub(lambda match: _ESCAPES[match[0]], text) + '"'


def _quoted_in_copies(text: str) -> str:
    """As :func:`quoted`, but Jackson escapes surrogates when it writes bytes."""
    if _TO_ESCAPE_IN_COPIES.search(text) is None:
        return f'"{text}"'
    return '"' + _TO_ESCAPE_IN_COPIES.sub(_escape, text) + '"'


def _escape(match: re.Match[str]) -> str:
    if match[0] in _ESCAPES:
        return _ESCAPES[match[0]]
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex().upper()}" for i in range(0, len(units), 2))


def written(value: Any) -> str:
    """A value read by :func:`read`, or by Python's :mod:`json`, as Jackson copies it: numbers with
    a point or an exponent are written anew, as DOUBLEs."""
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
        return _quoted_in_copies(value)
    if isinstance(value, (Members, dict)):
        pairs: Iterable[tuple[str, Any]] = value.items() if isinstance(value, dict) else value
        return (
            "{"
            + ",".join(f"{_quoted_in_copies(name)}:{written(item)}" for name, item in pairs)
            + "}"
        )
    return "[" + ",".join(map(written, value)) + "]"
