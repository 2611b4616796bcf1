"""pyspark and pyspark-client install the same files: they have to be of the same version."""

from __future__ import annotations

import re
from pathlib import Path

from engine.spark.integrity import changed_files, installed_version

LOCK = Path(__file__).parents[2] / "uv.lock"


def test_the_installed_files_are_those_of_the_wheel() -> None:
    assert changed_files() == []


def test_the_lock_keeps_both_at_one_version() -> None:
    text = LOCK.read_text(encoding="utf-8")
    versions = dict(
        re.findall(r'^name = "(pyspark|pyspark-client)"\nversion = "([^"]+)"', text, re.MULTILINE)
    )
    assert set(versions) == {"pyspark", "pyspark-client"}
    assert len(set(versions.values())) == 1
    assert installed_version("pyspark") == versions["pyspark"]
