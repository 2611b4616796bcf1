"""Which Python the tasks of a session run with, and whether it can run ours.

A session that the user has built starts ``python3`` from the PATH unless told otherwise: in a
virtual environment that is not activated (an IDE, cron, a notebook) that is another Python.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

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
    """Ask an executor, once per application, for its Python, engine and pyarrow. Nothing is asked
    where tasks run with this very interpreter, nor where no slot is free: the launch will tell.

    :raises ConfigError: an executor could not run a query's tasks.
    """
    application = context.applicationId
    if application in _checked or (
        is_local(str(context.master)) and context.pythonExec == sys.executable
    ):
        return
    if slots is not None and slots.total > 0 and slots.free == 0:
        return
    found = _ask_an_executor(context)
    if found is None:
        logger.warning(
            "no executor has told its Python within %g s; the query starts unchecked",
            CHECK_TIMEOUT_S,
        )
        return
    if problem := _problem(found):
        raise _refusal(f"{found['python']} on {found['host']} {problem}")
    _checked.add(application)


def _ask_an_executor(context: SparkContext) -> dict[str, Any] | None:
    """What :func:`_look` has found; None if nobody has run it in time."""
    from pyspark import InheritableThread

    answers: list[dict[str, Any]] = []
    errors: list[Exception] = []
    tag = "continuous-check-of-workers"

    def ask() -> None:
        try:
            context.setJobGroup(tag, "continuous: check of the executors' Python", True)
            context.addJobTag(tag)
            answers.extend(context.parallelize([0], 1).map(_look()).collect())
        except Exception as error:
            errors.append(error)

    thread = InheritableThread(target=ask, name=tag, daemon=True)
    thread.start()
    thread.join(CHECK_TIMEOUT_S)
    if thread.is_alive():
        context.cancelJobsWithTag(tag)
        return None
    if errors:
        raise _refusal(f"the check failed: {redact(gist(errors[0]))}") from errors[0]
    return answers[0]


def _look() -> Callable[[int], dict[str, Any]]:
    """A function that travels by value: the engine may not be there to import it from."""

    def look(_: int) -> dict[str, Any]:
        import socket
        import sys

        found: dict[str, Any] = {"python": sys.executable, "host": socket.gethostname()}
        for name in ("pyarrow", "engine"):
            try:
                found[name] = __import__(name).__version__
            except ImportError as error:
                found[f"{name} error"] = f"{type(error).__name__}: {error}"
        return found

    return look


def _problem(found: dict[str, Any]) -> str | None:
    for name in ("engine", "pyarrow"):
        if f"{name} error" in found:
            return f"cannot import {name} ({found[f'{name} error']})"
    if found["engine"] != __version__:
        return f"has version {found['engine']} of the engine, and the driver {__version__}"
    if int(found["pyarrow"].partition(".")[0]) < _PYARROW_MAJOR_MIN:
        return f"has pyarrow {found['pyarrow']}, older than {_PYARROW_MAJOR_MIN}"
    return None


def _refusal(reason: str) -> ConfigError:
    python = "{}.{}".format(*sys.version_info)
    return ConfigError(
        f"The executors cannot run the query's tasks: {reason}.",
        hint=_HINT.format(version=__version__, python=python),
    )
