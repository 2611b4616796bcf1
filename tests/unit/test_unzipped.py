"""Whether PySpark comes from a zip, which Python would compile anew in each process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from engine.commands import application
from engine.spark.unzipped import prefer_unzipped


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder with PySpark as pip installs it."""
    home = tmp_path / "site" / "pyspark"
    (home / "python" / "lib").mkdir(parents=True)
    (home / "__init__.py").touch()
    return tmp_path / "site"


def _left(monkeypatch: pytest.MonkeyPatch, *places: object) -> list[str]:
    monkeypatch.setattr(sys, "path", [str(place) for place in places])
    prefer_unzipped()
    return sys.path


def test_the_zip_of_the_same_installation_is_passed_by(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lib = site / "pyspark" / "python" / "lib"
    places = ["", lib / "pyspark.zip", lib / "py4j-0.10.9.9-src.zip", site]
    assert _left(monkeypatch, *places) == ["", str(lib / "py4j-0.10.9.9-src.zip"), str(site)]


def test_the_zip_of_another_installation_is_kept(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "opt" / "spark" / "python" / "lib" / "pyspark.zip"
    assert _left(monkeypatch, other, site) == [str(other), str(site)]
    sent_along = tmp_path / "container" / "pyspark.zip"  # as YARN does it
    assert _left(monkeypatch, sent_along, site) == [str(sent_along), str(site)]


def test_the_zip_is_kept_if_its_installation_is_not_on_the_path(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = site / "pyspark" / "python" / "lib" / "pyspark.zip"
    assert _left(monkeypatch, path, site.parent) == [str(path), str(site.parent)]


def test_a_driver_that_spark_submit_starts(tmp_path: Path) -> None:
    home = Path(pyspark.__file__).parent
    lib = home / "python" / "lib"
    script = (
        "import runpy, sys\n"
        f"sys.argv = ['application.py', {str(tmp_path / 'none.yaml')!r}]\n"
        "try:\n"
        f"    runpy.run_path({application.__file__!r}, run_name='__main__')\n"
        "except SystemExit as exc:\n"
        "    import pyspark.sql\n"
        "    print(exc.code, pyspark.__file__)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, sorted(lib.glob("*.zip"))))},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split()[-1] == str(home / "__init__.py")
    assert done.stdout.split()[-2] != "0"


@pytest.mark.parametrize("zipped", [False, True])
def test_the_zip_is_kept_where_another_installation_would_take_its_place(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zipped: bool
) -> None:
    other = tmp_path / "other"
    (other / "pyspark").mkdir(parents=True)
    (other / "pyspark" / "__init__.py").touch()
    if zipped:
        other = Path(shutil.make_archive(str(other / "pyspark"), "zip", other))
    path = site / "pyspark" / "python" / "lib" / "pyspark.zip"
    places = [str(path), str(other), str(site)]
    assert _left(monkeypatch, *places) == places
