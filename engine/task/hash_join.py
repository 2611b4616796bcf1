"""Joins a stream with a table that is held in memory: a hash join on whole columns.

The table's keys become numbers once; equal keys have equal numbers. A key of the stream is looked
up among them, and finds the table's rows with that number side by side. As in Spark, NaN equals
NaN and -0.0 equals 0.0, but for a join that goes by bits; null equals null under ``<=>`` only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.expressions.ansi import failure
from engine.expressions.row_context import Rows
from engine.pipeline.pipeline import StaticJoin
from engine.task.pairs import pairs, slices

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

    def chosen(
        rows: Rows, found: np.ndarray, condition: Callable[[Rows], pa.Array]
    ) -> tuple[np.ndarray, np.ndarray]:
        parts = []
        for start, end in slices(index.counts(found)):
            left, right = index.pairs(found, start, end)
            pairs = _paired(rows, left, table, right, step.width)
            mask = pc.fill_null(condition(pairs), False).to_numpy(zero_copy_only=False)
            parts.append((left[mask], right[mask]))
        lefts, rights = zip(*parts, strict=True)
        return np.concatenate(lefts), np.concatenate(rights)

    def run(rows: Rows) -> Rows:
        found = index.find(keys(rows), rows.num_rows)
        if residual is None:
            left, right = index.pairs(found, 0, rows.num_rows)
        else:
            left, right = chosen(rows, found, residual)
        if step.kind == "inner":
            return _paired(rows, left, table, right, step.width)
        matched = np.zeros(rows.num_rows, bool)
        matched[left] = True
        if step.kind == "existence":
            return rows.extended(step.width, [pa.array(matched)])
        if step.kind in ("semi", "anti"):
            return rows.filter(pa.array(matched if step.kind == "semi" else ~matched))
        if step.kind == "single" and len(left) > np.count_nonzero(matched):
            raise failure(
                "SCALAR_SUBQUERY_TOO_MANY_ROWS",
                "More than one row returned by a subquery used as an expression.",
            )
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
        self._dictionaries: list[_Dictionary] = []
        self._numbers: list[np.ndarray] = []
        size = step.table.num_rows
        numbers = np.zeros(size, np.int64)
        for key, null_safe in zip(step.table_keys, step.null_safe, strict=True):
            dictionary = _Dictionary(key, null_safe, step.by_bits)
            self._dictionaries.append(dictionary)
            numbers = _combined(numbers, dictionary.places(key), len(dictionary))
            known = np.unique(numbers[numbers != _NOWHERE])
            self._numbers.append(known)
            numbers = _ranked(numbers, known)
        self._order = np.argsort(numbers, kind="stable")
        kinds = max(len(self._numbers[-1]), 1) if self._numbers else 1
        self._starts = np.searchsorted(numbers[self._order], np.arange(kinds))
        self._counts = np.bincount(numbers[numbers != _NOWHERE], minlength=kinds)

    def find(self, keys: Sequence[pa.Array], rows: int) -> np.ndarray:
        """For each row the number of its keys; :meth:`pairs` takes it."""
        numbers = np.zeros(rows, np.int64)
        for key, dictionary, known in zip(keys, self._dictionaries, self._numbers, strict=True):
            numbers = _combined(numbers, dictionary.places(key), len(dictionary))
            numbers = _ranked(numbers, known)
        return numbers

    def counts(self, numbers: np.ndarray) -> np.ndarray:
        """For each row the number of the table's rows with equal keys."""
        known = numbers != _NOWHERE
        counts = np.zeros(len(numbers), np.int64)
        counts[known] = self._counts[numbers[known]]
        return counts

    def pairs(self, numbers: np.ndarray, start: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        """The pairs of a row and a row of the table with equal keys, in the rows' order, for the
        rows from ``start`` to ``end`` (exclusive)."""
        numbers = numbers[start:end]
        left, places = pairs(self._starts[numbers], self.counts(numbers))
        return left + start, self._order[places]


class _Dictionary:
    """The values of one of the table's keys, made for look-ups once."""

    def __init__(self, key: pa.Array, null_safe: bool, by_bits: bool) -> None:
        self._normal = _as_it_is if by_bits else _normal
        values = self._normal(key).unique().drop_null()
        self._bits = np.sort(_bits(values)) if _has_bits(key.type) else None
        self._places = {} if _has_bits(key.type) else dict(
            zip(values.to_pylist(), range(len(values)), strict=True)
        )  # fmt: skip
        self._null = len(values) if null_safe else _NOWHERE
        self._size = len(values) + 1

    def __len__(self) -> int:
        return self._size

    def places(self, key: pa.Array) -> np.ndarray:
        """For each value its place among the table's."""
        key = self._normal(key)
        if self._bits is not None:
            places = _ranked(_bits(key), self._bits)
        else:
            encoded = key.dictionary_encode()
            known = [self._places.get(value, _NOWHERE) for value in encoded.dictionary.to_pylist()]
            indices = pc.fill_null(encoded.indices, 0).to_numpy()
            places = np.array([*known, _NOWHERE], np.int64)[indices]
        if key.null_count:
            places[key.is_null().to_numpy(zero_copy_only=False)] = self._null
        return places


def _has_bits(dtype: pa.DataType) -> bool:
    """Whether values are equal when their bits are, as integers of 8 to 64 bits."""
    return pa.types.is_primitive(dtype) and dtype.bit_width in (8, 16, 32, 64)


def _bits(key: pa.Array) -> np.ndarray:
    """Values as integers; what stands for null is arbitrary."""
    integers: np.ndarray = pc.fill_null(key.view(f"int{key.type.bit_width}"), 0).to_numpy()
    return integers


def _combined(numbers: np.ndarray, places: np.ndarray, size: int) -> np.ndarray:
    known = (numbers != _NOWHERE) & (places != _NOWHERE)
    return np.where(known, numbers * size + places, _NOWHERE)


def _ranked(numbers: np.ndarray, known: np.ndarray) -> np.ndarray:
    """The position of each number among the known ones, so that numbers stay small."""
    if not len(known):
        return np.full(len(numbers), _NOWHERE)
    ranks = np.minimum(np.searchsorted(known, numbers), len(known) - 1)
    return np.where(known[ranks] == numbers, ranks, _NOWHERE)


def _as_it_is(key: pa.Array) -> pa.Array:
    return key


def _normal(key: pa.Array) -> pa.Array:
    """One form for keys that Spark takes for equal."""
    if not pa.types.is_floating(key.type):
        return key
    nan = pa.scalar(float("nan"), key.type)
    return pc.if_else(pc.is_nan(key), nan, pc.add(key, pa.scalar(0.0, key.type)))
