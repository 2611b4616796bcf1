"""A line of CSV as Spark's writer has it.

Quotes are around values with a delimiter, a quote or the end of a line inside, and around a first
value that looks like a comment. Blanks at the ends of values are left out; a value of which nothing
is left is written as an empty one.

Source: ``CsvWriter`` and ``AbstractWriter`` of univocity-parsers 2.9, with the settings of Spark's
``CSVOptions.asWriterSettings``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from engine.expressions.csv.csv_lines import NONE

_BLANKS: Final = "".join(map(chr, range(33)))


@dataclass(frozen=True)
class LineWriter:
    """
    :param delimiter: one character; so the others.
    :param comment: what a comment begins with.
    :param null_value: what NULL is written as; likewise ``empty_value``.
    :param trims: blanks in front of values and behind them are left out.
    :param quotes_all: NULL, too.
    :param escapes_quotes: a value with a quote inside gets quotes around.
    """

    delimiter: str = ","
    quote: str = '"'
    escape: str = "\\"
    escape_of_escape: str = "\\"
    comment: str = "#"
    null_value: str = ""
    empty_value: str = '""'
    trims: bool = True
    quotes_all: bool = False
    escapes_quotes: bool = True

    def line(self, values: Sequence[str | None]) -> str:
        """The line without its end."""
        written = [self._value(value, is_first=not at) for at, value in enumerate(values)]
        return self.delimiter.join(written)

    def _value(self, value: str | None, *, is_first: bool) -> str:
        if value is not None and self.trims:
            value = value.strip(_BLANKS) and value
        replaced = not value
        text = value or (self.null_value if value is None else self.empty_value)
        found, in_quotes = self._form(text, self.quotes_all, replaced=replaced, is_first=is_first)
        return f"{self.quote}{found}{self.quote}" if in_quotes else found

    def _form(
        self, text: str, in_quotes: bool, *, replaced: bool, is_first: bool
    ) -> tuple[str, bool]:
        """The text with escapes, and whether quotes belong around it."""
        start = len(text) - len(text.lstrip(_BLANKS)) if self.trims else 0
        if text[start : start + 1] == self.quote or (
            is_first and start < len(text) and text[0] == self.comment
        ):
            in_quotes = True
        if in_quotes:
            is_quoted = len(text) > 1 and text[0] == text[-1] == self.quote
            if replaced and is_quoted:
                return text, False
            return self._trimmed(self._escaped(text[start:])), True
        for at in range(start, len(text)):
            char = text[at]
            if char in (self.quote, self.escape):
                if any(map(self._needs_quotes, text[at:])):
                    return self._trimmed(text[start:at] + self._escaped(text[at:])), True
                return self._trimmed(text[start:]), False
            if self._needs_quotes(char):
                return self._trimmed(text[start:at] + self._escaped(text[at:])), True
        return self._trimmed(text[start:]), False

    def _needs_quotes(self, char: str) -> bool:
        return char in (self.delimiter, "\n", "\r") or (self.escapes_quotes and char == self.quote)

    def _escaped(self, text: str) -> str:
        pieces = []
        for char in text:
            if char == self.quote:
                pieces.append(self.escape)
            elif char == self.escape and self.escape_of_escape != NONE:
                pieces.append(self.escape_of_escape)
            pieces.append(char)
        return "".join(pieces)

    def _trimmed(self, text: str) -> str:
        return text.rstrip(_BLANKS) if self.trims else text
