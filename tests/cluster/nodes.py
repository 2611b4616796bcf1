"""The Python of a cluster's nodes: with PySpark and what the engine imports, without the engine, so
that what runs there has come with the job."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path


def python_of_nodes(folder: Path) -> Path:
    """Make such an environment; return its interpreter.

    :param folder: made by it.
    """
    venv.create(folder, symlinks=True, with_pip=False)
    (packages,) = folder.glob("lib/python*/site-packages")
    # Folders that a path file names are importable, and their own path files are not read: by one
    # of those the engine is installed here.
    (packages / "packages.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = folder / "bin" / "python"
    shown = subprocess.run(
        [python, "-c", "import pyspark, pyarrow; import engine"],
        capture_output=True,
        text=True,
        cwd=folder,
        env={},
    )
    assert "No module named 'engine'" in shown.stderr, shown.stderr or sys.executable
    return python
