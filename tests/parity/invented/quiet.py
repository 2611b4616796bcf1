"""PySpark logs everything that its analyzer refuses, and much is refused here."""

from __future__ import annotations

import logging
from typing import Final

from pyspark.logger import PySparkLogger

LOGGER: Final = PySparkLogger.getLogger("SQLQueryContextLogger")
"""By PySpark's own way: another logger of the name would not take what PySpark says."""


def be_quiet() -> None:
    """For the rest of this process."""
    LOGGER.setLevel(logging.CRITICAL)
