"""``make demo``, as a new user runs it."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.system


def test_the_demo_succeeds_and_leaves_no_process_behind() -> None:
    make = shutil.which("make")
    assert make is not None
    done = subprocess.run(
        [make, "demo"], cwd=ROOT, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert done.stdout.count("equal        yes") == 2
    assert "input_rows   336,776" in done.stdout
    assert processes_of(ROOT / ".demo") == []
    with closing(sqlite3.connect(ROOT / ".demo" / "airflow" / "airflow.db")) as database:
        runs = database.execute("SELECT DISTINCT dag_id FROM dag_run").fetchall()
    assert runs == [("flights_demo",)], "on SQLite, who writes beside it can make it fail"


def processes_of(folder: Path) -> list[str]:
    """Command lines of all processes that were told of the folder."""
    found = []
    for process in psutil.process_iter(["cmdline", "environ"]):
        words = " ".join(process.info["cmdline"] or [])
        home = (process.info["environ"] or {}).get("AIRFLOW_HOME", "")
        if str(folder) in words or home.startswith(str(folder)):
            found.append(words)
    return found
