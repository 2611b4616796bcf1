"""Of which commit, when, and on which machine something is measured."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Mapping
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "pyspark", "pyarrow", "numpy", "pandas", "msgspec", "confluent-kafka", "deltalake", "psycopg",
    "apache-airflow",
)  # fmt: skip
MEASURED = ("engine", "airflow_provider_continuous", "bench", ":!bench/publishing", "uv.lock")
"""What a figure is of: a page, or a test, that is committed in between makes it no older."""


def commit() -> str:
    """The last commit that has changed what is measured, as a short hash; with a ``+`` behind it if
    that is changed and not committed; empty without git."""
    try:
        named = _git("log", "-1", "--format=%h", "--abbrev=8", "--", *MEASURED)
        return named + "+" * bool(_git("status", "--porcelain", "--", *MEASURED))
    except (OSError, subprocess.CalledProcessError):
        return ""


def _git(*words: str) -> str:
    asked = ["git", *words]
    return subprocess.run(
        asked, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()


def now() -> str:
    """UTC, to the minute."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M")


def machine() -> tuple[str, Mapping[str, str]]:
    """A name that another machine, or another set of versions, does not have; and what it is."""
    found = {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "system": f"{_system()}, {platform.system()} {platform.release().partition('-')[0]}",
        "Python": platform.python_version(),
        "Java": _java(),
        **{package: installed for package in PACKAGES if (installed := _installed(package))},
    }
    text = json.dumps(found, sort_keys=True).encode()
    return hashlib.sha256(text).hexdigest()[:6], found


def _processor() -> str:
    cpus = Path("/proc/cpuinfo")
    if cpus.exists():
        for line in cpus.read_text().splitlines():
            if line.startswith("model name"):
                return " ".join(line.partition(":")[2].split())
    return platform.processor() or platform.machine()


def _system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        return platform.platform(terse=True)


def _java() -> str:
    from engine.spark.java import find_java

    found = find_java()
    if found is None:
        return "none"
    said = subprocess.run([found, "-version"], capture_output=True, text=True).stderr
    return said.partition('"')[2].partition('"')[0]


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
