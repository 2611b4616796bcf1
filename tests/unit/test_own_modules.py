"""An old and a new version of a program in one process, one after the other."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from engine.query.spec.own_modules import import_instead


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = dict(sys.modules)
    yield
    for name in set(sys.modules) - set(before):
        del sys.modules[name]


def versions(folder: Path) -> list[Path]:
    """Of a module, a package, and a folder without ``__init__.py``; each says which it is."""
    folders = [folder / "old", folder / "new"]
    for each in folders:
        for place in (
            "version_of.py",
            "versions_of/__init__.py",
            "versions_of/part.py",
            "by/it.py",
        ):
            file = each / place
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"VERSION = {each.name!r}\n")
    return folders


NAMES = ("version_of", "versions_of", "versions_of.part", "by.it")


def test_what_the_first_has_imported_is_imported_anew(tmp_path: Path) -> None:
    old, new = versions(tmp_path)
    known = list(sys.modules)
    sys.path[:0] = [str(old), str(new)]
    assert [import_module(name).VERSION for name in NAMES] == ["old"] * 4
    import_instead([new], [old], known)
    assert [import_module(name).VERSION for name in NAMES] == ["new"] * 4


def test_what_was_there_before_stays_wherever_it_is(tmp_path: Path) -> None:
    old, new = versions(tmp_path)
    sys.path[:0] = [str(old), str(new)]
    part = import_module("versions_of.part")
    known = list(sys.modules)
    import_module("version_of")
    import_module("json.tool")
    import_instead([new], [old, *map(Path, sys.path)], known)
    assert sys.modules["versions_of.part"] is part
    assert "json.tool" in sys.modules
    assert import_module("version_of").VERSION == "new"
