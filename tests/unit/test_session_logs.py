"""What PySpark logs of an error that it raises: the whole of it, with Java's stack."""

from __future__ import annotations

import logging

import pytest
from pyspark.logger import PySparkLogger

from engine.spark.session import leave_errors_to_who_gets_them

NAMES = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


@pytest.mark.parametrize(("level", "is_logged"), [(logging.INFO, False), (logging.DEBUG, True)])
@pytest.mark.parametrize("name", NAMES)
def test_an_error_that_is_raised_is_logged_for_debugging_alone(
    monkeypatch: pytest.MonkeyPatch, name: str, level: int, is_logged: bool
) -> None:
    logged: list[logging.LogRecord] = []
    logger = PySparkLogger.getLogger(name)
    monkeypatch.setattr(logger, "handlers", [])
    monkeypatch.setattr(logger, "handle", logged.append)
    touched = [logging.getLogger(), *map(PySparkLogger.getLogger, NAMES)]
    before = [each.level for each in touched]
    try:
        touched[0].setLevel(level)
        leave_errors_to_who_gets_them()
        logger.error("A column cannot be resolved", errorClass="UNRESOLVED_COLUMN")
    finally:
        for each, known in zip(touched, before, strict=True):
            each.setLevel(known)
    assert bool(logged) is is_logged
