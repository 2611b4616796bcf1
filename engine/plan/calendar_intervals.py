"""Dates and timestamps plus intervals that mix units: Spark's ``CalendarIntervalType``.

Such an interval is none of the engine's types. It is read where it is added: a constant one as
several that are of one kind each, ``make_interval(...)`` as one node with the addition, and any
other (a text that is cast, ``if(.., '2 minutes', '9 minutes')``) as a struct, see
:mod:`engine.expressions.times.calendar_intervals`.

``session_window(ts, '1 day 2 hours')`` adds such an interval. Each of its parts is one of a single
kind, which kernels add: months and days to what the clock on the wall shows, the rest to the
instant. An interval of 25 hours is no day, so it is added in two steps.

Source: Spark's ``DateTimeUtils.timestampAddInterval``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa
from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from engine.expressions.times.calendar_intervals import CALENDAR, as_value
from engine.expressions.times.civil import MICROS_PER_DAY
from engine.expressions.tree import Expr
from engine.expressions.types import DAY_TIME_INTERVAL, YEAR_MONTH_INTERVAL, months_value
from engine.plan.catalyst import scala_seq, simple_name

_STEPS_MAX: Final = 31
_MONTHS_MAX: Final = 10_000 * 12
_DAYS_MAX: Final = 10_000 * 366
"""Of more than these, what lies between two steps may be no timestamp though the end is one."""

_CONDITIONALS: Final = {"If", "CaseWhen", "Coalesce"}
ADDITIONS: Final = {"TimestampAddInterval", "DateAddInterval"}
_ERRORS: Final = (Py4JJavaError, PySparkException)


class CalendarIntervals:
    """Reads additions of such intervals.

    :param convert: reads any other expression.
    :param params: the parameters of a node's class that a kernel of this name reads.
    :param of: some of these, by name.
    """

    def __init__(
        self,
        convert: Callable[[JavaObject], Expr],
        params: Callable[[str, JavaObject], dict[str, Any]],
        of: Callable[..., dict[str, Any]],
    ) -> None:
        self._convert, self._params, self._of = convert, params, of

    def later(self, op: str, node: JavaObject, dtype: pa.DataType) -> Expr | None:
        """The sum, or difference, that a node of :data:`ADDITIONS` is.

        :return: None if it is none of such an interval, or one that is not supported.
        """
        start, interval = scala_seq(node.children())
        if simple_name(interval.dataType()) != "CalendarIntervalType$":
            return None
        if op == "DateAddInterval":
            return self._made_later(start, interval, node, dtype)
        if interval.foldable() and (found := self._constant_later(start, interval, node)):
            return found
        made = self._made_later(start, interval, node, dtype)
        return made or self._computed_later(start, interval, node)

    def _constant_later(
        self, start: JavaObject, interval: JavaObject, node: JavaObject
    ) -> Expr | None:
        try:
            value = interval.eval(None)
        except _ERRORS:  # a text is malformed, an interval too long
            return None
        if value is not None and not _goes_one_way(value):
            return None
        params = self._params("TimestampAddInterval", node)
        return plus_constant(self._convert(start), value, params)

    def _made_later(
        self, start: JavaObject, interval: JavaObject, node: JavaObject, dtype: pa.DataType
    ) -> Expr | None:
        """A date or timestamp plus or minus ``make_interval(...)``; None if it is none."""
        params: dict[str, Any] = {"negated": False, "negation_fails": False, "null_safe": True}
        if simple_name(interval) == "UnaryMinus":
            params |= {"negated": True, "negation_fails": interval.failOnError()}
            interval = interval.child()
        if simple_name(interval) == "TryMakeInterval":
            interval = interval.replacement()
        if simple_name(interval) != "MakeInterval":
            return None
        params["fail_on_error"] = interval.failOnError()
        params |= self._of(node, "time_zone_id", "ansi_enabled")
        children = tuple(map(self._convert, [start, *scala_seq(interval.children())]))
        return Expr("MadeIntervalLater", children, dtype, node.nullable(), params)

    def _computed_later(
        self, start: JavaObject, interval: JavaObject, node: JavaObject
    ) -> Expr | None:
        read = self._interval(interval)
        if read is None:
            return None
        before = self._convert(start)
        params = {"null_safe": True, **self._of(node, "time_zone_id")}
        return Expr("CalendarIntervalLater", (before, read), before.dtype, node.nullable(), params)

    def _interval(self, node: JavaObject) -> Expr | None:
        """The interval as a struct."""
        op = simple_name(node)
        if op == "TryMakeInterval":
            return self._interval(node.replacement())
        if node.foldable():
            try:
                value = node.eval(None)
            except _ERRORS:
                return None
            plain = as_value(None if value is None else _fields(value))
            return Expr("Literal", (), CALENDAR, plain is None, {"value": plain})
        if op == "Cast" and simple_name(node.child().dataType()) == "StringType$":
            return Expr("CalendarIntervalOfText", (self._convert(node.child()),), CALENDAR, True)
        if op == "MakeInterval":
            parts = tuple(map(self._convert, scala_seq(node.children())))
            params = {"null_safe": True, "fail_on_error": node.failOnError()}
            return Expr("CalendarIntervalOfParts", parts, CALENDAR, node.nullable(), params)
        if op not in _CONDITIONALS:
            return None
        read = [self._part(each) for each in scala_seq(node.children())]
        children = tuple(part for part in read if part is not None)
        if len(children) < len(read):
            return None
        return Expr(op, children, CALENDAR, node.nullable(), self._params(op, node))

    def _part(self, node: JavaObject) -> Expr | None:
        """A child of a conditional."""
        if simple_name(node.dataType()) == "CalendarIntervalType$":
            return self._interval(node)
        return self._convert(node)


def plus_constant(start: Expr, interval: Any, params: Mapping[str, Any]) -> Expr | None:
    """``start`` plus an interval; None if it has too many months or days, or its microseconds have.

    :param interval: a JVM's ``CalendarInterval``; None for NULL.
    :param params: those of the addition.
    """
    if interval is None:
        return _later("TimestampAddInterval", start, DAY_TIME_INTERVAL, None, params)
    months, days, micros = _fields(interval)
    if abs(months) > _MONTHS_MAX or abs(days) > _DAYS_MAX:
        return None
    if abs(micros) >= _STEPS_MAX * (MICROS_PER_DAY - 1):
        return None
    if months:
        value = months_value(months)
        start = _later("TimestampAddYMInterval", start, YEAR_MONTH_INTERVAL, value, params)
    parts = [days * MICROS_PER_DAY] if days else []
    sign = -1 if micros < 0 else 1
    while micros:
        parts.append(sign * min(abs(micros), MICROS_PER_DAY - 1))
        micros -= parts[-1]
    for part in parts:
        start = _later("TimestampAddInterval", start, DAY_TIME_INTERVAL, part, params)
    return start


def _goes_one_way(interval: Any) -> bool:
    """Whether no part leads back: else what lies between may be no timestamp though the end is."""
    return len({part > 0 for part in _fields(interval) if part}) < 2


def _fields(interval: Any) -> tuple[int, int, int]:
    whole = interval.extractAsPeriod()
    micros = interval.extractAsDuration()
    return (
        int(whole.toTotalMonths()),
        int(whole.getDays()),
        int(micros.getSeconds()) * 1_000_000 + int(micros.getNano()) // 1000,
    )


def _later(op: str, start: Expr, dtype: pa.DataType, value: Any, params: Mapping[str, Any]) -> Expr:
    interval = Expr("Literal", (), dtype, value is None, {"value": value})
    return Expr(op, (start, interval), start.dtype, start.nullable or value is None, params)
