"""What Spark's own registry has: the scalar functions of the installed version."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

_NOT_SCALAR = ("agg_funcs", "window_funcs", "generator_funcs")
"""Groups, as ``ExpressionInfo.getGroup`` names them."""


def scalar_functions(spark: SparkSession) -> dict[str, str]:
    """SQL name → the class that Spark builds it with, without its package."""
    registry: Any = spark._jsparkSession.sessionState().functionRegistry()
    names, found = registry.listFunction().iterator(), {}
    while names.hasNext():
        info = registry.lookupFunction(names.next()).get()
        if info.getGroup() not in _NOT_SCALAR:
            found[str(info.getName())] = str(info.getClassName()).rpartition(".")[2]
    return dict(sorted(found.items()))
