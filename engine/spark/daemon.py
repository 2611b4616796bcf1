"""Spark's daemon of Python workers, with all that a task needs imported before it forks.

Spark's own forks first and imports then, about a second of work in each worker; and that worker may
be the one that replaces a killed one, with the query waiting. For the setting
``spark.python.daemon.module``; the engine must be installed where it runs.

No thread may run when a process forks: what is imported here starts none that would be missed
(OpenBLAS, which numpy brings, stops its own before a fork).
"""

from __future__ import annotations

import pyspark.worker  # noqa: F401
from pyspark import daemon

import engine.sinks.registry
import engine.sources.registry
import engine.task.loop  # noqa: F401

if __name__ == "__main__":
    daemon.manager()
