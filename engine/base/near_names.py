"""What somebody who mistyped a name has probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, known: Iterable[str], likeness: float = 0.6) -> str | None:
    """The known name that is most like this one, whatever the case; None if none is.

    :param likeness: how much of it must be alike, from 0 to 1; at 0.8 one letter in five may be
        another.
    """
    by_key = {each.lower(): each for each in known}
    near = get_close_matches(name.lower(), by_key, 1, likeness)
    return by_key[near[0]] if near else None
