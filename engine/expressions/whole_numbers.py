"""Whole numbers in texts."""

from __future__ import annotations

from typing import Final

_MORE_THAN_ANY: Final = 100


def whole_number(digits: str) -> int:
    """Of digits, perhaps behind a sign; of a hundred and more it is told as one so large that no
    type holds it, for Python refuses to read thousands."""
    sign = digits[:1] if digits[:1] in ("+", "-") else ""
    return int(sign + (digits[len(sign) :].lstrip("0")[:_MORE_THAN_ANY] or "0"))
