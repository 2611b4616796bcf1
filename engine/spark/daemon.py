"""Spark's daemon of Python workers, with all that a task needs imported before it forks.

Spark's own forks first and imports then, about a second of work in each worker; and that worker may
be the one that replaces a killed one, with the query waiting. For the setting
``spark.python.daemon.module``; the engine must be installed where it runs.

Daemon and workers also outlive signals that are meant for the driver (:mod:`engine.spark.signals`):
the daemon ends when the JVM closes its standard input, and takes its workers along.

No thread may run when a process forks: what is imported here starts none that would be missed
(OpenBLAS, which numpy brings, stops its own before a fork).
"""

from __future__ import annotations

import gc
import sys
import zipimport
from typing import Any

from engine.spark.unzipped import prefer_unzipped

prefer_unzipped()

import pyspark.worker  # noqa: E402

import engine  # noqa: E402
import engine.sinks.builtin_sinks  # noqa: E402
import engine.sources.builtin_sources  # noqa: E402
import engine.task.loop  # noqa: E402
from engine.spark.signals import hold_back, let_pass_without_effect  # noqa: E402

_ = engine.write_stream  # the modules that a query's functions live in import it


def _forget_zip_importers() -> None:
    """A new worker invalidates the caches of imports, and each importer of a folder inside of
    pyspark.zip then reads the whole directory of the zip again: 16 times, 150 ms. Those that are
    needed later are made again from the directory that Python has in memory."""
    cache = sys.path_importer_cache
    for path in [path for path, it in cache.items() if isinstance(it, zipimport.zipimporter)]:
        del cache[path]


def _outlive_signals() -> None:
    """PySpark's daemon gives each worker the default handlers, and calls this ``main`` then."""
    hold_back()
    work: Any = pyspark.worker.main

    def main(*files: Any) -> None:
        let_pass_without_effect()
        work(*files)

    pyspark.worker.main = main


if __name__ == "__main__":
    _outlive_signals()
    from pyspark import daemon  # PySpark 4.1 looks up the worker's main here

    _forget_zip_importers()
    gc.freeze()  # a collection in a worker would copy every page that it shares with the daemon
    daemon.manager()
