"""The values of one line of CSV, as Spark's reader has them.

A quote is a quote at the beginning of a value alone. Inside, the escape character stands before a
quote, or before another escape character; elsewhere it is a character like others. A value without
its closing quote ends with the line. One that goes on behind a closing quote is taken as it is
written, up to the next delimiter.

Lines without any quote are split; the others are read character by character in the states of
univocity's parser, because what it makes of malformed lines follows from these alone.

Source: ``CsvParser``, ``ParserOutput`` and ``AbstractCharInputReader`` of univocity-parsers 2.9,
with the settings of Spark's ``CSVOptions.asParserSettings``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NONE: Final = "\0"
"""Where there is no such character."""
_END: Final = "\uffff"
"""What ``from_csv`` sets as the end of a line, because no text has it."""
_NO_COMMENT: Final = "#"


class _EndOfLine(Exception):
    """There is no further character."""


class TooManyValuesError(ValueError):
    """A line has more values than allowed."""


@dataclass(frozen=True)
class LineFormat:
    """
    :param delimiter: one character; so the others, of which :data:`NONE` is none.
    :param escape_of_escape: in front of an escape character that stands for itself.
    :param null_value: what a value without any character is read as.
    :param empty_value: what an empty value in quotes is read as.
    :param trims_front: blanks in front of values are left out; of quotes too.
    """

    delimiter: str = ","
    quote: str = '"'
    escape: str = "\\"
    escape_of_escape: str = "\\"
    comment: str | None = None
    null_value: str = ""
    empty_value: str = ""
    trims_front: bool = False
    values_max: int = 20_480

    def values(self, line: str) -> list[str] | None:
        """Those of one line; None if there is nothing, or a comment.

        :raises TooManyValuesError: there are more than allowed.
        """
        if not line or (self.comment is not None and line[0] == self.comment):
            return None
        if self.trims_front or self.quote in line or _END in line:
            found = _Line(self, line).read()
        else:
            found = [value or self.null_value for value in line.split(self.delimiter)]
        if found is not None and len(found) > self.values_max:
            raise TooManyValuesError(f"a line has {len(found)} values")
        return found


class _Line:
    """One line while it is read. ``char`` and ``previous`` are univocity's ``ch`` and ``prev``,
    which at the end of the line tell whether a value has begun."""

    def __init__(self, form: LineFormat, text: str) -> None:
        self._form = form
        self._text = text
        self._at = 0
        self._char = self._previous = NONE
        self._is_unescaped = False
        self._value: list[str] = []
        self._found: list[str] = []

    def read(self) -> list[str] | None:
        start = 0
        try:
            while not self._found:
                start = self._at
                self._char = self._next()
                self._record()
        except _EndOfLine:
            if start < len(self._text):
                self._finish()
        return self._found or None

    def _finish(self) -> None:
        """The value that the end of the line has interrupted."""
        has_begun = self._has_begun()
        if self._found:
            if self._value or has_begun:
                self._value_read()
            else:
                self._nothing_read()
        elif self._value or has_begun:
            self._value_read()
        else:
            self._nothing_read()

    def _has_begun(self) -> bool:
        form = self._form
        if self._char == form.quote:
            if self._previous == form.quote:
                return True
            if not self._is_unescaped:
                self._value.append(form.quote)
        others = (form.delimiter, _END, form.comment or _NO_COMMENT)
        return self._previous != NONE and self._char not in others

    def _next(self) -> str:
        if self._at >= len(self._text):
            raise _EndOfLine
        self._at += 1
        return self._text[self._at - 1]

    def _value_read(self) -> None:
        text = "".join(self._value)
        self._value.clear()
        self._found.append(text or self._form.empty_value)

    def _nothing_read(self) -> None:
        self._found.append(self._form.null_value)

    def _append_until(self, *stops: str) -> str:
        """From the present character on; where it stops is the result."""
        char = self._char
        while char not in stops:
            self._value.append(char)
            char = self._next()
        return char

    def _record(self) -> None:
        form = self._form
        self._skip_blanks()
        while self._char != _END:
            self._skip_blanks()
            if self._char in (form.delimiter, _END):
                self._nothing_read()
            else:
                self._is_unescaped, self._previous = False, NONE
                if self._char == form.quote:
                    if (value := self._easy_quoted()) is not None:
                        self._found.append(value or form.empty_value)
                        if self._goes_on_behind_quotes():
                            continue
                        return
                    self._quoted()
                    self._value_read()
                else:
                    self._unquoted()
            if self._char != _END:
                self._char = self._next()
                if self._char == _END:
                    self._nothing_read()

    def _skip_blanks(self) -> None:
        form = self._form
        if not form.trims_front:
            return
        while self._char <= " " and self._char not in (form.delimiter, _END, form.quote):
            self._char = self._next()

    def _unquoted(self) -> None:
        form, start = self._form, self._at - 1
        ends = [end for end in map(self._find, (form.delimiter, _END)) if end >= 0]
        if ends:
            self._found.append(self._text[start : min(ends)])
            self._at = min(ends)
            self._char = self._next()
            return
        self._char = self._append_until(form.delimiter, _END)
        self._value_read()

    def _find(self, char: str) -> int:
        return self._text.find(char, self._at)

    def _easy_quoted(self) -> str | None:
        """A value with nothing to be escaped, and the delimiter right behind it."""
        form, text = self._form, self._text
        at = self._at
        while at < len(text):
            char, behind = text[at], text[at + 1 : at + 2]
            if char == form.quote:
                if text[at - 1] == form.escape or behind not in (form.delimiter, _END):
                    return None
                value = text[self._at : at]
                self._at = at + 1
                return value
            if char == form.escape:
                if behind and behind in (form.quote, form.escape_of_escape):
                    return None
            elif char == _END:
                return None
            at += 1
        return None

    def _goes_on_behind_quotes(self) -> bool:
        """Go past the delimiter; whether there is a further value."""
        self._char = self._next_or_end()
        if self._char == self._form.delimiter:
            self._char = self._next_or_end()
            if self._char == _END:
                self._nothing_read()
        return self._char != _END

    def _next_or_end(self) -> str:
        try:
            return self._next()
        except _EndOfLine:
            return _END

    def _quoted(self) -> None:
        form = self._form
        if self._previous != NONE:  # a quote that is none: up to the delimiter, as it is written
            self._value.insert(0, form.quote)
            self._char = self._next()
            self._char = self._append_until(form.delimiter, _END)
            return
        self._char = self._next()
        while not self._is_closed():
            if self._char not in (form.quote, form.escape):
                if self._previous == form.quote:
                    self._is_unescaped = True
                    self._value += (form.quote, self._char)
                    self._previous = self._char
                    self._quoted()
                    return
                if self._previous == form.escape and form.escape != NONE:
                    self._value.append(form.escape)
                self._char = self._append_until(form.quote, form.escape, form.escape_of_escape)
                self._previous = self._char
                self._char = self._next()
            else:
                self._unescape()
                self._previous = self._char
                self._char = self._next()
                if self._is_unescaped and self._char in (form.delimiter, _END):
                    return
        self._behind_quotes()

    def _is_closed(self) -> bool:
        behind = self._char <= " " or self._char in (self._form.delimiter, _END)
        return self._previous == self._form.quote and behind

    def _behind_quotes(self) -> None:
        """Blanks in front of the delimiter; or anything else, and the quote was none."""
        form = self._form
        if self._char in (form.delimiter, _END):
            return
        blanks: list[str] = []
        while True:
            blanks.append(self._char)
            self._char = self._next()
            if self._char == _END:
                return
            if self._char > " " or self._char == form.delimiter:
                break
        if self._char != form.delimiter:
            self._value += (form.quote, *blanks, self._char)
            self._previous = self._char
            self._quoted()

    def _unescape(self) -> None:
        form = self._form
        before = self._previous
        if self._char == form.escape and before == form.escape_of_escape != NONE:
            self._value.append(form.escape)
            self._char = NONE
        elif before == form.escape:
            if self._char == form.quote:
                self._value.append(form.quote)
                self._char = NONE
            else:
                self._value.append(before)
        elif self._char == form.quote and before == form.quote:
            self._value.append(form.quote)
        elif before == form.quote:
            self._value.append(form.quote)
            self._previous = self._char
            self._up_to_delimiter()

    def _up_to_delimiter(self) -> None:
        """Of a quote that is none, with escapes."""
        form = self._form
        while self._char not in (form.delimiter, _END):
            if self._char in (form.quote, form.escape):
                self._unescape()
            elif self._previous == form.quote:
                self._value.append(form.quote)
                self._previous = self._char
                self._up_to_delimiter()
                return
            else:
                self._value.append(self._char)
            self._previous = self._char
            self._char = self._next()
