"""``releases.json``: how many random trees were compared with which release of Spark.

Runs of other seeds add up as long as the code of expressions is the same.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import engine.expressions

PATH: Final = Path(__file__).with_suffix(".json")
_COUNTS: Final = ("trees", "values", "differing")


def code() -> int:
    """Another number whenever the code of expressions has changed, and the same for all who have
    the same."""
    folder = Path(engine.expressions.__file__).parent
    files = sorted(path for path in folder.rglob("*.py"))
    return zlib.crc32(b"".join(path.read_bytes() for path in files))


def load() -> dict[str, dict[str, Any]]:
    """Spark's version → ``trees``, ``values`` (rows times trees), ``differing``, the ``seeds``, the
    ``code`` that was compared, and the ``java`` that Spark ran on."""
    found: dict[str, dict[str, Any]] = json.loads(PATH.read_text(encoding="utf-8"))
    return found


def record(version: str, seed: int, run: Mapping[str, Any]) -> None:
    """Add a run to those of its release, e.g. 4.3, or put it in their place if the code or the
    version was another. A seed counts once.

    :param run: ``trees``, ``values``, ``differing`` and ``java``.
    """
    known = load()
    others = {each: of for each, of in known.items() if _release(each) != _release(version)}
    present = {"java": run["java"], "code": code()}
    before = known.get(version, {})
    if any(before.get(name) != value for name, value in present.items()):
        before = {}
    seeds = before.get("seeds", [])
    if seed not in seeds:
        counts = {name: before.get(name, 0) + run[name] for name in _COUNTS}
        before = {**counts, "seeds": sorted([*seeds, seed]), **present}
    found = {**others, version: before}
    lines = [f"  {json.dumps(each)}: {json.dumps(found[each])}" for each in sorted(found)]
    PATH.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def _release(version: str) -> str:
    return version.rpartition(".")[0]
