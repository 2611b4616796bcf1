"""Docstrings of the code are reST, and the site is Markdown: what both spell differently.

Parameters, returns and errors are understood by mkdocstrings itself. Here are roles
(``:class:`~engine.errors.ConfigError```), literal blocks (``::``) and tables drawn of ``=``.
"""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

_ROLE = re.compile(r":(?:class|meth|func|attr|data|mod|exc):`(?:[^`<]*<)?~?([^`>]+)>?`", re.DOTALL)
_TABLE = re.compile(r"^( *)(=+ +=+.*?\n)((?:.*\n)*?)\1=+ +=+[ =]*(?:\n(?! *\S)|\Z)", re.MULTILINE)
_LITERAL = re.compile(r"(\S?)::(?=\n\s*\n)")


def as_markdown(text: str) -> str:
    """A docstring, in Markdown where it was reST."""
    text = _ROLE.sub(lambda role: f"``{_last(role[1])}``", text)
    text = _TABLE.sub(_as_it_is, text)
    return _LITERAL.sub(lambda colons: f"{colons[1]}:" if colons[1] else "", text)


def _as_it_is(table: re.Match[str]) -> str:
    return "```text\n" + table[0].rstrip().replace("``", "") + "\n```\n"


def _last(name: str) -> str:
    """The name as it is read: of a class in a module the class, of a module all of it."""
    name = re.sub(r"\s+", "", name)
    last = name.rpartition(".")[2]
    return last if last[:1].isupper() or last.isupper() else name.removeprefix("~")


class Docstrings(Extension):
    """Has every docstring read as Markdown."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
