"""Which of many expressions Spark's analyzer takes, in one pass.

What it cannot resolve stays as it is in its plan, beside all that it can. Only where the parser or
a rule fails at once, the expressions are looked at by halves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, _parse_datatype_json_string

from engine.plan.catalyst import scala_seq

_VIEW = "analyzed_rows"


def resolved(frame: DataFrame, texts: Sequence[str]) -> list[DataType | str]:
    """For each SQL expression the type of its result, or the error class of what is wrong."""
    frame.createOrReplaceTempView(_VIEW)
    session: Any = frame.sparkSession._jsparkSession
    return _resolved(session.sessionState(), texts)


def _resolved(state: Any, texts: Sequence[str]) -> list[DataType | str]:
    columns = ", ".join(f"{text} AS _{number}" for number, text in enumerate(texts))
    try:
        plan = state.analyzer().execute(
            state.sqlParser().parsePlan(f"SELECT {columns} FROM {_VIEW}")
        )
    except (AnalysisException, ParseException) as error:
        if len(texts) == 1:
            return [error.getCondition() or type(error).__name__]
        half = len(texts) // 2
        return _resolved(state, texts[:half]) + _resolved(state, texts[half:])
    return [
        _parse_datatype_json_string(node.dataType().json()) if node.resolved() else "UNRESOLVED"
        for node in scala_seq(plan.projectList())
    ]
