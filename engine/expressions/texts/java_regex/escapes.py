"""What stands behind a backslash.

Source: ``java.util.regex.Pattern`` (``escape``, ``o``, ``x``, ``u``, ``c``, ``family``).
"""

from __future__ import annotations

from typing import Final

from engine.expressions.texts.java_regex.char_sets import DIGITS, HORIZONTAL, SPACES, VERTICAL, WORD
from engine.expressions.texts.java_regex.predicates import Predicate
from engine.expressions.texts.java_regex.properties import Properties, UnknownPropertyError
from engine.expressions.texts.java_regex.reader import Reader

_CONTROL: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_HEX: Final = frozenset("0123456789abcdefABCDEF")
_OCTAL: Final = frozenset("01234567")
ILLEGAL: Final = "Illegal/unsupported escape sequence"


def stands_for_a_character(char: str) -> bool:
    """Whether a backslash and this begin an escape that is one character."""
    return char in set("0acefnrtuxN") or not (char.isascii() and char.isalnum())


def code_point(reader: Reader) -> int:
    """The character of an escape, whose backslash has been read."""
    char = reader.raw()
    if not char:
        raise reader.invalid("Unescaped trailing backslash")
    if char in _CONTROL:
        return ord(_CONTROL[char])
    if char == "0":
        return _octal(reader)
    if char == "x":
        return _hexadecimal(reader)
    if char == "u":
        return _not_half(reader, _utf16(reader))
    if char == "c":
        if reader.at_end():
            raise reader.invalid("Illegal control escape sequence")
        return ord(reader.read()) ^ 64
    if char == "N":
        raise reader.unsupported("\\N depends on Java's version of Unicode")
    if char.isascii() and char.isalnum():
        raise reader.invalid(ILLEGAL)
    return _not_half(reader, ord(char))


def _not_half(reader: Reader, point: int) -> int:
    if 0xD800 <= point <= 0xDFFF:
        raise reader.unsupported("it has half of a surrogate pair")
    return point


def _octal(reader: Reader) -> int:
    digits = reader.read()
    if digits not in _OCTAL or not digits:
        raise reader.invalid("Illegal octal escape sequence")
    most = 3 if digits <= "3" else 2
    while len(digits) < most and reader.peek() in _OCTAL:
        digits += reader.read()
    return int(digits, 8)


def _hexadecimal(reader: Reader) -> int:
    first = reader.read()
    if first in _HEX:
        second = reader.read()
        if second in _HEX:
            return int(first + second, 16)
    elif first == "{" and reader.peek() in _HEX:
        digits = ""
        while (char := reader.read()) in _HEX:
            digits += char
            if int(digits, 16) > 0x10FFFF:
                raise reader.invalid("Hexadecimal codepoint is too big")
        if char != "}":
            raise reader.invalid("Unclosed hexadecimal escape sequence")
        return _not_half(reader, int(digits, 16))
    raise reader.invalid("Illegal hexadecimal escape sequence")


def _utf16(reader: Reader) -> int:
    unit = _four_digits(reader)
    if not 0xD800 <= unit <= 0xDBFF:
        return unit
    position = reader.position
    if reader.read() == "\\" and reader.read() == "u":
        low = _four_digits(reader)
        if 0xDC00 <= low <= 0xDFFF:
            return 0x10000 + ((unit - 0xD800) << 10) + low - 0xDC00
    reader.position = position
    return unit


def _four_digits(reader: Reader) -> int:
    digits = "".join(reader.read() for _ in range(4))
    if len(digits) < 4 or not _HEX.issuperset(digits):
        raise reader.invalid("Illegal Unicode escape sequence")
    return int(digits, 16)


def shorthand(reader: Reader, properties: Properties, char: str) -> Predicate | None:
    """``\\d``, ``\\W`` and so on."""
    with_unicode = reader.flags.unicode_classes
    lower = char.lower()
    if lower == "d":
        found = properties.digits if with_unicode else Predicate(DIGITS)
    elif lower == "w":
        found = properties.word if with_unicode else Predicate(WORD)
    elif lower == "s":
        found = properties.white_space if with_unicode else Predicate(SPACES)
    elif lower == "h":
        found = Predicate(HORIZONTAL)
    elif lower == "v":
        found = Predicate(VERTICAL)
    else:
        return None
    return found if char == lower else ~found


def property_class(reader: Reader, properties: Properties) -> tuple[Predicate, bool]:
    """``\\p{Lu}`` and so on, and whether it is a complement. The cursor is at the ``p``."""
    complement = reader.at(0) == "P"
    if reader.next() == "{":
        reader.next()
        start = reader.position
        while reader.read() != "}":
            if reader.position > len(reader.text):
                raise reader.invalid("Unclosed character family")
        name = reader.text[start : reader.position - 1]
        if not name:
            raise reader.invalid("Empty character family")
    else:
        name = reader.read()
        if not name:
            raise reader.invalid("Unknown character property name {}")
    try:
        found = properties.find(name, reader.flags.ignore_case, reader.flags.unicode_classes)
    except UnknownPropertyError as error:
        raise reader.invalid(str(error)) from None
    if found is None:
        raise reader.unsupported(f"the property {name} depends on Java's version of Unicode")
    return (~found if complement else found), complement
