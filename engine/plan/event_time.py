"""Event time, as Spark's analyzer notes it: in the metadata of attributes.

``withWatermark`` leaves ``spark.watermarkDelayMs`` on its column. Projections pass that on, a
``window`` over the column has it too, and where an expression is put in its place it is lost: then
the column is a timestamp like any other. So which rows are late, and which state is done with, is a
matter of these notes.

Source: Spark's ``WatermarkSupport``, ``EventTimeWatermark.delayKey``, ``TimeWindow.marker``,
``SessionWindow.marker``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from py4j.java_gateway import JavaObject
from pyspark.errors import AnalysisException

from engine.plan.session_settings import SessionSettings

_DELAY: Final = "spark.watermarkDelayMs"
_WINDOW: Final = "spark.timeWindow"
_SESSION: Final = "spark.sessionWindow"
_CHECKED: Final = "spark.sql.streaming.unsupportedOperationCheck"
_PRESUMED: Final = {
    "spark.sql.streaming.statefulOperator.allowMultiple": "each step with state has a watermark of "
    "its own, as Spark's have by default",
    "spark.sql.streaming.noDataMicroBatches.enabled": "what a watermark closes leaves in the epoch "
    "in which it comes, whether there are more rows or not",
}
"""Settings whose default is built in."""


def delay_ms(attribute: JavaObject) -> int | None:
    """How late rows may be, by this column; None if it is no event time."""
    metadata = attribute.metadata()
    return int(metadata.getLong(_DELAY)) if metadata.contains(_DELAY) else None


def is_session(attribute: JavaObject) -> bool:
    """Whether it is the session that a row begins (``session_window``)."""
    return bool(attribute.metadata().contains(_SESSION))


def is_time(attribute: JavaObject) -> bool:
    """Whether it is a ``window``, or the event time itself."""
    return bool(attribute.metadata().contains(_WINDOW)) or delay_ms(attribute) is not None


def event_time(attributes: Sequence[JavaObject], problems: list[str]) -> int | None:
    """The position of the one among them that the watermark is compared with; None without any.

    :param problems: gets that there are several.
    """
    found = {
        each.exprId().id(): place
        for place, each in enumerate(attributes)
        if delay_ms(each) is not None
    }
    if len(found) > 1:
        names = ", ".join(attributes[place].name() for place in found.values())
        problems.append(
            f"the columns {names}: more than one event time, and a step that keeps state has one: "
            "leave the others out by select()"
        )
    return min(found.values(), default=None)


def refused_settings(gateway: Any) -> list[str]:
    """What a query with state cannot honour of the session's settings."""
    settings = SessionSettings(gateway)
    return [
        f"the setting {key}, which is {value} in this session: {reason}"
        for key, reason in _PRESUMED.items()
        if (value := settings.other_than_default(key)) is not None
    ]


def refused_by_spark(
    gateway: Any, plan: JavaObject, output_mode: str, *, continuous: bool = False
) -> str | None:
    """Why Spark itself would not start a query, in its words; None if it would.

    :param plan: the analyzed one.
    :param output_mode: ``append``, ``update`` or ``complete``.
    :param continuous: it would be in Spark's continuous mode, which runs fewer.
    """
    if SessionSettings(gateway).value(_CHECKED) == "false":
        return None
    sql = gateway.jvm.org.apache.spark.sql
    mode = getattr(sql.streaming.OutputMode, output_mode.capitalize())()
    checker = sql.catalyst.analysis.UnsupportedOperationChecker
    check = checker.checkForContinuous if continuous else checker.checkForStreaming
    try:
        check(plan, mode)
    except AnalysisException as exc:
        return str(exc).partition(";\n")[0].partition("\n\nJVM stacktrace")[0].strip()
    return None
