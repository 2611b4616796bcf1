"""Sessions that compare and say nothing: much is refused, and much fails in Spark, on purpose."""

from __future__ import annotations

import gc
import logging
from typing import Final

from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from tests.servers.jvm import QUICK
from tests.spark.conftest import start

LOGGER: Final = PySparkLogger.getLogger("SQLQueryContextLogger")
"""By PySpark's own way: another logger of the name would not take what PySpark says."""
_JAVA: Final = f"{' '.join(QUICK)} -XX:ReservedCodeCacheSize=240m"
"""Each query is another one: what Java's second compiler gains is less than what it takes; and the
code of so many fills what is set aside for it."""

_GARBAGE: Final = 50_000
"""So many objects more than are gone, and Python looks for circles; by default 700, which took a
sixth of its time."""
_RETAINED: Final = "10"
"""Spark would remember a thousand queries, however large their plans."""


def be_quiet() -> None:
    """PySpark logs nothing of what its analyzer refuses, for the rest of this process."""
    LOGGER.setLevel(logging.CRITICAL)


def start_quietly() -> SparkSession:
    """A session of such a process; Spark logs nothing of what fails, which the comparison tells."""
    be_quiet()
    session = start(
        spark__driver__extraJavaOptions=_JAVA,
        spark__driver__memory="2g",
        spark__sql__leafNodeDefaultParallelism="1",  # each task unpacks all expressions
        spark__ui__showConsoleProgress="false",
        spark__sql__ui__retainedExecutions=_RETAINED,
        spark__ui__retainedJobs=_RETAINED,
        spark__ui__retainedStages=_RETAINED,
    )
    session.sparkContext.setLogLevel("OFF")
    # A batch makes millions of objects that stay to its end, beside all that is imported for good.
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GARBAGE)
    return session
