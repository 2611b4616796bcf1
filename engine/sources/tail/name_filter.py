r"""``pathGlobFilter``: which files of a folder belong to a ``tail`` stream.

A pattern means what it means to Spark, which takes Hadoop's ``GlobPattern``:

======================  ========================================================
``*``, ``?``            any characters, any one
``[a-z]``               one of these
``[^a-z]``, ``[!a-z]``  one that is none of these
``{a,b*}``              one of these patterns, which may have such groups, too
``\*``                  the character itself, whichever it is
======================  ========================================================

Needs neither Spark nor Arrow.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Final

from engine.base.connector_options import Options

_PART: Final = re.compile(
    r"\\(?P<itself>.)|\[(?P<none>[!^]?)(?P<set>\]?(?:\\.|[^]\\])+)\]|.", re.DOTALL
)
_WILD: Final = {"*": ".*", "?": ".", "{": "(?:"}


@dataclass(frozen=True)
class NameFilter:
    """Whether a file of this name belongs to the stream: not hidden, and matching the pattern."""

    pattern: str

    def __call__(self, name: str) -> bool:
        return not name.startswith((".", "_")) and bool(_regex(self.pattern).fullmatch(name))


def name_filter(options: Options) -> NameFilter:
    """What the option says.

    :raises ConfigError: it is no pattern.
    """
    pattern = options.text("pathGlobFilter") or "*"
    try:
        _regex(pattern)
    except re.error as exc:
        allowed = f"a pattern as for Spark's files ({exc.msg})"
        raise options.wrong("pathGlobFilter", pattern, allowed) from exc
    return NameFilter(pattern)


@cache
def _regex(pattern: str) -> re.Pattern[str]:
    """:raises re.error: it is no pattern."""
    found, groups = "", 0
    for part in _PART.finditer(pattern):
        text = part[0]
        if part["itself"] is not None:
            found += re.escape(part["itself"])
        elif part["set"] is not None:
            inner = part["set"].replace("[", r"\[")
            found += f"[{part['none'] and '^'}{inner}]"
        elif text in ("[", "\\"):
            raise re.error(f"nothing ends what begins with {text}")
        elif text == "," and groups:
            found += "|"
        elif text == "}" and groups:
            found += ")"
            groups -= 1
        else:
            found += _WILD.get(text, re.escape(text))
            groups += text == "{"
    return re.compile(found, re.DOTALL)
