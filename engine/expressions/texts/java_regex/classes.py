"""Classes in brackets: unions, intersections, complements.

Java's class has one set of bits for the characters up to U+00FF that stand in it alone. What comes
behind an intersection still goes into these bits, and so into what the intersection was made of.

Source: ``java.util.regex.Pattern`` (``clazz``, ``range``, ``bitsOrSingle``, ``single``).
"""

from __future__ import annotations

from collections.abc import Callable

from engine.expressions.texts.java_regex.char_sets import CharSet
from engine.expressions.texts.java_regex.escapes import (
    ILLEGAL,
    code_point,
    property_class,
    shorthand,
    stands_for_a_character,
)
from engine.expressions.texts.java_regex.predicates import Predicate, both_cases
from engine.expressions.texts.java_regex.properties import Properties
from engine.expressions.texts.java_regex.reader import Reader

_UNICODE_CASED = frozenset((0xFF, 0xB5, 0x49, 0x69, 0x53, 0x73, 0x4B, 0x6B, 0xC5, 0xE5))
"""Below U+0100, with another case above."""
_Later = Callable[[], Predicate]


class ClassParser:
    """Reads a class from its opening bracket on.

    :param complements: is called for each ``\\P{..}``.
    """

    def __init__(
        self, reader: Reader, properties: Properties, complements: Callable[[], None]
    ) -> None:
        self._reader = reader
        self._properties = properties
        self._complements = complements

    def parse(self, consume: bool = True) -> Predicate:
        """:param consume: the closing bracket is read, too."""
        bits: list[CharSet] = []

        def of_bits() -> Predicate:
            return Predicate(CharSet.of(r for each in bits for r in each.ranges))

        previous: _Later | None = None
        current: _Later | None = None
        negated = pending = False
        char = self._next()
        if char == "^" and self._reader.at(-1) == "[":
            char, negated = self._next(), True
        while True:
            if char == "[":
                current = _known(self.parse())
                previous = _union(previous, current)
                char = self._peek()
                continue
            if char == "&" and self._reader.at(1) == "&":
                right = self._right_side()
                if pending:
                    if previous is None:
                        previous = current = of_bits
                    else:
                        previous = _union(previous, of_bits)
                    pending = False
                if right is not None:
                    current = _known(right)
                if previous is None:
                    if right is None:
                        raise self._reader.invalid("Bad class syntax")
                    previous = _known(right)
                elif current is None:
                    raise self._reader.invalid("Bad intersection syntax")
                else:
                    previous = _intersection(previous, current)
                char = self._peek()
                continue
            if not char:
                raise self._reader.invalid("Unclosed character class")
            if char == "]" and (previous is not None or pending):
                if consume:
                    self._reader.position += 1
                if pending:
                    previous = _union(previous, of_bits)
                assert previous is not None
                return ~previous() if negated else previous()
            found = self._member(bits)
            current = None if found is None else _known(found)
            if current is None:
                pending = True
            else:
                previous = _union(previous, current)
            char = self._peek()

    def _right_side(self) -> Predicate | None:
        """What stands behind ``&&``."""
        self._reader.position += 1
        char, right = self._next(), None
        while char not in ("]", "&"):
            if char == "[":
                more = self.parse()
            else:
                self._reader.position -= 1
                more = self.parse(consume=False)
            right = more if right is None else right | more
            char = self._peek()
        return right

    def _member(self, bits: list[CharSet]) -> Predicate | None:
        """A character, range or class; None if it went into the bits."""
        char = self._peek()
        if char == "\\":
            self._reader.position += 1
            escaped = self._reader.at(0)
            if escaped in ("p", "P"):
                found, complement = property_class(self._reader, self._properties)
                if complement:
                    self._complements()
                return found
            if escaped == "v" and self._reader.at(1) == "-":
                self._reader.position += 1
                return self._range(0x0B, bits)
            if (short := shorthand(self._reader, self._properties, escaped)) is not None:
                self._reader.position += 1
                return short
            if not stands_for_a_character(escaped):
                raise self._reader.invalid(ILLEGAL)
            return self._range(code_point(self._reader), bits)
        self._reader.position += 1
        return self._range(self._code(char), bits)

    def _range(self, low: int, bits: list[CharSet]) -> Predicate | None:
        if self._peek() != "-" or self._reader.at(1) in ("[", "]"):
            return self._bits_or_single(low, bits)
        char = self._next()
        if char == "\\":
            self._reader.position += 1
            escaped = self._reader.at(0)
            if escaped == "v":
                self._reader.position += 1
                high = 0x0B
            elif shorthand(self._reader, self._properties, escaped) is not None:
                raise self._reader.invalid("Illegal character range")
            elif not stands_for_a_character(escaped):
                raise self._reader.invalid(ILLEGAL)
            else:
                high = code_point(self._reader)
        else:
            self._reader.position += 1
            high = self._code(char) if char else -1
        if high < low:
            raise self._reader.invalid("Illegal character range")
        flags = self._reader.flags
        points = CharSet(((low, high),))
        if not flags.ignore_case:
            return Predicate(points, high < 0xD800 or (low > 0xDFFF and high < 0x10000))
        if flags.unicode_case:
            return Predicate(self._properties.cases.range(low, high), False)
        return Predicate(both_cases(points), False)

    def _bits_or_single(self, point: int, bits: list[CharSet]) -> Predicate | None:
        flags = self._reader.flags
        with_unicode = flags.ignore_case and flags.unicode_case
        if point >= 256 or (with_unicode and point in _UNICODE_CASED):
            return single(point, self._reader, self._properties)
        points = CharSet.points([point])
        if flags.ignore_case and point < 128:
            points = both_cases(points)
        elif with_unicode:
            cases = self._properties.cases
            points |= CharSet.points([cases.lower(point), cases.upper(point)])
        bits.append(points)
        return None

    def _peek(self) -> str:
        char = self._reader.at(0)
        if self._reader.flags.comments and char and char in " \t\n\x0b\f\r#":
            raise self._reader.unsupported("it has white space in a class, and the flag x")
        return char

    def _next(self) -> str:
        self._reader.position += 1
        return self._peek()

    def _code(self, char: str) -> int:
        if "\ud800" <= char <= "\udfff":
            raise self._reader.unsupported("it has half of a surrogate pair")
        return ord(char)


def single(point: int, reader: Reader, properties: Properties) -> Predicate:
    """A character alone."""
    points, flags = CharSet.points([point]), reader.flags
    if flags.ignore_case and flags.unicode_case:
        folded = properties.cases.single(point)
        if folded is not None:
            return Predicate(folded, False)
    elif flags.ignore_case and point < 128:
        return Predicate(both_cases(points))
    return Predicate(points, point < 0x10000)


def _known(predicate: Predicate) -> _Later:
    return lambda: predicate


def _union(one: _Later | None, other: _Later) -> _Later:
    return other if one is None else lambda: one() | other()


def _intersection(one: _Later, other: _Later) -> _Later:
    return lambda: one() & other()
