"""Has a process that Spark starts import PySpark from files instead of from a zip.

Spark puts ``python/lib/pyspark.zip`` of its home in front of the Python path of workers, and of
drivers that spark-submit starts. Python keeps no bytecode of what is in a zip: each of them would
compile all that it imports, a second of work before the first row. An installation by pip has the
same files unzipped beside it.
"""

from __future__ import annotations

import sys
from pathlib import Path


def prefer_unzipped() -> None:
    """Take the zip of PySpark from ``sys.path`` where the very installation that it belongs to is
    there as well. To be called before anything imports PySpark."""
    sys.path[:] = [place for place in sys.path if not _is_there_unzipped(place)]


def _is_there_unzipped(place: str) -> bool:
    path = Path(place)
    if path.name != "pyspark.zip":
        return False
    home = path.parent.parent.parent
    return (
        path == home / "python" / "lib" / path.name
        and home.name == "pyspark"
        and (home / "__init__.py").exists()
        and str(home.parent) in sys.path
    )
