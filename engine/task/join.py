"""Joins a stream with a table that is held in memory: a hash join on whole columns.

The table's keys become numbers once; equal keys have equal numbers. A key of the stream is looked
up among them, and finds the table's rows with that number side by side. As in Spark, NaN equals
NaN and -0.0 equals 0.0; null equals null under ``<=>`` only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.plan.pipeline import StaticJoin
from engine.task.rows import Rows

_NOWHERE = -1


def join(
    step: StaticJoin,
    keys: Callable[[Rows], list[pa.Array]],
    residual: Callable[[Rows], pa.Array] | None,
) -> Callable[[Rows], Rows]:
    """The step, compiled.

    :param keys: computes the stream's keys.
    :param residual: computes the other condition, over the columns of both sides.
    """
    index = _Index(step)
    table = step.table

    def run(rows: Rows) -> Rows:
        left, right = index.matches(keys(rows), rows.num_rows)
        if residual is not None:
            pairs = _paired(rows, left, table, right, step.width)
            chosen = pc.fill_null(residual(pairs), False).to_numpy(zero_copy_only=False)
            left, right = left[chosen], right[chosen]
        if step.kind == "inner":
            return _paired(rows, left, table, right, step.width)
        matched = np.zeros(rows.num_rows, bool)
        matched[left] = True
        if step.kind in ("semi", "anti"):
            return rows.filter(pa.array(matched if step.kind == "semi" else ~matched))
        alone = np.flatnonzero(~matched)
        left = np.concatenate([left, alone])
        right = np.concatenate([right, np.full(len(alone), _NOWHERE)])
        order = np.argsort(left, kind="stable")
        return _paired(rows, left[order], table, right[order], step.width)

    return run


def _paired(
    rows: Rows, left: np.ndarray, table: pa.RecordBatch, right: np.ndarray, width: int
) -> Rows:
    places = pa.array(right, mask=right == _NOWHERE)
    taken = rows.taken(pa.array(left))
    return Rows(
        len(left),
        lambda index: (
            taken.column(index) if index < width else table.column(index - width).take(places)
        ),
    )


class _Index:
    """From the keys of a row to the rows of the table."""

    def __init__(self, step: StaticJoin) -> None:
        self._null_safe = step.null_safe
        self._dictionaries: list[pa.Array] = []
        self._numbers: list[np.ndarray] = []
        size = step.table.num_rows
        numbers = np.zeros(size, np.int64)
        for key, null_safe in zip(step.table_keys, step.null_safe, strict=True):
            key = _normal(key)
            dictionary = key.unique() if null_safe else key.unique().drop_null()
            self._dictionaries.append(dictionary)
            numbers = _combined(numbers, _places(key, dictionary, null_safe), len(dictionary))
            known = np.unique(numbers[numbers != _NOWHERE])
            self._numbers.append(known)
            numbers = _ranked(numbers, known)
        self._order = np.argsort(numbers, kind="stable")
        kinds = len(self._numbers[-1]) if self._numbers else 1
        self._starts = np.searchsorted(numbers[self._order], np.arange(kinds))
        self._counts = np.bincount(numbers[numbers != _NOWHERE], minlength=kinds)

    def matches(self, keys: Sequence[pa.Array], rows: int) -> tuple[np.ndarray, np.ndarray]:
        """The pairs of a row and a row of the table with equal keys, in the rows' order."""
        numbers = np.zeros(rows, np.int64)
        for key, dictionary, null_safe, known in zip(
            keys, self._dictionaries, self._null_safe, self._numbers, strict=True
        ):
            places = _places(_normal(key), dictionary, null_safe)
            numbers = _ranked(_combined(numbers, places, len(dictionary)), known)
        found = numbers != _NOWHERE
        counts = np.zeros(rows, np.int64)
        counts[found] = self._counts[numbers[found]]
        left = np.repeat(np.arange(rows), counts)
        firsts = np.cumsum(counts) - counts
        positions = np.arange(len(left)) - firsts[left]
        return left, self._order[self._starts[numbers[left]] + positions]


def _places(key: pa.Array, dictionary: pa.Array, null_safe: bool) -> np.ndarray:
    """For each value its place in the dictionary."""
    found = pc.index_in(key, value_set=dictionary, skip_nulls=not null_safe)
    places: np.ndarray = pc.fill_null(found, _NOWHERE).to_numpy().astype(np.int64)
    return places


def _combined(numbers: np.ndarray, places: np.ndarray, size: int) -> np.ndarray:
    known = (numbers != _NOWHERE) & (places != _NOWHERE)
    return np.where(known, numbers * size + places, _NOWHERE)


def _ranked(numbers: np.ndarray, known: np.ndarray) -> np.ndarray:
    """The position of each number among the known ones, so that numbers stay small."""
    if not len(known):
        return np.full(len(numbers), _NOWHERE)
    ranks = np.minimum(np.searchsorted(known, numbers), len(known) - 1)
    return np.where(known[ranks] == numbers, ranks, _NOWHERE)


def _normal(key: pa.Array) -> pa.Array:
    """One form for keys that Spark takes for equal."""
    if not pa.types.is_floating(key.type):
        return key
    nan = pa.scalar(float("nan"), key.type)
    return pc.if_else(pc.is_nan(key), nan, pc.add(key, pa.scalar(0.0, key.type)))
