"""``measurements.json``: what the long runs have found, a line per SQL name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

PATH: Final = Path(__file__).with_suffix(".json")


def load() -> dict[str, Any]:
    """``run``: figures of the last whole run, and the names that were compared again since, with
    how many rows in each of four settings.
    ``names``: see :func:`tests.parity.measure.measure`. ``functions``: see
    :func:`tests.parity.spark_functions.scalar_functions`."""
    found: dict[str, Any] = json.loads(PATH.read_text(encoding="utf-8"))
    return found


def save(run: Mapping[str, Any], names: Mapping[str, Any], functions: Mapping[str, str]) -> None:
    """Write it so that a difference between two runs can be read."""
    lines = [f"  {json.dumps(name)}: {json.dumps(names[name])}" for name in sorted(names)]
    PATH.write_text(
        f'{{\n "run": {json.dumps(run)},\n "functions": {json.dumps(functions)},\n'
        ' "names": {\n' + ",\n".join(lines) + "\n }\n}\n",
        encoding="utf-8",
    )
