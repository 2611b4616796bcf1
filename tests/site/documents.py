"""What people read: the pages of docs/ and those at the top of the repository, and their blocks."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
DOCUMENTS = sorted((*DOCS.rglob("*.md"), *ROOT.glob("*.md")))

_BLOCK = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"`([^`\n]+)`")


class Block(NamedTuple):
    """:param where: page and line, for the message of a test."""

    where: str
    language: str
    text: str


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page, without their indentation."""
    text = page.read_text(encoding="utf-8")
    for found in _BLOCK.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        yield Block(f"{_name(page)}:{line}", found[2], textwrap.dedent(found[3]))


def commands(page: Path) -> Iterator[tuple[str, str]]:
    """What a page says to type, with where it says so: lines of its blocks of shell, and what it
    names in between."""
    for block in blocks(page):
        if block.language in ("", "bash", "sh", "shell"):
            whole = re.sub(r"\\\n\s*", "", block.text)
            for line in whole.splitlines():
                yield block.where, line.strip().removeprefix("$ ").partition("  #")[0].strip()
    prose = _BLOCK.sub("", page.read_text(encoding="utf-8"))
    for named in _INLINE.findall(prose):
        yield _name(page), named


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))
