"""Which of many expressions Spark's analyzer takes, in one pass.

What it cannot resolve stays as it is in its plan, beside all that it can. Only where the parser or
a rule fails at once (in Spark 4.1 also on a constant that raises), the expressions are looked at by
halves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, _parse_datatype_json_string

from engine.plan.catalyst import scala_seq

_VIEW = "analyzed_rows"


def resolved(frame: DataFrame, texts: Sequence[str]) -> list[JavaObject | str]:
    """For each SQL expression the one that is resolved, or the error class of what is wrong."""
    frame.createOrReplaceTempView(_VIEW)
    session: Any = frame.sparkSession._jsparkSession
    return _resolved(session.sessionState(), texts)


def type_of(expression: JavaObject) -> DataType:
    """The type of its result."""
    return _parse_datatype_json_string(expression.dataType().json())


def _resolved(state: Any, texts: Sequence[str]) -> list[JavaObject | str]:
    columns = ", ".join(f"{text} AS _{number}" for number, text in enumerate(texts))
    try:
        plan = state.analyzer().execute(
            state.sqlParser().parsePlan(f"SELECT {columns} FROM {_VIEW}")
        )
    except (PySparkException, Py4JJavaError) as error:  # it evaluates some constants
        if len(texts) == 1:
            condition = None if isinstance(error, Py4JJavaError) else error.getCondition()
            return [condition or type(error).__name__]
        half = len(texts) // 2
        return _resolved(state, texts[:half]) + _resolved(state, texts[half:])
    nodes = scala_seq(plan.projectList())
    return [node if node.resolved() else "UNRESOLVED" for node in nodes]
