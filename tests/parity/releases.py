"""``releases.json``: how many random trees were compared with which release of Spark."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

PATH: Final = Path(__file__).with_suffix(".json")


def load() -> dict[str, dict[str, Any]]:
    """Spark's version → ``trees``, ``values`` (rows times trees), ``differing``, ``seed``, and the
    ``java`` that Spark ran on: of the last run that was recorded."""
    found: dict[str, dict[str, Any]] = json.loads(PATH.read_text(encoding="utf-8"))
    return found


def record(version: str, run: Mapping[str, Any]) -> None:
    """Put a run in place of the last one of its release, e.g. 4.3."""
    release = _release(version)
    others = {each: of for each, of in load().items() if _release(each) != release}
    found = {**others, version: dict(run)}
    lines = [f"  {json.dumps(each)}: {json.dumps(found[each])}" for each in sorted(found)]
    PATH.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def _release(version: str) -> str:
    return version.rpartition(".")[0]
