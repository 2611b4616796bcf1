"""The README's first query, as somebody pastes it."""

from __future__ import annotations

import os
import re
from pathlib import Path

_README = Path(__file__).parent.parent / "README.md"


def first_query(folder: Path) -> str:
    """The program, with its output and checkpoint in ``folder``."""
    (program,) = re.findall(
        r"^## A first query\n\n```python\n(.*?)^```", _README.read_text(), re.M | re.S
    )
    return str(program).replace("/tmp/", f"{folder}/")


def without_activation() -> dict[str, str]:
    """The environment of somebody who names the interpreter instead: the PATH is the system's, and
    nothing tells Spark which Python its workers run."""
    ours = os.environ.get("VIRTUAL_ENV")
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYSPARK_", "PYTHON", "VIRTUAL_ENV"))
    }
    folders = os.environ["PATH"].split(os.pathsep)
    kept["PATH"] = os.pathsep.join(
        folder
        for folder in folders
        if not (Path(folder).parent / "pyvenv.cfg").exists() and (not ours or ours not in folder)
    )
    kept["SPARK_LOCAL_IP"] = "127.0.0.1"
    return kept
