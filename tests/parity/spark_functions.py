"""What Spark's own registry has: the scalar functions of the installed version."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

_NOT_SCALAR = ("agg_funcs", "window_funcs", "generator_funcs")
"""Groups, as ``ExpressionInfo.getGroup`` names them."""
_AGGREGATES = "org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction"
"""Some of these are in no such group."""
_BUILDER = "ExpressionBuilder"


def scalar_functions(spark: SparkSession) -> dict[str, str]:
    """SQL name → the class of the expression, without its package."""
    loader: Any = spark._jvm.Thread.currentThread().getContextClassLoader()  # type: ignore[union-attr]
    aggregates = loader.loadClass(_AGGREGATES)
    registry: Any = spark._jsparkSession.sessionState().functionRegistry()
    names, found = registry.listFunction().iterator(), {}
    while names.hasNext():
        info = registry.lookupFunction(names.next()).get()
        of_class = str(info.getClassName())
        if info.getGroup() in _NOT_SCALAR:
            continue
        if not aggregates.isAssignableFrom(loader.loadClass(of_class)):
            found[str(info.getName())] = of_class.rpartition(".")[2].removesuffix(_BUILDER)
    return dict(sorted(found.items()))
