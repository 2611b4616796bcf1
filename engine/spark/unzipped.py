"""Has a process that Spark starts import PySpark from files instead of from a zip.

Spark puts ``python/lib/pyspark.zip`` of its home in front of the Python path of workers, and of
drivers that spark-submit starts. Python keeps no bytecode of what is in a zip: each of them would
compile all that it imports, a second of work before the first row. An installation by pip has the
same files unzipped beside it.
"""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final

_ZIP: Final = "pyspark.zip"


def prefer_unzipped() -> None:
    """Take the zip of PySpark from ``sys.path`` where Python then finds the very installation that
    it belongs to. To be called before anything imports PySpark."""
    for place in [place for place in sys.path if Path(place).name == _ZIP]:
        others = [other for other in sys.path if other != place]
        found = PathFinder.find_spec("pyspark", others)
        if found is None or found.origin is None:
            continue
        if Path(place) == Path(found.origin).parent / "python" / "lib" / _ZIP:
            sys.path[:] = others
