"""Pattern → tree, by the grammar of Java's parser, with its oddities.

Refused here: ``\\G``, ``\\X``, ``\\b{g}``, ``\\N{..}``, the flag ``c``, references to groups that
are not closed yet, and properties that are not known for this version of Java.

Source: ``java.util.regex.Pattern`` (``expr``, ``sequence``, ``atom``, ``group0``, ``closure``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from engine.expressions.texts.java_regex.char_sets import EVERY, LINE_ENDS, CharSet
from engine.expressions.texts.java_regex.classes import ClassParser, single
from engine.expressions.texts.java_regex.escapes import (
    ILLEGAL,
    code_point,
    property_class,
    shorthand,
    stands_for_a_character,
)
from engine.expressions.texts.java_regex.faithful import has_no_greatest_length
from engine.expressions.texts.java_regex.predicates import Predicate, both_cases
from engine.expressions.texts.java_regex.properties import Properties
from engine.expressions.texts.java_regex.reader import Reader
from engine.expressions.texts.java_regex.syntax import (
    Anchor,
    Atomic,
    BackReference,
    Boundary,
    Chars,
    Choice,
    Greed,
    Group,
    LineBreak,
    Look,
    Node,
    Place,
    Repeat,
    Sequence,
)

_INT_MAX: Final = 2**31 - 1
_NOT_CLOSED: Final = "it refers back to a group that is not closed there"
_FLAGS: Final = {
    "i": "ignore_case", "m": "multiline", "s": "dot_all", "d": "unix_lines", "u": "unicode_case",
    "x": "comments", "U": "unicode_classes",
}  # fmt: skip
_LETTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_DIGITS: Final = frozenset("0123456789")


@dataclass(frozen=True)
class Parsed:
    """A pattern that has been read.

    :param groups: how many groups capture.
    :param names: of groups → their numbers.
    :param whole_characters: Java does not look for a match between the halves of a character beyond
        U+FFFF, except where it goes on behind an empty match.
    """

    root: Node
    groups: int
    names: dict[str, int]
    whole_characters: bool


def parse(pattern: str, properties: Properties) -> Parsed:
    """Read a pattern.

    :raises InvalidRegexError: Java refuses it.
    :raises UnsupportedRegexError: there is something in it that is not supported.
    """
    parser = _Parser(pattern, properties)
    root = parser.parse()
    return Parsed(root, parser.groups, parser.names, parser.whole_characters)


class _Parser:
    def __init__(self, pattern: str, properties: Properties) -> None:
        self._reader = Reader(pattern)
        self._properties = properties
        self._classes = ClassParser(self._reader, properties, self._sees_whole_characters)
        self._closed: set[int] = set()
        self._ahead: set[int] = set()
        self.groups = 0
        self.names: dict[str, int] = {}
        self.whole_characters = any(char > "\uffff" for char in pattern)

    def parse(self) -> Node:
        """The whole pattern."""
        root = self._choice()
        if self._reader.peek() == ")":
            raise self._reader.invalid("Unmatched closing ')'")
        if any(number <= self.groups for number in self._ahead):
            raise self._reader.unsupported(_NOT_CLOSED)
        return root

    def _sees_whole_characters(self) -> None:
        self.whole_characters = True

    def _choice(self) -> Node:
        options = [self._sequence()]
        while self._reader.peek() == "|":
            self._reader.next()
            options.append(self._sequence())
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while (char := self._reader.peek()) not in ("", "|", ")"):
            if char == "(":
                group = self._group()
                if group is not None:
                    parts.append(group)
                continue
            if char in "?*+":
                raise self._reader.invalid(f"Dangling meta character '{char}'")
            part = self._closure(self._simple(char))
            parts += part.parts if isinstance(part, Sequence) else (part,)
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _simple(self, char: str) -> Node:
        flags = self._reader.flags
        if char == "[":
            return self._chars(self._classes.parse())
        if char == "\\" and self._reader.at(1) in ("p", "P"):
            self._reader.position += 1
            found, complement = property_class(self._reader, self._properties)
            self.whole_characters |= complement
            return self._chars(found)
        if char == "^":
            self._reader.position += 1
            lines: Place = "unix line start" if flags.unix_lines else "line start"
            return Anchor(lines if flags.multiline else "start")
        if char == "$":
            self._reader.position += 1
            return self._dollar(flags.multiline)
        if char == ".":
            self._reader.position += 1
            # Of this alone Java forgets that it may be a character beyond U+FFFF.
            ends = CharSet.chars("\n") if flags.unix_lines else LINE_ENDS
            return Chars(EVERY if flags.dot_all else ~ends)
        return self._atom()

    def _dollar(self, multiline: bool) -> Anchor:
        if self._reader.flags.unix_lines:
            return Anchor("unix line end" if multiline else "unix last line end")
        return Anchor("line end" if multiline else "last line end")

    def _chars(self, predicate: Predicate) -> Chars:
        self.whole_characters |= not predicate.bmp
        return Chars(predicate.set)

    def _atom(self) -> Node:
        """Characters up to a quantifier, which takes the last of them alone, or an escape."""
        points: list[int] = []
        before_last = -1
        while char := self._reader.peek():
            if char in "*+?{":
                if len(points) > 1:
                    self._reader.position = before_last
                    points.pop()
                break
            if char in "$.^([|)":
                break
            if char != "\\":
                before_last = self._reader.position
                points.append(self._code(char))
                self._reader.position += 1
            elif stands_for_a_character(self._reader.at(1)):
                before_last = self._reader.position
                self._reader.position += 1
                points.append(code_point(self._reader))
            elif points:
                break
            else:
                self._reader.position += 1
                return self._escape()
        if len(points) == 1:
            return self._chars(single(points[0], self._reader, self._properties))
        return Sequence(tuple(Chars(self._in_slice(point)) for point in points))

    def _code(self, char: str) -> int:
        if "\ud800" <= char <= "\udfff":
            raise self._reader.unsupported("it has half of a surrogate pair")
        return ord(char)

    def _in_slice(self, point: int) -> CharSet:
        flags = self._reader.flags
        points = CharSet.points([point])
        if not flags.ignore_case:
            return points
        if flags.unicode_case:
            return self._properties.cases.in_slice(point)
        return both_cases(points)

    def _escape(self) -> Node:
        char = self._reader.raw()
        if char in _DIGITS:
            return self._back_reference(self._number(char))
        if char == "A":
            return Anchor("start")
        if char == "z":
            return Anchor("end")
        if char == "Z":
            return self._dollar(False)
        if char == "R":
            return LineBreak()
        if char in ("b", "B"):
            return self._boundary(char == "B")
        if char == "k":
            return self._back_reference(self._named())
        if char in ("G", "X"):
            raise self._reader.unsupported(f"it has \\{char}")
        found = shorthand(self._reader, self._properties, char)
        if found is None:
            raise self._reader.invalid(ILLEGAL)
        return self._chars(found)

    def _boundary(self, negative: bool) -> Node:
        if not negative and self._reader.at(0) == "{":
            raise self._reader.unsupported("it has \\b{")
        if not self._properties.known:
            raise self._reader.unsupported("what \\b matches is not known for this Java")
        return Boundary(self._reader.flags.unicode_classes, negative)

    def _number(self, first: str) -> int:
        """As many digits as there are groups so far."""
        number = int(first)
        while (char := self._reader.peek()) in _DIGITS and number * 10 + int(char) <= self.groups:
            number = number * 10 + int(char)
            self._reader.position += 1
        return number

    def _named(self) -> int:
        if self._reader.read() != "<":
            raise self._reader.invalid("\\k is not followed by '<' for named capturing group")
        name = self._group_name(self._reader.read())
        if name not in self.names:
            raise self._reader.invalid(f"named capturing group <{name}> does not exist")
        return self.names[name]

    def _back_reference(self, number: int) -> Node:
        flags = self._reader.flags
        if number > self.groups:
            self._ahead.add(number)
        elif number not in self._closed:
            raise self._reader.unsupported(_NOT_CLOSED)
        if flags.ignore_case and flags.unicode_case:
            raise self._reader.unsupported("it refers back with the flags i and u")
        return BackReference(number, flags.ignore_case)

    def _group_name(self, char: str) -> str:
        if char not in _LETTERS:
            raise self._reader.invalid("capturing group name does not start with a Latin letter")
        name = ""
        while char in _LETTERS or char in _DIGITS:
            name += char
            char = self._reader.read()
        if char != ">":
            raise self._reader.invalid("named capturing group is missing trailing '>'")
        return name

    def _group(self) -> Node | None:
        """None for flags alone. The cursor is at the parenthesis."""
        flags = self._reader.flags
        node: Node
        if self._reader.next() != "?":
            node = self._capturing(None)
        else:
            kind = self._reader.at(1)
            self._reader.position += 2
            if kind == ":":
                node = Group(self._choice(), 0)
            elif kind in ("=", "!"):
                node = Look(self._choice(), True, kind == "!")
            elif kind == ">":
                node = Atomic(self._choice())
            elif kind == "<":
                char = self._reader.read()
                if char in ("=", "!"):
                    node = self._look_behind(char == "!")
                else:
                    name = self._group_name(char)
                    if name in self.names:
                        reason = f"Named capturing group <{name}> is already defined"
                        raise self._reader.invalid(reason)
                    node = self._capturing(name)
            elif kind in ("$", "@"):
                raise self._reader.invalid("Unknown group type")
            else:
                self._reader.position -= 1
                self._set_flags()
                char = self._reader.read()
                if char == ")":
                    return None
                if char != ":":
                    raise self._reader.invalid("Unknown inline modifier")
                node = Group(self._choice(), 0)
        if self._reader.read() != ")":
            raise self._reader.invalid("Unclosed group")
        if isinstance(node, Group) and node.number:
            self._closed.add(node.number)
        self._reader.flags = flags
        return self._closure(node)

    def _look_behind(self, negative: bool) -> Look:
        body = self._choice()
        if has_no_greatest_length(body):
            reason = "Look-behind group does not have an obvious maximum length"
            raise self._reader.invalid(reason)
        if any(char > "\uffff" for char in self._reader.pattern):
            raise self._reader.unsupported(
                "it has a look-behind and characters beyond U+FFFF: write them as \\x{..}"
            )
        return Look(body, False, negative)

    def _capturing(self, name: str | None) -> Group:
        self.groups += 1
        number = self.groups
        if name is not None:
            self.names[name] = number
        return Group(self._choice(), number)

    def _set_flags(self) -> None:
        wanted = True
        while True:
            char = self._reader.peek()
            if char == "-" and wanted:
                wanted = False
            elif char == "c":
                raise self._reader.unsupported("it has the flag c")
            elif char in _FLAGS:
                changes = {_FLAGS[char]: wanted}
                if char == "U":
                    changes["unicode_case"] = wanted
                self._reader.flags = replace(self._reader.flags, **changes)
            else:
                return
            self._reader.position += 1

    def _closure(self, node: Node) -> Node:
        """The node with the quantifier that follows, if one does."""
        char = self._reader.peek()
        if char == "?":
            return Repeat(node, 0, 1, self._greed())
        if char == "*":
            return Repeat(node, 0, None, self._greed())
        if char == "+":
            return Repeat(node, 1, None, self._greed())
        if char == "{":
            return self._counted(node)
        return node

    def _counted(self, node: Node) -> Node:
        char = self._reader.at(1)
        self._reader.position += 2
        if char not in _DIGITS:
            raise self._reader.invalid("Illegal repetition")
        low, char = self._count(char)
        high: int | None = low
        if char == ",":
            char = self._reader.read()
            if char == "}":
                high = None
            else:
                high, char = self._count(char)
        if char != "}":
            raise self._reader.invalid("Unclosed counted closure")
        if high is not None and high < low:
            raise self._reader.invalid("Illegal repetition range")
        self._reader.position -= 1
        return Repeat(node, low, None if high == _INT_MAX else high, self._greed())

    def _count(self, char: str) -> tuple[int, str]:
        """A number, and the character behind it."""
        count = 0
        while char in _DIGITS:
            count = count * 10 + int(char)
            if count > _INT_MAX:
                raise self._reader.invalid("Illegal repetition range")
            char = self._reader.read()
        return count, char

    def _greed(self) -> Greed:
        """The cursor is at the quantifier's last character."""
        char = self._reader.next()
        if char not in ("?", "+"):
            return "greedy"
        self._reader.position += 1
        return "lazy" if char == "?" else "possessive"
