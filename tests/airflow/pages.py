"""A page of docs/ as something to follow: its files, commands and programs, in order."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"# (\S+\.\w+)\n")


@dataclass(frozen=True)
class Block:
    """:param file: whose content it is, told by its first line; empty if it is of none."""

    language: str
    text: str
    file: str


class Page:
    """:param places: what the page calls a place → what it is here."""

    def __init__(self, name: str, places: Mapping[str, str]) -> None:
        self._places = places
        found = _BLOCK.findall((DOCS / name).read_text())
        self._blocks = [Block(kind, self._here(text), _named(text)) for kind, text in found]

    def commands(self) -> list[str]:
        """Its shell commands, block by block."""
        return [block.text.strip() for block in self._blocks if block.language == "bash"]

    def programs(self) -> list[str]:
        """Its Python that is in no file."""
        return [
            block.text for block in self._blocks if block.language == "python" and not block.file
        ]

    def json(self) -> str:
        """Its one JSON document."""
        (found,) = (block.text for block in self._blocks if block.language == "json")
        return found

    def write_files(self, folder: Path) -> None:
        """Write its files, below a folder."""
        for block in self._blocks:
            if block.file:
                path = folder / block.file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(block.text)

    def _here(self, text: str) -> str:
        for place, here in self._places.items():
            text = text.replace(place, here)
        return text


def _named(text: str) -> str:
    found = _FILE.match(text)
    return found[1] if found else ""
