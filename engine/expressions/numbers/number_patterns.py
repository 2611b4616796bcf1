"""Patterns of numbers, as ``to_number`` and ``to_char`` take them: ``'S$999,990.00'``.

========== =====================================================================
``0`` ``9`` a digit; a run of them that begins with 0 before the point is exact
``,`` ``G`` between groups of digits
``.`` ``D`` the decimal point
``$``      the currency
``S``      a sign, ``+`` or ``-``
``MI``     a sign that only a negative number has
``PR``     a negative number is in angle brackets
========== =====================================================================

Spark's analyzer has refused what is no pattern.

Source: ``ToNumberParser.scala`` of Spark.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from engine.expressions.datum import constant
from engine.expressions.tree import Expr

_TOKEN: Final = re.compile("(?P<digits>[09][09,G]*)|MI|PR|[.DS$]")


@dataclass(frozen=True)
class Run:
    """Digits without a separator among them.

    :param exact: there are no fewer digits than these.
    """

    length: int
    exact: bool


@dataclass(frozen=True)
class NumberPattern:
    """A pattern that has been read.

    :param text: in capitals.
    :param tokens: from left to right: runs of digits, or one of ``. $ S MI < >``.
    """

    text: str
    tokens: tuple[tuple[Run, ...] | str, ...]

    @property
    def whole_digits(self) -> int:
        """How many digits it has before the point."""
        return self._digits(behind=False)

    @property
    def scale(self) -> int:
        """How many digits it has behind the point."""
        return self._digits(behind=True)

    def _digits(self, *, behind: bool) -> int:
        point = self.tokens.index(".") if "." in self.tokens else len(self.tokens)
        tokens = self.tokens[point:] if behind else self.tokens[:point]
        return sum(run.length for part in tokens if not isinstance(part, str) for run in part)


def pattern_of(expr: Expr) -> NumberPattern | None:
    """That of the second argument, which is a constant; None if it is NULL."""
    scalar = constant(expr.children[1])
    assert scalar is not None
    return number_pattern(scalar.as_py()) if scalar.is_valid else None


def not_constant(expr: Expr) -> str | None:
    """Why the second argument is not read."""
    if constant(expr.children[1]) is None:
        return "the pattern has to be a constant that can be computed"
    return None


def number_pattern(text: str) -> NumberPattern:
    """Read a valid pattern."""
    text = text.upper()
    tokens: list[tuple[Run, ...] | str] = []
    for match in _TOKEN.finditer(text):
        part = match[0].replace("D", ".")
        if match["digits"]:
            behind = "." in tokens
            groups = re.split("[,G]", match[0])
            tokens.append(tuple(Run(len(g), g[0] == "0" and not behind) for g in groups))
        elif part == "PR":
            tokens = ["<", *tokens, ">"]
        else:
            tokens.append(part)
    return NumberPattern(text, tuple(tokens))
