"""CSV as Spark's reader has it, made into the CSV of Arrow's: a line at a time.

A quote is a quote at the beginning of a value alone. Inside, the escape character stands before a
quote, or before another escape character; elsewhere it is a character like others. A value without
its closing quote ends with the line. One that goes on behind a closing quote is taken as it is
written, up to the next delimiter.

Source: univocity's CsvParser, with Spark's settings of it (CSVOptions), where it reads lines.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

QUOTE = '"'


@dataclass(frozen=True)
class CsvDialect:
    """
    :param delimiter: one character; so ``escape``.
    :param null_value: stands for null, in quotes or without; so does an empty value without.
    """

    delimiter: str
    escape: str
    null_value: str = ""

    def __call__(self, block: bytes) -> bytes:
        """The same lines, with quotes as RFC 4180 has them.

        :param block: whole lines.
        """
        if b'"' not in block or self._is_plain(block):
            return block
        # A character for each byte: what is no UTF-8 passes as it is.
        return b"".join(self._rewritten(line) for line in block.split(b"\n")[:-1])

    def values(self, line: str) -> list[str | None]:
        """Those of one line."""
        found: list[str | None] = []
        at = 0
        while True:
            if line.startswith(QUOTE, at):
                value, at = self._quoted(line, at)
                found.append(None if value == self.null_value else value)
            else:
                value, at = self._raw(line, at)
                found.append(None if value in ("", self.null_value) else value)
            if at >= len(line):
                return found
            at += 1

    @cached_property
    def _plain(self) -> re.Pattern[bytes]:
        """Lines that both understand alike."""
        delimiter, escape = (re.escape(each.encode()) for each in (self.delimiter, self.escape))
        value = rb'(?:"[^"\n' + escape + rb']+"|[^"\n' + delimiter + rb"]*)"
        return re.compile(rb"(?:" + value + rb"(?:" + delimiter + value + rb")*\r?\n)*")

    def _rewritten(self, line: bytes) -> bytes:
        if b'"' not in line or self._is_plain(line + b"\n"):
            return line + b"\n"
        text = line.removesuffix(b"\r").decode("latin-1")
        return self.delimiter.join(map(self._written, self.values(text))).encode("latin-1") + b"\n"

    def _is_plain(self, lines: bytes) -> bool:
        null = f'"{self.null_value}"'.encode()
        return null not in lines and self._plain.fullmatch(lines) is not None

    def _written(self, value: str | None) -> str:
        if value is None:  # not nothing: a line of it alone would be passed over
            return self.null_value or QUOTE * 2
        return f'"{value.replace(QUOTE, QUOTE * 2)}"'

    def _raw(self, line: str, start: int) -> tuple[str, int]:
        end = line.find(self.delimiter, start)
        end = len(line) if end < 0 else end
        return line[start:end], end

    def _quoted(self, line: str, start: int) -> tuple[str, int]:
        """The value that begins with a quote there, and where it ends."""
        escaped = {QUOTE} if self.escape == QUOTE else {QUOTE, self.escape}
        value: list[str] = []
        at = start + 1
        while at < len(line):
            char, behind = line[at], line[at + 1 : at + 2]
            if char == self.escape and behind in escaped:
                value.append(behind)
                at += 2
            elif char == QUOTE:
                rest = line[at + 1 :].lstrip(" ")
                if rest and not rest.startswith(self.delimiter):
                    return self._from(line, start, at)
                return "".join(value), len(line) - len(rest)
            else:
                if char != self.escape or behind:
                    value.append(char)
                at += 1
        return "".join(value) if start + 1 < len(line) else QUOTE, len(line)

    def _from(self, line: str, start: int, at: int) -> tuple[str, int]:
        _, end = self._raw(line, at)
        return line[start:end], end
