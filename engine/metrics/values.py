"""The values of the metrics in :mod:`engine.metrics.table`: from a look at a query, and from what
its run has added up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Final

from engine.base.moments import wall_ms_of
from engine.checkpoint.query_state import QueryState
from engine.metrics.meter import STANDBY, Look
from engine.metrics.totals import QueryTotals
from engine.progress.histogram import LatencyHistogram
from engine.redaction.texts import encodable, redact

PARTITIONS_MAX: Final = 100
"""So many partitions, and tasks, of a stream have series of their own."""
STATES: Final = (
    *(str(each) for each in QueryState if each not in (QueryState.LOST, QueryState.UNKNOWN)),
    STANDBY,
)
"""What the process of a query may say of it."""

Value = float | LatencyHistogram
Labeled = tuple[tuple[str, ...], Value]
"""The values of the labels, and the value."""
Reader = Callable[[Look, QueryTotals], Iterable[Labeled]]


def one(value: Callable[[Look, QueryTotals], Value | None]) -> Reader:
    """Of a metric without labels; None: it is not known."""

    def read(look: Look, totals: QueryTotals) -> Iterator[Labeled]:
        found = value(look, totals)
        if found is not None:
            yield (), found

    return read


def shown(label: str) -> str:
    """A label's value as it may be told."""
    return encodable(redact(label))


def seconds(value_ms: float | None) -> float | None:
    return None if value_ms is None else value_ms / 1000


def info(look: Look, _: QueryTotals) -> Iterator[Labeled]:
    if look.run_id:
        yield (look.query_id, look.run_id, shown(look.sink)), 1


def streams(look: Look, _: QueryTotals) -> Iterator[Labeled]:
    for number, source in enumerate(look.sources):
        yield (str(number), shown(source)), 1


def states(look: Look, _: QueryTotals) -> Iterator[Labeled]:
    for state in STATES:
        yield (state,), int(state == look.state)


def rows_read(_: Look, totals: QueryTotals) -> Iterator[Labeled]:
    sums: Counter[int] = Counter()
    for (stream, _task), rows in totals.read.items():
        sums[stream] += rows
    for stream, rows in sums.items():
        yield (str(stream),), rows


def task_rows(_: Look, totals: QueryTotals) -> Iterator[Labeled]:
    for (stream, task), rows in totals.read.items():
        if task < PARTITIONS_MAX:
            yield (str(stream), str(task)), rows


def lags(fold: Callable[[list[int]], int]) -> Reader:
    def read(look: Look, _: QueryTotals) -> Iterator[Labeled]:
        for stream, lag in enumerate(look.lags):
            numbers = [number for _name, number in _by_partition(lag)]
            if numbers:
                yield (str(stream),), fold(numbers)

    return read


def partition_lags(look: Look, _: QueryTotals) -> Iterator[Labeled]:
    for stream, lag in enumerate(look.lags):
        sums: Counter[str] = Counter()  # names may differ by a secret
        for name, number in islice(_by_partition(lag), PARTITIONS_MAX):
            sums[shown(name)] += number
        for name, number in sums.items():
            yield (str(stream), name), number


def _by_partition(lag: Any, name: str = "") -> Iterator[tuple[str, int]]:
    """Of what has the shape of an offset: the way to each number, and the number."""
    if isinstance(lag, dict):
        for key, each in lag.items():
            yield from _by_partition(each, f"{name}/{key}" if name else str(key))
    elif lag is not None:
        yield name, lag


def of_operators(field: str) -> Reader:
    def read(_: Look, totals: QueryTotals) -> Iterator[Labeled]:
        sums: Counter[str] = Counter()
        for each in totals.last.get("stateOperators", ()):
            sums[each["operatorName"]] += each[field]
        for operator, value in sums.items():
            yield (operator,), value

    return read


def late_rows(_: Look, totals: QueryTotals) -> Iterator[Labeled]:
    for operator, rows in totals.late.items():
        yield (operator,), rows


def commit_steps(_: Look, totals: QueryTotals) -> Iterator[Labeled]:
    for step, duration_ms in totals.step_ms.items():
        yield (step,), duration_ms / 1000


def task_activities(_: Look, totals: QueryTotals) -> Iterator[Labeled]:
    for labels, spent_ms in totals.task_ms.items():
        yield labels, spent_ms / 1000


def watermark_s(_: Look, totals: QueryTotals) -> float | None:
    behind_ms = totals.last.get("watermarkLagMs")
    return None if behind_ms is None else (totals.committed_ms - behind_ms) / 1000


def event_time_s(_: Look, totals: QueryTotals) -> float | None:
    newest = totals.last.get("eventTime", {}).get("max")
    return None if newest is None else wall_ms_of(newest) / 1000


_NO_JSON: Final = ("NaN", "Infinity", "-Infinity")
"""Numbers that a report has as texts."""


def observed(_: Look, totals: QueryTotals) -> Iterator[Labeled]:
    found: dict[tuple[str, ...], Value] = {}
    for observation, row in totals.last.get("observedMetrics", {}).items():
        for name, value in row.items():
            if isinstance(value, int | float) or value in _NO_JSON:
                found[shown(observation), shown(name)] = (
                    float(value) if isinstance(value, str) else value
                )
    yield from found.items()
