"""The driver program for spark-submit: ``python -m engine run``::

    spark-submit ... application.py [OPTIONS of run] SPEC
    spark-submit ... application.py env:NAME     # the specification is in this variable

The second is for drivers that can be given no file.
"""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

_VARIABLE = "env:"


def main(arguments: list[str]) -> int:
    """Run the query and return the exit code."""
    from engine.commands.command_line import main as run

    *options, spec = arguments
    if spec.startswith(_VARIABLE):
        # It may hold secrets: what this process starts need not inherit them.
        sys.stdin = io.StringIO(os.environ.pop(spec.removeprefix(_VARIABLE)))
        spec = "-"
    return run(["run", spec, *options])


if __name__ == "__main__":
    # Python puts the script's folder first on the path, and our modules are no top-level ones.
    here = str(Path(__file__).parent)
    sys.path[:] = [folder for folder in sys.path if folder != here]

    from engine.spark.unzipped import prefer_unzipped

    prefer_unzipped()  # spark-submit puts the zip in front, too
    sys.exit(main(sys.argv[1:]))
