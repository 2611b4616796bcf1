"""Spark's daemon of Python workers, with all that a task needs imported before it forks.

Spark's own forks first and imports then, about a second of work in each worker; and that worker may
be the one that replaces a killed one, with the query waiting. For the setting
``spark.python.daemon.module``; the engine must be installed where it runs.

No thread may run when a process forks: what is imported here starts none that would be missed
(OpenBLAS, which numpy brings, stops its own before a fork).
"""

from __future__ import annotations

import gc
import sys
import zipimport

import pyspark.worker  # noqa: F401
from pyspark import daemon

import engine
import engine.sinks.builtin_sinks
import engine.sources.builtin_sources
import engine.task.loop

_ = engine.write_stream  # the modules that a query's functions live in import it


def _forget_zip_importers() -> None:
    """A new worker invalidates the caches of imports, and each importer of a folder inside of
    pyspark.zip then reads the whole directory of the zip again: 16 times, 150 ms. Those that are
    needed later are made again from the directory that Python has in memory."""
    cache = sys.path_importer_cache
    for path in [path for path, it in cache.items() if isinstance(it, zipimport.zipimporter)]:
        del cache[path]


if __name__ == "__main__":
    _forget_zip_importers()
    gc.freeze()  # a collection in a worker would copy every page that it shares with the daemon
    daemon.manager()
