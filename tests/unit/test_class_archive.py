"""When Spark's JVM is told to use an archive of classes; ``tests/spark`` sees that it does."""

from __future__ import annotations

import os
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import psutil
import pytest

from engine.spark import class_archive
from engine.spark.class_archive import OPTIONS, archive_path, make_archive, use_archive
from tests.waiting import wait_until


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The command of some Java; no virtual environment, and an empty cache."""
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv(OPTIONS, "-Dours=1")
    monkeypatch.setenv("SPARK_LAUNCHER_OPTS", "-Dtheirs=1")
    java = tmp_path / "java"
    java.touch()
    return java


def write(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def test_an_archive_that_is_there_is_used_once(java: Path) -> None:
    use_archive(java)
    assert os.environ[OPTIONS] == "-Dours=1", "there is none"
    path = write(archive_path(java))
    use_archive(java)
    use_archive(java)
    assert os.environ[OPTIONS].startswith(f"-Dours=1 -XX:SharedArchiveFile={path} ")
    assert os.environ[OPTIONS].count("SharedArchiveFile") == 1
    assert os.environ["SPARK_LAUNCHER_OPTS"] == "-Dtheirs=1"


def test_the_users_own_archive_is_left_alone(java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(archive_path(java))
    monkeypatch.setenv(OPTIONS, "-XX:SharedArchiveFile=/their/own.jsa")
    use_archive(java)
    assert os.environ[OPTIONS] == "-XX:SharedArchiveFile=/their/own.jsa"


def test_another_java_has_another_archive(java: Path, tmp_path: Path) -> None:
    before = archive_path(java)
    assert before.parent == tmp_path / "cache" / "continuous"
    os.utime(java, ns=(1, 1))  # an update in place
    assert archive_path(java) != before
    assert archive_path(tmp_path / "other" / "java") != before


def test_a_virtual_environment_keeps_its_own(
    java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert archive_path(java).is_relative_to(tmp_path / "share")


def test_an_environment_has_the_same_by_a_link(
    java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    installed = write(tmp_path / "releases" / "7" / "pyspark" / "__init__.py")
    (tmp_path / "current").symlink_to(tmp_path / "releases" / "7")
    found = installed

    def find_spec(name: str) -> ModuleSpec:
        return ModuleSpec(name, None, origin=str(found))

    monkeypatch.setattr(class_archive, "find_spec", find_spec)
    behind = archive_path(java)
    found = tmp_path / "current" / "pyspark" / "__init__.py"
    assert archive_path(java) == behind


def test_one_that_cannot_be_made_is_told(
    java: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "cache").touch()  # a file where the folder should be
    assert make_archive(java) is None
    assert "no archive of Spark's classes was made" in caplog.text


def test_one_that_takes_too_long_is_given_up_with_its_jvm(
    java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The process is a stand-in that has started a child, and both wait for ever."""
    child = tmp_path / "child"
    program = tmp_path / "python"
    program.write_text(
        f"#!/bin/sh\nsleep 1000 &\necho $! > {child}.tmp\nmv {child}.tmp {child}\nwait\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(class_archive, "_TIMEOUT_S", 5)
    assert make_archive(java) is None
    assert "timed out" in caplog.text
    wait_until(lambda: not _runs(int(child.read_text())), "the end of the child")


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
