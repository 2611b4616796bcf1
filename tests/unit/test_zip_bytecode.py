"""Bytecode in the zips that Spark's Python processes import PySpark from."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from scripts.zip_bytecode import add_bytecode


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "lib" / "some.zip"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as content:
        content.writestr("some/__init__.py", "")
        content.writestr("some/module.py", "def fail():\n    raise ValueError('no')\n")
    return path


def _run(archive: Path, code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(archive)},
        capture_output=True,
        text=True,
    )


def test_it_is_what_python_takes(archive: Path) -> None:
    tell = "import some.module as m; print(m.__file__)"
    assert _run(archive, tell).stdout == f"{archive}/some/module.py\n"
    add_bytecode(archive, ["some/module.py"])
    assert _run(archive, tell).stdout == f"{archive}/some/module.pyc\n"


def test_an_error_shows_the_line_of_the_source(archive: Path) -> None:
    fail = (
        "import some.module as m, traceback as t\ntry: m.fail()\nexcept ValueError: t.print_exc()"
    )
    before = _run(archive, fail).stderr
    assert "raise ValueError('no')" in before
    add_bytecode(archive, ["some/__init__.py", "some/module.py"])
    assert _run(archive, fail).stderr == before


def test_what_the_file_is_linked_from_stays(archive: Path, tmp_path: Path) -> None:
    cached = tmp_path / "cached.zip"
    cached.hardlink_to(archive)
    as_it_was = cached.read_bytes()
    add_bytecode(archive, ["some/module.py"])
    assert cached.read_bytes() == as_it_was != archive.read_bytes()
    assert [path.name for path in archive.parent.iterdir()] == [archive.name]
