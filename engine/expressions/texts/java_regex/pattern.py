"""Java's regular expressions, as Spark uses them, run by Python's :mod:`re` or by Arrow's RE2.

:func:`compile_java_regex` reads a pattern by the grammar of ``java.util.regex.Pattern`` and writes
one that matches the same texts and captures the same groups. What would mean something else, or
cannot be known to mean the same, is refused with the reason (:class:`UnsupportedRegexError`).

- A pattern is parsed into a tree, in which flags have become sets of characters and anchors.
- The tree is written for Python, once for each form of texts
  (:mod:`engine.expressions.texts.java_regex.forms`).
- Java's texts are UTF-16: a search can start between the two halves of a character beyond U+FFFF,
  and an empty match is found there. Texts with such characters are searched as code units.

Java's version matters: each has its own Unicode, and 19 has changed ``\\b``.

Source: ``java.util.regex.Pattern`` and ``Matcher`` of Java 17 to 25.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property, lru_cache

from engine.expressions.texts.java_regex.char_sets import SUPPLEMENTARY
from engine.expressions.texts.java_regex.errors import UnsupportedRegexError
from engine.expressions.texts.java_regex.faithful import why_not
from engine.expressions.texts.java_regex.forms import (
    Form,
    form_of,
    in_units,
    restored,
    with_moved,
)
from engine.expressions.texts.java_regex.parser import parse
from engine.expressions.texts.java_regex.properties import Properties
from engine.expressions.texts.java_regex.re2 import for_re2
from engine.expressions.texts.java_regex.set_writer import in_brackets
from engine.expressions.texts.java_regex.syntax import (
    Anchor,
    Boundary,
    Chars,
    Look,
    Sequence,
    least,
    walk,
)
from engine.expressions.texts.java_regex.writer import Writer

_NOT_BETWEEN_HALVES = "(?:(?<![\ud800-\udbff])|(?![\udc00-\udfff]))"


class JavaRegex:
    """A translated pattern.

    :param pattern: as Java reads it.
    :param java: the version of Java: 17, 21 and so on.
    :raises UnsupportedRegexError: it means something else in Python, or is no valid pattern.
    """

    def __init__(self, pattern: str, java: int) -> None:
        self._properties = _properties(java)
        try:
            parsed = parse(pattern, self._properties)
            if reason := why_not(parsed.root):
                raise UnsupportedRegexError(f"the pattern {pattern!r} is not supported: {reason}")
        except (LookupError, RecursionError) as error:
            reason = str(error)
            raise UnsupportedRegexError(
                f"the pattern {pattern!r} is not supported: {reason}"
            ) from None
        self.source = pattern
        self._root = parsed.root
        self._whole_characters = parsed.whole_characters
        self.groups = parsed.groups
        self.group_names = parsed.names
        nodes = list(walk(parsed.root))
        self._boundaries = any(isinstance(node, Boundary) for node in nodes)
        self.may_match_empty = least(parsed.root) == 0
        self.has_dollar = any(
            isinstance(node, Anchor) and node.place in ("last line end", "line end")
            for node in nodes
        )
        self._finders: dict[Form, Finder] = {}
        self.plain = self._finder(Form.PLAIN)
        if any(isinstance(node, Look) and not node.ahead for node in nodes):
            self._finder(Form.UNITS)  # it may have too many lengths there

    def on(self, text: str) -> tuple[Finder, str]:
        """What finds the pattern in a text, and what it is to be given in place of the text."""
        if text.isascii():
            return self.plain, text
        form = form_of(text, self._boundaries)
        if form is Form.PLAIN:
            return self.plain, text
        text = in_units(text) if form is Form.UNITS else text
        if self._boundaries:
            text = with_moved(text, _marks_of_letters(self._properties))
        return self._finder(form), text

    def finds(self, text: str) -> bool:
        """Whether it is found anywhere."""
        finder, subject = self.on(text)
        return finder.search(subject) is not None

    def _finder(self, form: Form) -> Finder:
        if form not in self._finders:
            writer = Writer(form, self._properties, self._boundaries)
            try:
                text = writer.write(self._root)
                guarded = form is Form.UNITS and self._whole_characters
                self._finders[form] = Finder(
                    re.compile(text, re.ASCII),
                    writer.numbers,
                    self.may_match_empty,
                    re.compile(f"{_NOT_BETWEEN_HALVES}(?:{text})", re.ASCII) if guarded else None,
                    form is not Form.PLAIN,
                )
            except (re.error, OverflowError, RecursionError, UnsupportedRegexError) as error:
                raise UnsupportedRegexError(
                    f"the pattern {self.source!r} is not supported: {error}"
                ) from None
        return self._finders[form]

    @cached_property
    def re2(self) -> str | None:
        """The same for Arrow's kernels, where RE2 is known to find it in the same texts; else None.
        With boundaries of words, these are the ASCII ones: see :attr:`ascii_only`."""
        return for_re2(self._root)

    @property
    def ascii_only(self) -> bool:
        """Whether :attr:`re2` is for texts of ASCII."""
        return self._boundaries

    @cached_property
    def literal(self) -> str | None:
        """The text itself, if the pattern is nothing but a text."""
        parts = self._root.parts if isinstance(self._root, Sequence) else (self._root,)
        text = ""
        for part in parts:
            if not isinstance(part, Chars) or part.set.only is None:
                return None
            text += chr(part.set.only)
        return text


class Finder:
    """Finds a pattern in texts of one form.

    :param numbers: Python's number of each group of Java's.
    :param guarded: does not begin between halves of a character.
    :param translated: the texts are not what the user gave.
    """

    def __init__(
        self,
        pattern: re.Pattern[str],
        numbers: dict[int, int],
        may_be_empty: bool,
        guarded: re.Pattern[str] | None,
        translated: bool,
    ) -> None:
        self.pattern = pattern
        self._numbers = numbers
        self._may_be_empty = may_be_empty
        self._guarded = guarded
        self.translated = translated

    def search(self, subject: str, start: int = 0) -> re.Match[str] | None:
        """The first match that begins there or later."""
        if self._guarded is None:
            return self.pattern.search(subject, start)
        return self.pattern.match(subject, start) or self._guarded.search(subject, start)

    def every(self, subject: str) -> Iterator[re.Match[str]]:
        """One match after the other. Behind an empty one, Java goes on with the next character."""
        if not self._may_be_empty and self._guarded is None:
            yield from self.pattern.finditer(subject)
            return
        start = 0
        while start <= len(subject) and (match := self.search(subject, start)):
            yield match
            start = match.end() + (match.start() == match.end())

    def group(self, match: re.Match[str], number: int) -> str | None:
        """What a group of Java's number has captured; None if nothing."""
        captured: str | None = match[self._numbers[number]]
        return captured

    def text(self, part: str) -> str:
        """The user's text for a part of the subject."""
        return restored(part) if self.translated else part


@lru_cache
def _properties(java: int) -> Properties:
    return Properties(java)


@lru_cache
def _marks_of_letters(properties: Properties) -> re.Pattern[str]:
    """Marks up to U+FFFF, of which the first follows a letter or a digit."""
    bmp = ~SUPPLEMENTARY
    marks = in_brackets(properties.marks & bmp)
    return re.compile(f"(?<={in_brackets(properties.letters_or_digits & bmp)}){marks}+")


def compile_java_regex(pattern: str, java: int) -> JavaRegex:
    """Translate a pattern.

    :param java: the version of Java: 17, 21 and so on.
    :raises UnsupportedRegexError: it means something else in Python, or is no valid pattern.
    """
    return JavaRegex(pattern, java)
