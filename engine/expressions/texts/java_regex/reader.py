"""A cursor over a pattern's code points, as Java's parser has one.

``\\Q..\\E`` is rewritten first: letters stay, what else there is gets a backslash. With the flag
``x`` the cursor skips white space and comments, wherever the grammar looks for something.

Source: ``java.util.regex.Pattern`` (``RemoveQEQuoting``, ``peek``, ``read``).
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.expressions.texts.java_regex.errors import InvalidRegexError, UnsupportedRegexError

_SPACES = frozenset(" \t\n\x0b\f\r")
_LINE_ENDS = frozenset("\n\r\x85\u2028\u2029")


@dataclass(frozen=True)
class Flags:
    """Those that are set where the cursor stands: ``i m s d u x U``."""

    ignore_case: bool = False
    multiline: bool = False
    dot_all: bool = False
    unix_lines: bool = False
    unicode_case: bool = False
    comments: bool = False
    unicode_classes: bool = False


class Reader:
    """Reads one character after the other; an empty text stands for the end.

    :param pattern: as the user wrote it.
    """

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.text = without_quoting(pattern)
        self.position = 0
        self.flags = Flags()

    def peek(self) -> str:
        """The character at the cursor; white space and comments before it are skipped."""
        if self.flags.comments:
            self._skip_comments()
        return self.at(0)

    def at(self, ahead: int) -> str:
        """The character so many behind the cursor, whatever it is."""
        index = self.position + ahead
        return self.text[index : index + 1]

    def next(self) -> str:
        """Skip the character at the cursor, and :meth:`peek`."""
        self.position += 1
        return self.peek()

    def read(self) -> str:
        """:meth:`peek`, and move on."""
        char = self.peek()
        self.position += 1
        return char

    def raw(self) -> str:
        """The character at the cursor, whatever it is, and move on."""
        char = self.at(0)
        self.position += 1
        return char

    def at_end(self) -> bool:
        return self.position >= len(self.text)

    def invalid(self, reason: str) -> InvalidRegexError:
        """Java refuses the pattern."""
        return InvalidRegexError(self.pattern, reason)

    def unsupported(self, reason: str) -> UnsupportedRegexError:
        """We refuse the pattern."""
        return UnsupportedRegexError(f"the pattern {self.pattern!r} is not supported: {reason}")

    def _skip_comments(self) -> None:
        while (char := self.at(0)) in _SPACES or char == "#":
            if not char:
                return
            self.position += 1
            if char == "#":
                ends = frozenset("\n") if self.flags.unix_lines else _LINE_ENDS
                while not self.at_end() and self.at(0) not in ends:
                    self.position += 1


def without_quoting(pattern: str) -> str:
    """The pattern with ``\\Q..\\E`` written with backslashes."""
    parts: list[str] = []
    position = 0
    while position < len(pattern):
        if pattern[position] != "\\":
            parts.append(pattern[position])
            position += 1
        elif pattern[position + 1 : position + 2] != "Q":
            parts.append(pattern[position : position + 2])
            position += 2
        else:
            end = pattern.find("\\E", position + 2)
            quoted = pattern[position + 2 : end if end >= 0 else None]
            parts += map(_quoted, range(len(quoted)), quoted)
            position = end + 2 if end >= 0 else len(pattern)
    return "".join(parts)


def _quoted(index: int, char: str) -> str:
    if char.isascii() and char.isdigit():
        # The first one may stand behind the start of an escape, which would go on.
        return f"\\x3{char}" if index == 0 else char
    return char if not char.isascii() or char.isalpha() else f"\\{char}"
