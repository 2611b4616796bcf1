"""``tuple_union_*``, ``tuple_intersection_*``, ``tuple_difference_*``, also of a tuple sketch and a
theta sketch: with summaries of DOUBLE and INT.

Source: ``tuplesketchesExpressions.scala`` of Spark; ``Union.java``, ``Intersection.java``,
``HashTables.java``, ``AnotB.java`` of datasketches-java (``tuple``),
``SetOperationCornerCases.java``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from engine.expressions.registry import always
from engine.expressions.rowwise import RowFunction, rowwise_factory
from engine.expressions.sketches.memory import (
    Longs,
    SketchError,
    bad_argument,
    bad_state,
    index_out_of_bounds,
    negative_size,
    null_pointer,
)
from engine.expressions.sketches.theta import check_lg_entries, checked, no_hash, theta_argument
from engine.expressions.sketches.theta_sketches import MOST
from engine.expressions.sketches.tuple_arguments import kind_of, mode_of, ops, tuple_argument
from engine.expressions.sketches.tuple_bytes import write_tuple
from engine.expressions.sketches.tuple_sketches import TupleSketch
from engine.expressions.sketches.tuple_summaries import NOTHING, Entries, Kind, no_summary
from engine.expressions.sketches.tuple_tables import StoredTable, Table
from engine.expressions.tree import Expr

_EMPTY, _EXACT, _ESTIMATION, _NOTHING = 5, 6, 2, 0
_STATES: Final = (_EMPTY, _EXACT, _ESTIMATION, _NOTHING)
"""What a sketch may be: empty, with all hashes, with some, with none but a theta."""


@rowwise_factory(*ops("Union"), can_fail=always)
def tuple_union(expr: Expr) -> RowFunction:
    """``tuple_union_*``: hashes that are in any of the two."""
    kind = kind_of(expr)

    def unite(left: bytes, right: bytes, lg_entries: int, mode: str) -> bytes:
        check_lg_entries(lg_entries)
        mode = mode_of(mode)
        sketches = tuple_argument(left, kind), tuple_argument(right, kind)
        parts = [(each.theta, each.valid()) for each in sketches if not each.empty]
        return _union(parts, lg_entries, mode, kind)

    return unite


@rowwise_factory(*ops("UnionTheta"), can_fail=always)
def tuple_union_theta(expr: Expr) -> RowFunction:
    """``tuple_union_theta_*``: hashes of a theta sketch get a summary of nothing."""
    kind = kind_of(expr)

    def unite(left: bytes, right: bytes, lg_entries: int, mode: str) -> bytes:
        check_lg_entries(lg_entries)
        mode = mode_of(mode)
        first, second = tuple_argument(left, kind), theta_argument(right)
        parts = [] if first.empty else [(first.theta, first.valid())]
        if not second.empty:
            theta, summary = second.theta, kind.made(mode)
            parts.append((theta, [(value, summary) for value in second.in_order()]))
        return _union(parts, lg_entries, mode, kind)

    return unite


def _union(parts: list[tuple[int, Entries]], lg_entries: int, mode: str, kind: Kind) -> bytes:
    table, theta = Table(lg_entries), MOST
    for bound, entries in parts:
        theta = min(theta, bound)
        for value, summary in entries:
            table.merge(value, summary, lambda *both: kind.made(mode, *both))
        theta = min(theta, table.theta)
    entries = [entry for entry in table.entries() if entry[0] < theta]
    if len(entries) > table.nominal:
        theta = sorted(value for value, _ in entries)[table.nominal]
        entries = [entry for entry in entries if entry[0] < theta]
    return write_tuple(theta, entries, kind, empty=theta == MOST and table.empty)


@rowwise_factory(*ops("Intersection"), can_fail=always)
def tuple_intersection(expr: Expr) -> RowFunction:
    """``tuple_intersection_*``: hashes that are in both."""
    kind = kind_of(expr)

    def intersect(left: bytes, right: bytes, mode: str) -> bytes:
        mode = mode_of(mode)
        first, second = tuple_argument(left, kind), tuple_argument(right, kind)
        if first.empty or second.empty:
            return write_tuple(MOST, [], kind, empty=True)
        theta = min(first.theta, second.theta)
        if first.entries and second.entries and not first.valid():
            raise null_pointer('Cannot invoke "Object.getClass()" because "summaryArr" is null')
        others = second.valid()
        return _intersection(first, theta, theta, others, len(second.entries), mode, kind)

    return intersect


@rowwise_factory(*ops("IntersectionTheta"), can_fail=always)
def tuple_intersection_theta(expr: Expr) -> RowFunction:
    """``tuple_intersection_theta_*``: summaries are as if the theta sketch had some of nothing."""
    kind = kind_of(expr)

    def intersect(left: bytes, right: bytes, mode: str) -> bytes:
        mode = mode_of(mode)
        first, second = tuple_argument(left, kind), theta_argument(right)
        if second.empty or first.empty:
            return write_tuple(MOST, [], kind, empty=True)
        bound, summary = second.theta, kind.made(mode)
        values = second.in_order() if first.entries and second.count else ()
        entries = [(value, summary) for value in values]
        theta = min(first.theta, bound)
        return _intersection(first, theta, bound, entries, second.count, mode, kind)

    return intersect


def _intersection(
    first: TupleSketch,
    theta: int,
    below: int,
    others: Entries,
    count: int,
    mode: str,
    kind: Kind,
) -> bytes:
    """:param below: hashes of the second sketch count that are below it.
    :param count: how many the second sketch says it has.
    """
    most = min(len(first.entries), count)
    if first.entries and most < 0:
        raise negative_size(most)
    table = _table_of(first.valid(), len(first.entries))
    found: Entries = []
    for value, summary in others:
        if value < below:
            if value == 0:
                raise no_hash()
            if (mine := table.get(value)) is not None:
                found.append((value, kind.made(mode, mine, summary)))
    if found and len(found) > most:
        raise index_out_of_bounds(most)
    entries = [entry for entry in _table_of(found, len(found)).entries() if entry[0] <= theta]
    entries += [NOTHING] * (len(found) - len(entries))
    return write_tuple(theta, entries, kind, empty=False)


def _table_of(entries: Entries, count: int) -> StoredTable:
    """:param count: a quarter of its places is free at least if there are so many."""
    lg_size = max((math.ceil(count / 0.75) - 1).bit_length(), 4)
    table = StoredTable(lg_size, lg_size)
    for value, summary in entries:
        table.put(value, summary)
    return table


@rowwise_factory(*ops("Difference"), can_fail=always)
def tuple_difference(expr: Expr) -> RowFunction:
    """``tuple_difference_*``: hashes of the first that are not in the second."""
    kind = kind_of(expr)

    def subtract(left: bytes, right: bytes) -> bytes:
        first, second = tuple_argument(left, kind), tuple_argument(right, kind)
        table, count = second.table, len(second.entries)

        def holds(theta: int) -> Callable[[int], bool]:
            return table.__contains__ if table else _among(second.hashes, theta)

        return _difference(first, second.bound, count, second.empty, holds, kind)

    return subtract


@rowwise_factory(*ops("DifferenceTheta"), can_fail=always)
def tuple_difference_theta(expr: Expr) -> RowFunction:
    """``tuple_difference_theta_*``: hashes of the first that are not in the theta sketch."""
    kind = kind_of(expr)

    def subtract(left: bytes, right: bytes) -> bytes:
        first, second = tuple_argument(left, kind), theta_argument(right)
        theta, count = second.theta, second.count

        def holds(theta: int) -> Callable[[int], bool]:
            try:
                hashes = second.hashes
            except SketchError as error:
                raise bad_state(
                    "Reflection Exception java.lang.reflect.InvocationTargetException"
                ) from error
            return _among(hashes, theta)

        return _difference(first, theta, count, second.empty, holds, kind)

    return subtract


def _difference(
    first: TupleSketch,
    bound: int,
    count: int,
    empty: bool,
    holds: Callable[[int], Callable[[int], bool]],
    kind: Kind,
) -> bytes:
    """What becomes of the first sketch depends on what each of the two is.

    :param bound: theta of the second, which has ``count`` hashes.
    :param holds: by a theta, what says whether the second has a hash.
    """
    theta = first.bound
    mine = _state(theta, len(first.entries), first.empty)
    others = _state(bound, count, empty)
    if mine not in _STATES or others not in _STATES:
        raise bad_argument(f"Possible Corruption: Illegal CornerCase ID: {mine << 3 | others:o}")
    if mine == _EMPTY:
        return write_tuple(MOST, [], kind, empty=True)
    entries = first.entries
    if mine == _NOTHING:  # its own theta is forgotten where one would expect the lesser of both
        theta = bound if others in (_ESTIMATION, _NOTHING) else theta
    elif others == _NOTHING:
        if NOTHING in entries:
            raise no_summary("copy", "summaryArr[i]")
        theta = min(theta, bound)
        entries = [entry for entry in entries if entry[0] < theta]
    elif others != _EMPTY:
        theta = min(theta, bound)
        has = holds(theta)
        entries = [(h, each) for h, each in entries if h < theta and h and not has(h)]
    return write_tuple(theta, entries, kind, empty=not entries and theta == MOST)


def _state(theta: int, count: int, empty: bool) -> int:
    return (4 if theta == MOST or empty else 0) | (2 if count > 0 else 0) | (1 if empty else 0)


def _among(hashes: Longs, theta: int) -> Callable[[int], bool]:
    return set(checked(hashes, theta).tolist()).__contains__
