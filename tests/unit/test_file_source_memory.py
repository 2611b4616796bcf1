"""What the file source keeps of files in a run that lasts for months."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.checkpoint.storage.opening import open_storage
from engine.sources.files import reader
from engine.sources.files.data_source import JsonSource
from engine.sources.files.looking import FolderLook
from engine.sources.files.reader import FilesRun
from engine.sources.files.source_log import FileSourceLog


def put(folder: Path, name: str, modified_s: int) -> None:
    (folder / name).write_text("{}")
    os.utime(folder / name, (modified_s, modified_s))


def test_a_file_that_is_gone_is_forgotten(tmp_path: Path) -> None:
    look = FolderLook(tmp_path, lambda name: True, recursive=True)
    found = []
    for _ in range(2):
        (tmp_path / "a").mkdir()
        for name in ("x", "a/y"):
            put(tmp_path, name, 1)
        found.append([Path(file.path).name for file in look.look()])
        assert look.look() == []
        for name in ("x", "a/y"):
            (tmp_path / name).unlink()
        (tmp_path / "a").rmdir()
        assert look.look() == []
    assert found == [["y", "x"]] * 2


def test_a_file_that_is_too_old_to_be_read_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "ENTRIES_MIN", 2)
    (tmp_path / "in").mkdir()
    options = JsonSource({"path": str(tmp_path / "in"), "maxfileage": "1h"})._options
    run = FilesRun(options, FileSourceLog(open_storage(str(tmp_path / "cp")), "0"), [], -1, None)

    def read() -> list[str]:
        run._next_look_s = 0.0
        works = run.next(0.0) or {}
        units = [unit for work in works.values() for unit in work.units]
        run.merged([{"read": [unit.number for unit in units]}])
        return [Path(unit.name).name for unit in units]

    put(tmp_path / "in", "a", 1_000)
    assert read() == ["a"]
    for n in range(4):
        put(tmp_path / "in", f"new{n}", 9_000 + n)
        assert read() == [f"new{n}"]
    (tmp_path / "in" / "a").unlink()
    assert read() == []
    put(tmp_path / "in", "a", 9_000)
    put(tmp_path / "in", "new0", 9_001)
    assert read() == ["a"]
