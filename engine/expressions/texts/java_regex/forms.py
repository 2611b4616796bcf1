"""What a text is made into before a pattern is looked for in it.

=========  ==========================================  ==========================================
form       texts                                       what the pattern sees
=========  ==========================================  ==========================================
``PLAIN``  ASCII; any up to U+FFFF, if the pattern     the text
           asks for no boundaries of words
``BMP``    up to U+FFFF                                marks that follow a letter or a digit,
                                                       which are part of a word, are moved to
                                                       U+F0000 and above
``UNITS``  with characters beyond U+FFFF               the same, of UTF-16's code units
=========  ==========================================  ==========================================
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final


class Form(Enum):
    """See above."""

    PLAIN = "plain"
    BMP = "bmp"
    UNITS = "units"


MOVED: Final = 0xF0000
"""Where marks are moved to, and as many code points behind it as are below it up to U+FFFF."""
_BEYOND: Final = re.compile("[\ud800-\udfff\U00010000-\U0010ffff]")
_WHOLE: Final = re.compile("[\U00010000-\U0010ffff]")
_MOVED: Final = re.compile("[\U000f0000-\U000fffff]")
_HALVES: Final = re.compile("[\ud800-\udfff]")


def form_of(text: str, boundaries: bool) -> Form:
    """:param boundaries: whether the pattern asks for boundaries of words."""
    if text.isascii():
        return Form.PLAIN
    if _BEYOND.search(text):
        return Form.UNITS
    return Form.BMP if boundaries else Form.PLAIN


def in_units(text: str) -> str:
    """A character for each of UTF-16's code units, of which some may be so already."""
    return _WHOLE.sub(_halves, text)


def _halves(match: re.Match[str]) -> str:
    point = ord(match[0]) - 0x10000
    return chr(0xD800 + (point >> 10)) + chr(0xDC00 + (point & 0x3FF))


def with_moved(text: str, marks: re.Pattern[str]) -> str:
    """The text with the marks moved that the pattern finds."""
    return marks.sub(lambda found: "".join(chr(MOVED + ord(mark)) for mark in found[0]), text)


def restored(text: str) -> str:
    """The text of a part of a form. Half of a character is a question mark, as Java writes it."""
    if text.isascii():
        return text
    text = _MOVED.sub(lambda found: chr(ord(found[0]) - MOVED), text)
    if _HALVES.search(text) is None:
        return text
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return _HALVES.sub("?", joined)
