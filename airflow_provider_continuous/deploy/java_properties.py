"""Java's properties as text: how Spark's programs are told settings in a file."""

from __future__ import annotations

import re
from collections.abc import Mapping

_BLANKS = " \t\f"
_LINE_ENDS = re.compile(r"\r\n|\r|\n")
_GOES_ON = re.compile(r"(?<!\\)(?:\\\\)*\\\Z")
_PAIR = re.compile(r"((?:[^\\ \t\f=:]|\\.)*)[ \t\f]*(?:[=:][ \t\f]*)?(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def written(settings: Mapping[str, str]) -> str:
    """Return them, a line each, without an end of the last one."""
    return "\n".join(f"{_escaped(key)}={_escaped(value)}" for key, value in settings.items())


def read(text: str) -> dict[str, str]:
    """Return the settings of a text, as Java and Spark read it: of several the last one, and none
    with blanks around it."""
    found, lines = {}, iter(_LINE_ENDS.split(text))
    for begin in lines:
        line = begin.lstrip(_BLANKS)
        if not line or line[0] in "#!":
            continue
        while _GOES_ON.search(line):
            line = line[:-1] + next(lines, "").lstrip(_BLANKS)
        pair = _PAIR.match(line)
        assert pair is not None, "any text matches"
        key, value = pair.groups()
        found[_plain(key)] = _plain(value).strip(" \t")
    return found


def _escaped(text: str) -> str:
    """Its own syntax and all blanks are escaped."""
    units = text.encode("utf-16-be", "surrogatepass")
    codes = (int.from_bytes(units[index : index + 2], "big") for index in range(0, len(units), 2))
    return "".join(
        chr(code)
        if code < 128 and (chr(code).isalnum() or chr(code) in "._-/")
        else f"\\u{code:04x}"
        for code in codes
    )


def _plain(text: str) -> str:
    units = _ESCAPE.sub(lambda found: _letter(found[1]), text)
    return units.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _letter(escape: str) -> str:
    return chr(int(escape[1:], 16)) if len(escape) == 5 else _LETTERS.get(escape, escape)
