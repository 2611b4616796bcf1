"""Random patterns of what is supported, and texts that they may match."""

from __future__ import annotations

import random
from collections.abc import Callable

_LETTERS = "abcAB1_ -\n"
_CHARACTERS = [
    *"aaabbbcAB1_ -,",
    *(
        "é",
        "\\n",
        "\\t",
        "\\x41",
        "\\.",
        "\\\\",
        "\\Qa.\\E",
        "\\u0062",
        "\\0101",
        "😀",
        "\u0301",
        "ß",
        "İ",
        "]",
    ),
]
_SHORTHANDS = [f"\\{letter}" for letter in "dDwWsShHvV"]
_PROPERTIES = [
    *(
        "\\p{L}",
        "\\P{L}",
        "\\p{Lu}",
        "\\pN",
        "\\p{Alpha}",
        "\\P{Digit}",
        "\\p{IsAlphabetic}",
        "\\p{Punct}",
    ),
    *("\\p{IsUppercase}", "\\p{javaLowerCase}", "\\p{M}", "\\P{M}", "\\p{Lower}", "\\p{IsWord}"),
]
_ANCHORS = ["^", "$", "\\A", "\\z", "\\Z", "\\b", "\\B"]
_QUANTIFIERS = ["*", "+", "?", "{2}", "{1,2}", "{0,2}", "{2,}", "{0}"]
_GREED = ["", "", "", "?", "+"]
_FLAGS = ["i", "s", "m", "d", "iu", "U", "-i", "i-s", "u", "x"]
_TEXT = [
    *"aaaabbbccAB1_ -,.",
    "\n",
    "\r",
    "\r\n",
    "\u2028",
    "\x85",
    "é",
    "\u0301",
    "ß",
    "😀",
    "𝄞",
    "\t",
    "٣",
    "K",
    "\U0001e8d0",
]


class PatternDrawer:
    """Draws patterns.

    :param rng: what decides.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._groups = 0
        self._closed: list[int] = []

    def draw(self) -> str:
        """A pattern."""
        flags = f"(?{self._rng.choice(_FLAGS)})" if self._rng.random() < 0.15 else ""
        return flags + self._choice(self._rng.choice((1, 2, 2, 3)))

    def _choice(self, depth: int) -> str:
        options = self._rng.choice((1, 1, 1, 2, 2, 3))
        return "|".join(self._sequence(depth) for _ in range(options))

    def _sequence(self, depth: int) -> str:
        return "".join(self._part(depth) for _ in range(self._rng.choice((0, 1, 1, 2, 2, 3))))

    def _part(self, depth: int) -> str:
        dice = self._rng.random()
        if dice < 0.12:
            return self._rng.choice(_ANCHORS)
        atom = self._atom(depth)
        if self._rng.random() < 0.4:
            return atom + self._rng.choice(_QUANTIFIERS) + self._rng.choice(_GREED)
        return atom

    def _atom(self, depth: int) -> str:
        kinds: list[tuple[float, Callable[[], str]]] = [
            (0.5, lambda: self._rng.choice(_CHARACTERS)),
            (0.08, lambda: "."),
            (0.08, lambda: self._rng.choice(_SHORTHANDS)),
            (0.06, lambda: self._rng.choice(_PROPERTIES)),
            (0.13, self._class),
            (0.02, lambda: "\\R"),
            (0.05, self._reference),
        ]
        if depth > 0:
            kinds.append((0.45, lambda: self._group(depth - 1)))
        dice = self._rng.random() * sum(weight for weight, _ in kinds)
        for weight, kind in kinds:
            dice -= weight
            if dice <= 0:
                return kind()
        return "a"

    def _reference(self) -> str:
        return f"\\{self._rng.choice(self._closed)}" if self._closed else "b"

    def _group(self, depth: int) -> str:
        dice = self._rng.random()
        if dice < 0.45:
            self._groups += 1
            number = self._groups
            name = f"?<n{number}>" if self._rng.random() < 0.2 else ""
            text = f"({name}{self._choice(depth)})"
            self._closed.append(number)
            return text
        if dice < 0.7:
            return f"(?:{self._choice(depth)})"
        if dice < 0.78:
            return f"(?{self._rng.choice(_FLAGS)}:{self._choice(depth)})"
        if dice < 0.83:
            return f"(?{self._rng.choice(_FLAGS)})"
        opening = self._rng.choice(["(?=", "(?!", "(?<=", "(?<!", "(?>"])
        return f"{opening}{self._choice(min(depth, 1))})"

    def _class(self, depth: int = 2) -> str:
        members = [self._member(depth) for _ in range(self._rng.choice((1, 2, 3)))]
        return f"[{'^' if self._rng.random() < 0.3 else ''}{''.join(members)}]"

    def _member(self, depth: int) -> str:
        dice = self._rng.random()
        if dice < 0.55 or depth == 0:
            return self._rng.choice(
                ["a", "b", "A", "1", "_", "-", "\\n", "é", "\\\\", "&", "😀", "\\]"]
            )
        if dice < 0.7:
            return self._rng.choice(["a-c", "A-Z", "0-9", "a-é", "\\x00-b", "é-😀"])
        if dice < 0.82:
            return self._rng.choice([*_SHORTHANDS, *_PROPERTIES])
        if dice < 0.92:
            return self._class(depth - 1)
        return f"&&{self._class(depth - 1)}"


def draw_pattern(rng: random.Random) -> str:
    """A pattern, which Java may refuse."""
    return PatternDrawer(rng).draw()


def draw_text(rng: random.Random) -> str:
    """A short text."""
    letters = _LETTERS if rng.random() < 0.4 else _TEXT
    return "".join(rng.choice(letters) for _ in range(rng.randint(0, 9)))
