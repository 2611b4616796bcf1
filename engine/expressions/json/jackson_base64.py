"""Base64 inside of a JSON text, as Jackson decodes it: straight from the text.

Blanks between groups of four are skipped, whatever they are; a text may go on behind its padding,
which it must have. What is wrong is noticed at once, so reading goes on from there.

Source: ``ReaderBasedJsonParser._decodeBase64``, ``Base64Variants.MIME_NO_LINEFEEDS`` of
``com.fasterxml.jackson.core``.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator
from typing import Final

PADDING: Final = -2
_NONE: Final = -1
_LETTERS: Final = string.ascii_uppercase + string.ascii_lowercase + string.digits + "+/"
_BITS: Final = {letter: bits for bits, letter in enumerate(_LETTERS)} | {"=": PADDING}


class Base64Error(ValueError):
    """The text is not Base64."""


class UnpaddedError(Base64Error):
    """The text ends in a group without its padding."""


def base64_of(text: str) -> bytes:
    """What a text that is complete stands for.

    :raises Base64Error: nothing.
    """
    chars: Iterator[str] = iter(text)

    def no_escape() -> str:
        raise Base64Error("a backslash stands for nothing")

    return decoded(lambda: next(chars, ""), no_escape, end="")


def decoded(read: Callable[[], str], escaped: Callable[[], str], *, end: str) -> bytes:
    """What the characters up to ``end`` stand for.

    :param read: the next character.
    :param escaped: the character that an escape stands for, behind its backslash.
    :raises Base64Error: they stand for nothing.
    """

    def bits(char: str, place: int) -> int:
        if char == "\\":
            char = escaped()
            if char <= " " and place == 0:
                return _NONE
        found = _BITS.get(char, _NONE)
        if found == _NONE or (found == PADDING and place < 2):
            raise Base64Error(f"{char!r} is not Base64")
        return found

    result = bytearray()
    while True:
        char = read()
        while char and char <= " ":
            char = read()
        if char == end:
            return bytes(result)
        group = bits(char, 0)
        if group == _NONE:
            continue
        group = group << 6 | bits(read(), 1)
        for place in (2, 3):
            char = read()
            if char == end:
                raise UnpaddedError("padding is missing")
            found = bits(char, place)
            if found == PADDING:
                if place == 2 and bits(read(), 3) != PADDING:
                    raise Base64Error("padding is incomplete")
                result += (
                    (group >> 4).to_bytes(1, "big")
                    if place == 2
                    else (group >> 2).to_bytes(2, "big")
                )
                break
            group = group << 6 | found
        else:
            result += group.to_bytes(3, "big")
