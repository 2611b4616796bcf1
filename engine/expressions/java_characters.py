"""Classes of characters, as ``java.lang.Character`` knows them."""

from __future__ import annotations

from typing import Final

WHITESPACE: Final = r"\t-\r\x1c-\x20\u1680\u2000-\u2006\u2008-\u200a\u2028\u2029\u205f\u3000"
"""``isWhitespace``, to be read between the brackets of a regular expression."""

DIGIT: Final = r"(?:(?![\U00010000-\U0010ffff])\d)"
"""``isDigit(char)``, as a regular expression: of any script, as long as one ``char`` is enough."""
