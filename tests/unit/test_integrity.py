"""A pyspark whose files another package has overwritten is found out."""

from __future__ import annotations

import base64
import hashlib
from importlib.metadata import PackageNotFoundError, PathDistribution
from pathlib import Path

import pytest

from engine.errors import ConfigError
from engine.spark import integrity
from engine.spark.integrity import changed_files, installed_version

FILES = {"pyspark/a.py": b"a = 1\n", "pyspark/b.py": b"b = 2\n", "pyspark/jars/c.jar": b"jar"}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed pyspark of three files."""
    info = tmp_path / "pyspark-9.9.dist-info"
    lines = [f"{info.name}/RECORD,,"]
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(content)}")
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pyspark\nVersion: 9.9\n")
    (info / "RECORD").write_text("\n".join(lines))
    monkeypatch.setattr(integrity, "distribution", lambda name: PathDistribution(info))
    return tmp_path


def test_untouched_files_are_fine(site: Path) -> None:
    assert changed_files() == []
    assert installed_version("pyspark") == "9.9"


def test_changed_and_missing_files_are_named(site: Path) -> None:
    (site / "pyspark/a.py").write_bytes(b"a = 2\n")
    (site / "pyspark/b.py").unlink()
    (site / "pyspark/jars/c.jar").write_bytes(b"longer")
    assert changed_files() == ["pyspark/a.py", "pyspark/b.py", "pyspark/jars/c.jar"]


def test_no_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> PathDistribution:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(integrity, "distribution", missing)
    assert installed_version("pyspark") is None
    with pytest.raises(ConfigError, match="pyspark is not installed as a package"):
        changed_files()
