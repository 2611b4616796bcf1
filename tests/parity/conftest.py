"""The same Spark as in tests/spark."""

from __future__ import annotations

from tests.spark.conftest import spark

__all__ = ["spark"]
