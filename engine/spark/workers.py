"""Which Python the tasks of a session run with, and whether it can run ours.

A session that the user has built starts ``python3`` from the PATH unless told otherwise: in a
virtual environment that is not activated (an IDE, cron, a notebook) that is another Python.

Whether it can run ours is looked at twice: by a start, which asks one executor before anything
else is done; and by every task before it loads anything, wherever Spark puts it. Spark itself
refuses another minor version of Python, by which neither pickles nor the bytecode of the user's
functions could be loaded. Of pyarrow any version will do that has what is used: what travels is
Arrow's IPC format, which all of them read.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from engine import __version__
from engine.errors import ConfigError
from engine.execution.slots import Slots
from engine.redaction.logs import redact
from engine.spark.failure import gist

if TYPE_CHECKING:
    from pyspark import SparkContext

logger = logging.getLogger(__name__)
CHECK_TIMEOUT_S = 60.0
"""So long the check waits for an executor to take it."""
_PYARROW_MAJOR_MIN = 18
_HINT = (
    "Install airflow-provider-continuous {version} for Python {python} on every node, and name its "
    "interpreter: PYSPARK_PYTHON (or spark.pyspark.python with spark-submit). Or send a packed "
    "environment along: spark.archives."
)
_MARK = "this Python cannot run a continuous query"
_WORKER_IS_WRONG = re.compile(
    rf"{_MARK}: (.+)|\[PYTHON_VERSION_MISMATCH\] (.+)|(Cannot run program .+)"
)
_checked: set[str] = set()
"""Applications whose executors have been found good."""


def is_local(master: str) -> bool:
    """Whether tasks run inside of the driver's own JVM. ``local-cluster`` has executors."""
    return master == "local" or master.startswith("local[")


def use_this_python(context: SparkContext) -> None:
    """Have the tasks of a local session run with the interpreter of this process, unless the user
    has chosen one. PySpark reads ``pythonExec`` whenever it hands a function to the JVM."""
    if not os.environ.get("PYSPARK_PYTHON") and is_local(str(context.master)):
        context.pythonExec = context.getConf().get("spark.pyspark.python") or sys.executable


def check_workers(context: SparkContext, slots: Slots | None) -> None:
    """Ask an executor, once per application. Nothing is asked where tasks run with this very
    interpreter, nor where no slot is free: the tasks will look themselves.

    :raises ConfigError: an executor could not run a query's tasks.
    """
    application = context.applicationId
    if application in _checked or (
        is_local(str(context.master)) and context.pythonExec == sys.executable
    ):
        return
    if slots is not None and slots.total > 0 and slots.free == 0:
        return
    if _ask_an_executor(context):
        _checked.add(application)
    else:
        logger.warning(
            "no executor has told its Python within %g s: the query's tasks will look themselves",
            CHECK_TIMEOUT_S,
        )


def _ask_an_executor(context: SparkContext) -> bool:
    """Whether one has looked in time.

    :raises ConfigError: it has, and found what is missing.
    """
    from pyspark import InheritableThread

    errors: list[Exception] = []
    tag = "continuous-check-of-workers"

    def ask() -> None:
        look = look_at_worker()
        try:
            context.setJobGroup(tag, "continuous: check of the executors' Python", True)
            context.addJobTag(tag)
            context.parallelize([0], 1).foreach(lambda _: look())
        except Exception as error:
            errors.append(error)

    thread = InheritableThread(target=ask, name=tag, daemon=True)
    thread.start()
    thread.join(CHECK_TIMEOUT_S)
    if thread.is_alive():
        context.cancelJobsWithTag(tag)
        return False
    if errors:
        reason = f"the check failed: {redact(gist(errors[0]))}"
        raise (refusal(errors[0]) or _refusal(reason)) from errors[0]
    return True


def look_at_worker() -> Callable[[], None]:
    """A function for the executor, that travels by value: the engine may not be there to import it
    from. It raises what :func:`refusal` knows again."""
    mark, version, pyarrow_min = _MARK, __version__, _PYARROW_MAJOR_MIN

    def problem() -> str | None:
        found = {}
        for name in ("engine", "pyarrow"):
            try:
                found[name] = str(__import__(name).__version__)
            except ImportError as error:
                return f"cannot import {name} ({type(error).__name__}: {error})"
        if found["engine"] != version:
            return f"has version {found['engine']} of the engine, and the driver {version}"
        if int(found["pyarrow"].partition(".")[0]) < pyarrow_min:
            return f"has pyarrow {found['pyarrow']}, older than {pyarrow_min}"
        return None

    def look() -> None:
        import socket
        import sys

        if found := problem():
            raise RuntimeError(f"{mark}: {sys.executable} on {socket.gethostname()} {found}")

    return look


def refusal(error: Exception) -> ConfigError | None:
    """What the failure of a Spark job tells of the Python of its workers; None if that is not why
    it failed."""
    found = _WORKER_IS_WRONG.search(gist(error))
    return None if found is None else _refusal(redact(found.group(found.lastindex or 0)))


def _refusal(reason: str) -> ConfigError:
    python = "{}.{}".format(*sys.version_info)
    return ConfigError(
        f"The executors cannot run the query's tasks: {reason.rstrip('.')}.",
        hint=_HINT.format(version=__version__, python=python),
    )
