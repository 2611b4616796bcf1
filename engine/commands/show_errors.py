"""``errors``: what each class of error means, and what to do.

docs/errors.md is all that there is of it: the wheel brings that page along, beside this file.
"""

from __future__ import annotations

import re
import shutil
import textwrap
from argparse import Namespace
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from engine.commands.result import Result
from engine.errors import ConfigError, ContinuousError

_INSTALLED: Final = Path(__file__).with_name("errors.md")
_IN_A_CLONE: Final = Path(__file__).parents[2] / "docs" / "errors.md"
_COLUMNS_MAX: Final = 110
_NEXT_PART: Final = re.compile(r"\s(?=\*\*[^*\n]+:\*\*)")
_LINK: Final = re.compile(r"(\(?)\[([^\]]+)\]\(([\w/.-]*)(?:#[\w-]*)?\)")


@dataclass(frozen=True)
class Entry:
    """:param name: of the class.
    :param group: of classes, as the page puts them together.
    :param text: paragraphs without line ends: what it means, what the query does, what to do.
    """

    name: str
    group: str
    text: str

    @property
    def gist(self) -> str:
        """How the text begins."""
        return re.split(r"[.:;](?:\s|$)", self.text, maxsplit=1)[0]


def show_errors(args: Namespace) -> Result:
    """One class, or a line of each.

    :raises ConfigError: there is no such class.
    """
    entries = catalogue()
    if args.error is None:
        return Result({"errors": [asdict(entry) for entry in entries]}, _listed(entries))
    entry = _found(args.error, entries)
    paragraphs = [textwrap.fill(each, _columns()) for each in entry.text.splitlines()]
    return Result(asdict(entry), "\n".join([entry.name, *paragraphs]))


def catalogue() -> list[Entry]:
    """All classes, in the order of the page.

    :raises ContinuousError: the page is missing: of the package, only a part is here.
    """
    page = next((each for each in (_INSTALLED, _IN_A_CLONE) if each.is_file()), None)
    if page is None:
        raise ContinuousError(
            f"The catalogue of errors is not at {_INSTALLED}.",
            hint="Install the wheel again, or read docs/errors.md where the project is.",
        )
    _, *groups = re.split(r"^## ", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [
        Entry(name.strip(), group.partition("\n")[0], _plain(text))
        for group in groups
        for name, _, text in (part.partition("\n") for part in group.split("\n### ")[1:])
    ]


def entry_of(name: object) -> Entry | None:
    """What the catalogue says of a class that a checkpoint names; None if it says nothing, for a
    newer engine may have written it, or anybody, or if there is no catalogue here."""
    if name:
        with suppress(ContinuousError):
            return next((entry for entry in catalogue() if entry.name == name), None)
    return None


def _plain(text: str) -> str:
    """Without what only a site can show."""

    def link(found: re.Match[str]) -> str:
        bracket, shown, page = found.groups()
        if not page:
            return f"{bracket}{shown}"
        return f"({shown}, docs/{page}" if bracket else f"{shown} (docs/{page})"

    parts = _NEXT_PART.split(_LINK.sub(link, text.strip()))
    return "\n".join(" ".join(part.replace("**", "").split()) for part in parts)


def _found(asked: str, entries: Iterable[Entry]) -> Entry:
    """As a traceback has the name, too: behind its module, before a colon."""
    name = asked.strip().rstrip(":").rpartition(".")[2].lower()
    known = {entry.name.lower(): entry for entry in entries}
    if name in known:
        return known[name]
    near = [known[each].name for each in get_close_matches(name, known)]
    guess = f"Did you mean {' or '.join(near)}? " if near else ""
    raise ConfigError(
        f"There is no class of errors {asked}.", hint=f"{guess}`continuous errors` lists all."
    )


def _listed(entries: list[Entry]) -> str:
    width = max(len(entry.name) for entry in entries)
    lines = []
    for group in dict.fromkeys(entry.group for entry in entries):
        lines += ["", f"{group}:"]
        lines += [
            textwrap.fill(
                f"  {entry.name.ljust(width)}  {entry.gist}",
                _columns(),
                subsequent_indent=" " * (width + 4),
            )
            for entry in entries
            if entry.group == group
        ]
    return "\n".join([*lines[1:], "", "What to do about one: continuous errors CLASS"])


def _columns() -> int:
    return min(shutil.get_terminal_size((_COLUMNS_MAX, 24)).columns, _COLUMNS_MAX)
