"""Tree → pattern of Python's :mod:`re`.

- An atomic group is a look-ahead that captures, and a reference to it: ``(?=(X))\\1``. (Python 3.11
  has atomic groups, 3.10 has not.)
- Look-behind is one for each length that it can have.
- Cases are in the sets of characters: nothing but references ignores case.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from engine.expressions.texts.java_regex import set_writer
from engine.expressions.texts.java_regex.char_sets import SUPPLEMENTARY, CharSet
from engine.expressions.texts.java_regex.errors import UnsupportedRegexError
from engine.expressions.texts.java_regex.faithful import deterministic, one_way
from engine.expressions.texts.java_regex.forms import MOVED, Form
from engine.expressions.texts.java_regex.properties import Properties
from engine.expressions.texts.java_regex.syntax import (
    Anchor,
    Atomic,
    BackReference,
    Boundary,
    Chars,
    Choice,
    Group,
    LineBreak,
    Look,
    Node,
    Place,
    Repeat,
    Sequence,
)

_LENGTHS_MAX: Final = 200
"""So many ways of a look-behind."""
_PLACES: Final[dict[Place, str]] = {
    "start": "\\A",
    "end": "\\Z",
    "line start": "(?!\\Z)(?:\\A|(?<=[\n\x85\u2028\u2029])|(?<=\r)(?!\n))",
    "unix line start": "(?!\\Z)(?:\\A|(?<=\n))",
    "last line end": "(?=\r\n\\Z|(?:(?<!\r)\n|[\r\x85\u2028\u2029])?\\Z)",
    "unix last line end": "(?=\n?\\Z)",
    "line end": "(?=[\r\x85\u2028\u2029]|(?<!\r)\n|\\Z)",
    "unix line end": "(?=\n|\\Z)",
}
_MOVED_MARKS: Final = CharSet(((MOVED, MOVED + 0xFFFF),))
_BREAKS: Final = "[\n\x0b\f\r\x85\u2028\u2029]"


class Writer:
    """Writes one pattern for one form of texts.

    :param marks: whether there are boundaries of words in it, so that marks are moved.
    :ivar numbers: Python's number of each capturing group, by Java's; 0 is all of the match.
    """

    def __init__(self, form: Form, properties: Properties, marks: bool) -> None:
        self._form = form
        self._properties = properties
        self._marks = properties.marks - SUPPLEMENTARY if marks else CharSet(())
        self._groups = 0
        self.numbers: dict[int, int] = {0: 0}

    def write(self, node: Node) -> str:
        """The pattern, which may be alternatives."""
        if isinstance(node, Choice):
            return "|".join(map(self.write, node.options))
        if isinstance(node, Sequence):
            return "".join(map(self._part, node.parts))
        return self._part(node)

    def _part(self, node: Node) -> str:
        """A part of a sequence."""
        if isinstance(node, Chars):
            return self._chars(node.set)
        if isinstance(node, Repeat):
            return self._repeat(node)
        if isinstance(node, Group):
            return self._group(node)
        if isinstance(node, Look):
            return self._look(node)
        if isinstance(node, Atomic):
            return self._atomic(node.body)
        if isinstance(node, Anchor):
            return _PLACES[node.place]
        if isinstance(node, Boundary):
            return self._boundary(node)
        if isinstance(node, BackReference):
            return self._reference(node)
        if isinstance(node, LineBreak):
            return f"(?:\r\n|{_BREAKS})"
        return f"(?:{self.write(node)})"

    def _reference(self, node: BackReference) -> str:
        if node.number not in self.numbers:
            return "(?!)"
        return f"({'?i' if node.ignore_case else '?'}:\\{self.numbers[node.number]})"

    def _chars(self, points: CharSet) -> str:
        if self._form is Form.UNITS:
            return set_writer.in_units(points, self._marks)
        if self._form is Form.BMP:
            return set_writer.plain(set_writer.moved(points, self._marks))
        return set_writer.plain(points)

    def _group(self, node: Group) -> str:
        if not node.number:
            return f"(?:{self.write(node.body)})"
        self._groups += 1
        self.numbers[node.number] = self._groups
        return f"({self.write(node.body)})"

    def _atomic(self, body: Node) -> str:
        if one_way(body):
            return f"(?:{self.write(body)})"
        return self._kept(lambda: self.write(body))

    def _kept(self, write: Callable[[], str]) -> str:
        self._groups += 1
        number = self._groups
        return f"(?:(?=({write()}))\\{number})"

    def _repeat(self, node: Repeat) -> str:
        if node.greed == "possessive":
            return self._kept(lambda: self._repeated(node, self._atomic(node.body)))
        if deterministic(node.body):
            return self._repeated(node, self._without_return(node.body))
        return self._repeated(node, self._unit(node.body))

    def _without_return(self, node: Node) -> str:
        """What Java repeats without going back into it."""
        if one_way(node):
            return self._unit(node)
        if isinstance(node, Group) and node.number:
            self._groups += 1
            self.numbers[node.number] = self._groups
            return f"({self._atomic(node.body)})"
        return self._atomic(node)

    def _unit(self, node: Node) -> str:
        """As a quantifier takes it."""
        if isinstance(node, Group) or (isinstance(node, Chars) and self._form is not Form.UNITS):
            return self._part(node)
        return f"(?:{self.write(node)})"

    def _repeated(self, node: Repeat, unit: str) -> str:
        if (node.low, node.high) == (0, 1):
            quantifier = "?"
        elif node.high is None and node.low < 2:
            quantifier = "+" if node.low else "*"
        else:
            high = "" if node.high is None else node.high
            quantifier = f"{{{node.low},{high}}}"
        return f"{unit}{quantifier}{'?' if node.greed == 'lazy' else ''}"

    def _look(self, node: Look) -> str:
        sign = "!" if node.negative else "="
        if node.ahead:
            return f"(?{sign}{self.write(node.body)})"
        ways = self._ways(node.body)
        least, most = _lengths(node.body)
        behind: dict[int, list[str]] = {}
        for length, text in ways:
            if least <= length <= most:
                behind.setdefault(length, []).append(text)
        looks = [f"(?<{sign}{'|'.join(texts)})" for texts in behind.values()]
        return "".join(looks) if node.negative else f"(?:{'|'.join(looks) or '(?!)'})"

    def _ways(self, node: Node) -> list[tuple[int, str]]:
        """Lengths and patterns of a look-behind, in all ways that it can have."""
        ways: list[tuple[int, str]]
        if isinstance(node, Chars):
            if self._form is not Form.UNITS:
                return [(1, self._chars(node.set))]
            single = set_writer.one_unit(node.set, self._marks)
            two = set_writer.pairs(node.set)
            ways = [(1, set_writer.in_brackets(single))] if single else []
            return [*ways, *([(2, two)] if two else [])]
        if isinstance(node, Choice):
            return [way for option in node.options for way in self._ways(option)]
        if isinstance(node, Group):
            return self._ways(node.body)
        if isinstance(node, Repeat):
            assert node.high is not None
            if node.high > _LENGTHS_MAX:
                raise UnsupportedRegexError("its look-behind has too many lengths")
            once = self._ways(node.body)
            ways, some = [], [(0, "")]
            for count in range(node.high + 1):
                if count >= node.low:
                    ways += some
                some = _joined(some, once)
            return ways
        if isinstance(node, Sequence):
            ways = [(0, "")]
            for part in node.parts:
                ways = _joined(ways, self._ways(part))
            return ways
        return [(0, self._part(node))]

    def _boundary(self, node: Boundary) -> str:
        if self._form is Form.PLAIN:
            return "(?!\\b)" if node.negative else "\\b"
        points = self._properties.word_at_boundaries(node.unicode)
        single = set_writer.one_unit(points, self._marks) | _MOVED_MARKS
        word = set_writer.in_brackets(single)
        before, ahead = [f"(?<={word})"], [word]
        if self._form is Form.UNITS:
            if two := set_writer.pairs(points):
                before.append(f"(?<={two})")
                ahead.append(two)
            if marks := set_writer.pairs(self._properties.marks):
                base = set_writer.in_brackets(
                    set_writer.one_unit(self._properties.letters_or_digits, CharSet(()))
                    | _MOVED_MARKS
                )
                ahead.append(f"(?<={base}){marks}")
        left = f"(?:{'|'.join(before)})"
        right = "|".join(ahead)
        same = f"{left}(?={right})|(?!{left})(?!{right})"
        changes = f"{left}(?!{right})|(?!{left})(?={right})"
        return f"(?:{same if node.negative else changes})"


def _joined(left: list[tuple[int, str]], right: list[tuple[int, str]]) -> list[tuple[int, str]]:
    if len(left) * len(right) > _LENGTHS_MAX:
        raise UnsupportedRegexError("its look-behind has too many lengths")
    return [(a + b, first + second) for a, first in left for b, second in right]


def _lengths(node: Node) -> tuple[int, int]:
    """The least and the greatest number of characters of a look-behind."""
    if isinstance(node, Chars):
        return 1, 1
    if isinstance(node, Choice):
        each = [_lengths(option) for option in node.options]
        return min(low for low, _ in each), max(high for _, high in each)
    if isinstance(node, Sequence):
        each = [_lengths(part) for part in node.parts]
        return sum(low for low, _ in each), sum(high for _, high in each)
    if isinstance(node, Group):
        return _lengths(node.body)
    if isinstance(node, Repeat):
        low, high = _lengths(node.body)
        assert node.high is not None
        return node.low * low, node.high * high
    return 0, 0
