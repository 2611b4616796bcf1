"""A state that does not fit the memory of a process, and does where it may leave it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

STEADY = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "1",
    # By itself malloc raises it to the largest block that was freed: blocks of the next batches lie
    # between others then, what is freed stays with the process, and how much that is varies.
    "MALLOC_MMAP_THRESHOLD_": str(1 << 16),
}
"""Variables of a process of which it is known how much memory it takes."""


def check_that_it_spills(module: str, folder: Path) -> None:
    """:param module: run as ``python -m MODULE FOLDER BUDGET_BYTES``; 0: all is in memory."""
    for spills in ("0", str(1 << 22)):
        done = subprocess.run(
            [sys.executable, "-m", module, str(folder), spills],
            env={**os.environ, **STEADY},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode == 0) == (spills != "0"), done.stderr[-2_000:]
        assert spills != "0" or "MemoryError" in done.stderr or "malloc" in done.stderr
