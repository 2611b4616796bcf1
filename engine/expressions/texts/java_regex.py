"""Java's regular expressions, as Spark uses them, run by Python's :mod:`re` or by Arrow's RE2.

:func:`compile_java_regex` reads a pattern by the grammar of ``java.util.regex.Pattern`` and writes
one that matches the same texts and captures the same groups. What would mean something else, or
cannot be known to mean the same, is refused with the reason (:class:`UnsupportedRegexError`).

Written differently, because the same text means something else:

- ``.`` does not match ``\\n``, ``\\r``, U+0085, U+2028 or U+2029 (unless ``(?s)``);
- ``$`` and ``\\Z`` match before a line terminator at the end, which may be ``\\r\\n``;
- ``\\d \\w \\s`` and ``(?i)`` know ASCII alone; ``\\h``, ``\\v``, ``\\R``, ``\\Q..\\E``, ``\\e``,
  ``\\a``, ``\\cX``, ``\\0n``, ``\\p{Alpha}`` and the other POSIX classes.

Refused: ``\\b`` and ``\\B`` (Java 19 changed which characters are part of a word), Unicode
properties (their members depend on Java's Unicode version), look-behind, possessive and atomic
groups, flags other than ``(?i)`` and ``(?s)``, nested classes and intersections, and back
references to groups that are not closed yet.

Java's texts are UTF-16: an unanchored search can start between the two halves of a character
beyond U+FFFF. That is told apart only by patterns refused here, and by those that can match an
empty text when they are looked for repeatedly: see :attr:`JavaRegex.may_match_empty`.

Source: ``java.util.regex.Pattern`` of Java 17.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_LINE_ENDS: Final = "\n\r\x85\u2028\u2029"
_NOT_LINE_END: Final = f"[^{_LINE_ENDS}]"
_DOLLAR: Final = "(?=\\r\\n\\Z|(?:(?<!\\r)\\n|[\\r\x85\u2028\u2029])?\\Z)"
_SHORTHANDS: Final = {
    "d": "0-9",
    "w": "a-zA-Z_0-9",
    "s": " \\t\\n\\x0b\\f\\r",
    "h": " \\t\xa0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000",
    "v": "\\n\\x0b\\f\\r\x85\u2028\u2029",
}
_POSIX: Final = {
    "Lower": "a-z", "Upper": "A-Z", "ASCII": "\\x00-\\x7f", "Alpha": "a-zA-Z", "Digit": "0-9",
    "Alnum": "a-zA-Z0-9", "Punct": "!-/:-@\\[-`{-~", "Graph": "!-~", "Print": " -~",
    "Blank": " \\t", "Cntrl": "\\x00-\\x1f\\x7f", "XDigit": "0-9a-fA-F",
    "Space": " \\t\\n\\x0b\\f\\r",
}  # fmt: skip
_CONTROL: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_UNBOUNDED: Final = 2**31 - 1
_RE2_REPEAT_MAX: Final = 1000


class UnsupportedRegexError(ValueError):
    """Why a pattern is not run here."""


@dataclass(frozen=True)
class JavaRegex:
    """A translated pattern.

    :param pattern: for Python.
    :param re2: the same for Arrow's kernels, where RE2 is known to find the same; else None.
    :param groups: the number of capturing groups.
    :param group_names: name → number.
    :param may_match_empty: whether the pattern can match an empty text. Java then looks for it
        between the halves of characters beyond U+FFFF too.
    :param literal: the text itself, if the pattern is nothing but a text.
    """

    pattern: re.Pattern[str]
    re2: str | None
    groups: int
    group_names: dict[str, int]
    may_match_empty: bool
    literal: str | None


def compile_java_regex(pattern: str) -> JavaRegex:
    """Translate a pattern.

    :raises UnsupportedRegexError: it means something else in Python, or is no valid pattern.
    """
    parser = _Parser(pattern)
    text, minimum = parser.parse()
    flags = re.ASCII | (re.IGNORECASE if parser.ignore_case else 0)
    try:
        compiled = re.compile(text, flags)
    except (re.error, OverflowError, RecursionError) as error:
        raise UnsupportedRegexError(f"the pattern {pattern!r} is not understood: {error}") from None
    return JavaRegex(
        pattern=compiled,
        re2=text if parser.for_re2 and not parser.ignore_case else None,
        groups=parser.groups,
        group_names=parser.names,
        may_match_empty=minimum == 0,
        literal=parser.literal,
    )


class _Parser:
    """Recursive descent over the pattern. Every method returns Python's text and the least number
    of characters that it matches."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._position = 0
        self._dot_all = False
        self._quoted = False
        self._closed: set[int] = set()
        self._literal: list[str] | None = []
        self.ignore_case = False
        self.groups = 0
        self.names: dict[str, int] = {}
        self.for_re2 = True

    @property
    def literal(self) -> str | None:
        if self._literal is None or self.ignore_case:
            return None
        return "".join(self._literal)

    def parse(self) -> tuple[str, int]:
        """The whole pattern."""
        self._leading_flags()
        text, minimum = self._alternatives()
        if self._position < len(self._pattern):
            raise self._refusal("it has an unmatched ')'")
        return text, minimum

    def _leading_flags(self) -> None:
        while match := re.compile(r"\(\?([is]+)\)").match(self._pattern, self._position):
            self.ignore_case |= "i" in match[1]
            self._dot_all |= "s" in match[1]
            self._position = match.end()

    def _alternatives(self) -> tuple[str, int]:
        text, minimum = self._sequence()
        while self._accept("|"):
            self._literal = None
            more, least = self._sequence()
            text, minimum = f"{text}|{more}", min(minimum, least)
        return text, minimum

    def _sequence(self) -> tuple[str, int]:
        parts, total = [], 0
        while self._quoted or self._peek() not in ("", "|", ")"):
            atom = self._atom()
            if atom is None:
                continue
            text, minimum = self._quantified(*atom)
            parts.append(text)
            total += minimum
        return "".join(parts), total

    def _quantified(self, text: str, minimum: int) -> tuple[str, int]:
        if self._quoted and self._accept("\\E"):
            self._quoted = False  # what follows repeats the last character quoted
        if self._quoted:
            return text, minimum
        char = self._peek()
        if char in ("*", "+", "?") and char:
            self._position += 1
            low, high, suffix = int(char == "+"), 1 if char == "?" else _UNBOUNDED, char
        elif char == "{":
            bounds = re.compile(r"\{(\d+)(,?)(\d*)\}").match(self._pattern, self._position)
            if bounds is None or (bounds[3] and not bounds[2]):
                raise self._refusal("'{' does not start a repetition")
            self._position = bounds.end()
            low = int(bounds[1])
            high = int(bounds[3]) if bounds[3] else _UNBOUNDED if bounds[2] else low
            suffix = bounds[0]
            if low > high or low >= _UNBOUNDED:
                raise self._refusal("it has a repetition out of range")
            if max(low, high if high < _UNBOUNDED else 0) > _RE2_REPEAT_MAX:
                self.for_re2 = False
        else:
            return text, minimum
        self._literal = None
        if self._accept("+"):
            raise self._refusal("it has a possessive quantifier")
        if self._accept("?"):
            suffix += "?"
        if self._peek() in ("*", "+", "?", "{") and self._peek():
            raise self._refusal("it has a quantifier after a quantifier")
        if minimum == 0:
            # Engines differ in what a repeated empty match captures.
            raise self._refusal("it repeats what can be empty")
        return text + suffix, minimum * low

    def _atom(self) -> tuple[str, int] | None:
        """None for what stands for nothing, as ``\\Q``."""
        if self._quoted:
            if self._accept("\\E"):
                self._quoted = False
                return None
            if self._position == len(self._pattern):
                self._quoted = False
                return None
            return self._character(self._next())
        char = self._next()
        if char == "\\":
            return self._escape()
        if char == "(":
            self._literal = None
            return self._group()
        if char == "[":
            self._literal = None
            return self._class(), 1
        if char == ".":
            self._literal = None
            return ("(?s:.)" if self._dot_all else _NOT_LINE_END), 1
        if char == "^":
            self._literal = None
            return "\\A", 0
        if char == "$":
            return self._dollar()
        if char in "*+?{":
            raise self._refusal(f"{char!r} has nothing to repeat")
        return self._character(char)

    def _dollar(self) -> tuple[str, int]:
        self._literal = None
        self.for_re2 = False
        return _DOLLAR, 0

    def _character(self, char: str) -> tuple[str, int]:
        if "\ud800" <= char <= "\udfff":
            raise self._refusal("it has half of a surrogate pair")
        if self._literal is not None:
            self._literal.append(char)
        return _quote(char), 1

    def _group(self) -> tuple[str, int]:
        opening, number, zero_width = "(?:", 0, False
        dot_all = self._dot_all
        if not self._accept("?"):
            opening, number = "(", self._new_group()
        elif self._accept(":"):
            pass
        elif self._peek() in ("=", "!"):
            opening, zero_width = f"(?{self._next()}", True
            self.for_re2 = False
        elif name := self._match(r"<([a-zA-Z][a-zA-Z0-9]*)>"):
            if name in self.names:
                raise self._refusal(f"two groups are named {name}")
            opening, number = f"(?P<{name}>", self._new_group()
            self.names[name] = number
        elif self._peek() == "<":
            raise self._refusal("it has a look-behind")
        elif self._peek() == ">":
            raise self._refusal("it has an atomic group")
        elif flags := self._match(r"(s):"):
            opening = "(?:"
            self._dot_all |= "s" in flags
        else:
            raise self._refusal("flags are supported only as (?i) or (?s) at the start")
        text, minimum = self._alternatives()
        if not self._accept(")"):
            raise self._refusal("a group is not closed")
        self._dot_all = dot_all
        if number:
            self._closed.add(number)
        return f"{opening}{text})", 0 if zero_width else minimum

    def _new_group(self) -> int:
        self.groups += 1
        return self.groups

    def _escape(self) -> tuple[str, int] | None:
        char = self._peek()
        if char == "Q":
            self._position += 1
            self._quoted = True
            return None
        if char.isdigit() and char != "0":
            return self._back_reference(int(self._next()))
        if name := self._match(r"k<([a-zA-Z][a-zA-Z0-9]*)>"):
            return self._back_reference(self.names.get(name, 0))
        if char in _ANCHORS and char:
            self._position += 1
            self._literal = None
            if char == "Z":
                return self._dollar()
            self.for_re2 = self.for_re2 and char == "A"
            return _ANCHORS[char], 0
        if char == "R" and char:
            self._position += 1
            self._literal = None
            self.for_re2 = False
            return "(?:\\r\\n|[\\n\\x0b\\f\\r\x85\u2028\u2029])", 1
        members = self._shorthand()
        if members is not None:
            self._literal = None
            return members, 1
        return self._character(self._escaped_character())

    def _back_reference(self, number: int) -> tuple[str, int]:
        self._literal = None
        if number not in self._closed:
            raise self._refusal("it refers back to a group that is not closed there")
        if self._peek().isdigit():
            raise self._refusal("a digit follows a back reference")
        self.for_re2 = False
        return f"(?:\\{number})", 0

    def _shorthand(self) -> str | None:
        """``\\d``, ``\\P{Alpha}`` and so on as a class in brackets."""
        char = self._peek()
        if char and char in "pP":
            self._position += 1
            name = self._match(r"\{(\w+)\}")
            if name not in _POSIX:
                raise self._refusal("Unicode properties depend on the version of Java")
            if self.ignore_case and name in ("Lower", "Upper"):
                raise self._refusal(f"\\p{{{name}}} ignores case differently")
            return f"[{'^' if char == 'P' else ''}{_POSIX[name]}]"
        if char and char.lower() in _SHORTHANDS:
            self._position += 1
            return f"[{'^' if char.isupper() else ''}{_SHORTHANDS[char.lower()]}]"
        return None

    def _escaped_character(self) -> str:
        char = self._next()
        if char in _CONTROL and char:
            return _CONTROL[char]
        if char == "0" and (octal := self._match(r"([0-3][0-7][0-7]|[0-7][0-7]?)")):
            return chr(int(octal, 8))
        if char == "x" and (code := self._match(r"([0-9a-fA-F]{2})|\{([0-9a-fA-F]+)\}")):
            if int(code, 16) <= 0x10FFFF:
                return chr(int(code, 16))
        elif char == "u" and (code := self._match(r"([0-9a-fA-F]{4})")):
            high = int(code, 16)
            if 0xD800 <= high < 0xDC00 and (low := self._match(r"\\u([dD][c-fC-F][0-9a-fA-F]{2})")):
                return chr(0x10000 + ((high - 0xD800) << 10) + int(low, 16) - 0xDC00)
            return chr(high)
        elif char == "c" and self._position < len(self._pattern):
            return chr(ord(self._next()) ^ 64)
        elif char and not (char.isascii() and char.isalnum()):
            return char
        if char in "bB" and char:
            raise self._refusal(f"what \\{char} matches depends on the version of Java")
        raise self._refusal(f"\\{char} is not supported")

    def _class(self) -> str:
        """The rest of a class in brackets."""
        negated = self._accept("^")
        members: list[str] = []
        while True:
            char = self._next()
            if char == "]" and members:
                break
            if char in ("", "]", "["):
                raise self._refusal("it has a class with an empty, nested or open bracket")
            if char == "&" and self._peek() == "&":
                raise self._refusal("it has an intersection of classes")
            if char == "^" and not negated and not members:
                raise self._refusal("it has an empty class")
            if char == "\\":
                if self._peek() in ("Q", "R") or self._peek() in set("123456789"):
                    raise self._refusal("it has an escape that is not supported in a class")
                shorthand = self._shorthand()
                if shorthand is not None:
                    members.append(self._class_members(shorthand))
                    continue
                char = self._escaped_character()
            members.append(self._range(char))
        return f"[{'^' if negated else ''}{''.join(members)}]"

    def _class_members(self, shorthand: str) -> str:
        if not shorthand.startswith("[^"):
            return shorthand[1:-1]
        if shorthand[2:-1] in (_SHORTHANDS["d"], _SHORTHANDS["w"]):
            return "\\D" if shorthand[2:-1] == _SHORTHANDS["d"] else "\\W"
        if shorthand[2:-1] == _SHORTHANDS["s"]:
            self.for_re2 = False
            return "\\S"
        raise self._refusal("it has a negated class inside of a class")

    def _range(self, low: str) -> str:
        high = low
        if self._peek() == "-" and self._peek(1) not in ("]", ""):
            self._position += 1
            high = self._next()
            if high in "[&":
                raise self._refusal("it has a nested class or an intersection")
            if high == "\\":
                if self._peek() and self._peek() in "dDwWsShHvVpPQR123456789":
                    raise self._refusal("it has a range without an end")
                high = self._escaped_character()
        if low > high:
            raise self._refusal("it has a range whose start is after its end")
        if low <= "\udfff" and high >= "\ud800":
            raise self._refusal("it has a range that includes surrogates")
        if self.ignore_case and low != high and not _of_one_case(low, high):
            raise self._refusal("it has a range of letters and others, ignoring case")
        return _quote(low) if low == high else f"{_quote(low)}-{_quote(high)}"

    def _peek(self, ahead: int = 0) -> str:
        index = self._position + ahead
        return self._pattern[index : index + 1]

    def _next(self) -> str:
        char = self._peek()
        self._position += 1
        return char

    def _accept(self, text: str) -> bool:
        if not self._pattern.startswith(text, self._position):
            return False
        self._position += len(text)
        return True

    def _match(self, pattern: str) -> str | None:
        """The first group of ``pattern`` that took part, if it matches here."""
        match = re.compile(pattern).match(self._pattern, self._position)
        if match is None:
            return None
        self._position = match.end()
        return next(group for group in match.groups() if group is not None)

    def _refusal(self, reason: str) -> UnsupportedRegexError:
        return UnsupportedRegexError(f"the pattern {self._pattern!r} is not supported: {reason}")


_ANCHORS: Final = {"A": "\\A", "z": "\\Z", "Z": ""}


def _of_one_case(low: str, high: str) -> bool:
    return any(start <= low and high <= end for start, end in ("09", "az", "AZ", "\x80\U0010ffff"))


def _quote(char: str) -> str:
    """One character, as Python and RE2 both read it, in and out of classes."""
    if char.isalnum() or not char.isascii() or char in " _\"'`,;:<>@%!/=":
        return char
    return f"\\{char}" if char.isprintable() else f"\\x{ord(char):02x}"
