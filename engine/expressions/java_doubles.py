"""How Java writes floating numbers.

Doubles are written as Java 19 and later do, by the shortest text that reads back as the same
number. Java 17 and 18 do so, too, except for whole numbers too large to be exact (beyond 2**53, or
2**24 for FLOAT), which they often write with a digit more (JDK-4511638).

Source: ``Double.toString`` and ``Float.toString``.
"""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import Final

PLAIN_LOW: Final = 1e-3
PLAIN_HIGH: Final = 1e7
"""Java writes numbers from there to (exclusively) here without an exponent."""


def double_text(value: float) -> str:
    """As Java's ``Double.toString``."""
    size = abs(value)
    text = repr(value)
    if value == 0 or PLAIN_LOW <= size < PLAIN_HIGH:
        return text
    return java_text(text, is_float=False)


def java_text(shortest: str, is_float: bool) -> str:
    """A number outside of the plain range, from the shortest text that reads back as it."""
    if shortest.lstrip("-") in ("nan", "inf"):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[shortest]
    sign, digits, exponent = Decimal(shortest).normalize().as_tuple()
    assert isinstance(exponent, int)
    if len(digits) == 1 and (closer := _two_digits(shortest, is_float)) is not None:
        _, digits, exponent = closer.as_tuple()
        assert isinstance(exponent, int)
    head, *tail = map(str, digits)
    power = exponent + len(digits) - 1
    return f"{'-' if sign else ''}{head}.{''.join(tail) or '0'}E{power}"


def _two_digits(shortest: str, is_float: bool) -> Decimal | None:
    """Java writes two digits at least: the closest ones, which differ for the tiniest numbers."""
    code = "f" if is_float else "d"
    number = struct.unpack(code, struct.pack(code, float(shortest)))[0]
    closer = f"{number:.1e}"
    if struct.pack(code, float(closer)) != struct.pack(code, number):
        return None
    return None if ".0e" in closer else Decimal(closer)
