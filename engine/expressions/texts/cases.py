"""Upper and lower case, as in the ICU library that Spark brings.

They are Unicode's full mappings (``ß`` → ``SS``, final sigma), including letters newer than
Python's tables, which are of Unicode 13 to 15.1. Spark 4.1 has ICU 77, of Unicode 16; later ones
ICU 78, of Unicode 17.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from engine.expressions.releases import is_since
from engine.expressions.tree import Expr

# Upper-case letters: first capital, first small letter, how many.
_OF_UNICODE_14_TO_16: Final = (
    (0x1C89, 0x1C8A, 1), (0x2C2F, 0x2C5F, 1), (0xA7C0, 0xA7C1, 1), (0xA7CB, 0x264, 1),
    (0xA7CC, 0xA7CD, 1), (0xA7D0, 0xA7D1, 1), (0xA7D6, 0xA7D7, 1), (0xA7D8, 0xA7D9, 1),
    (0xA7DA, 0xA7DB, 1), (0xA7DC, 0x19B, 1), (0x10570, 0x10597, 11), (0x1057C, 0x105A3, 15),
    (0x1058C, 0x105B3, 7), (0x10594, 0x105BB, 2), (0x10D50, 0x10D70, 22),
)  # fmt: skip
_OF_UNICODE_17: Final = (
    (0xA7CE, 0xA7CF, 1), (0xA7D2, 0xA7D3, 1), (0xA7D4, 0xA7D5, 1), (0x16EA0, 0x16EBB, 25),
)  # fmt: skip


class Cases:
    """
    :param letters: those that a Python may not know.
    """

    def __init__(self, letters: Iterable[tuple[int, int, int]]) -> None:
        self._to_lower = {u + i: low + i for u, low, count in letters for i in range(count)}
        self._to_upper = {low: upper for upper, low in self._to_lower.items()}

    def upper(self, text: str) -> str:
        """As Spark's ``upper``."""
        return text.upper() if text.isascii() else text.upper().translate(self._to_upper)

    def lower(self, text: str) -> str:
        """As Spark's ``lower``."""
        return text.lower() if text.isascii() else text.lower().translate(self._to_lower)

    def title(self, text: str) -> str:
        """As Spark's ``initcap``: only spaces separate words."""
        return " ".join(map(self._capitalized, text.split(" ")))

    def _capitalized(self, word: str) -> str:
        # The rest is lowered as a part of the word: a sigma at its end is a final one.
        first = word[:1]
        return first.title().translate(self._to_upper) + self.lower(word)[len(first.lower()) :]


UNICODE_16: Final = Cases(_OF_UNICODE_14_TO_16)
UNICODE_17: Final = Cases((*_OF_UNICODE_14_TO_16, *_OF_UNICODE_17))


def cases_of(expr: Expr) -> Cases:
    """Those of a node whose kernel reads :data:`engine.expressions.releases.SPARK_VERSION`."""
    return UNICODE_17 if is_since(expr, "4.2.0") else UNICODE_16
