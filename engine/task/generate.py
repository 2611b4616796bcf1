"""More rows than came in: generators and expansions, on whole columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from engine.expressions.row_context import Rows
from engine.pipeline.pipeline import Generate

Columns = Callable[[Rows], list[pa.Array]]


def generate(step: Generate, arguments: Columns) -> Callable[[Rows], Rows]:
    """The step, compiled.

    :param arguments: computes the generator's arguments.
    """
    if step.generator == "Stack":
        return _stack(step, arguments)
    make = {"Explode": _elements, "PosExplode": _numbered, "Inline": _fields}[step.generator]

    def explode(rows: Rows) -> Rows:
        (lists,) = arguments(rows)
        parents, positions, elements = _places(lists, outer=step.outer)
        columns = make(lists, positions, elements)
        columns = [_due(c, field.type) for c, field in zip(columns, step.schema, strict=True)]
        return rows.taken(pa.array(parents)).extended(step.width, columns)

    return explode


def expand(projections: Sequence[Columns]) -> Callable[[Rows], Rows]:
    """Each row once per projection."""

    def compute(rows: Rows) -> Rows:
        by_projection = [projection(rows) for projection in projections]
        columns = [_alternating(arrays) for arrays in zip(*by_projection, strict=True)]
        return Rows(rows.num_rows * len(projections), columns.__getitem__)

    return compute


def _places(lists: pa.Array, *, outer: bool) -> tuple[np.ndarray, np.ndarray, pa.Array]:
    """For each new row: its input row, its position among the row's elements, and its place in the
    list's child array (null where an outer row has no element)."""
    offsets = lists.offsets.to_numpy()
    lengths = np.diff(offsets)
    if lists.null_count:
        lengths = np.where(lists.is_valid().to_numpy(zero_copy_only=False), lengths, 0)
    counts = np.maximum(lengths, 1) if outer else lengths
    parents = np.repeat(np.arange(len(lists)), counts)
    firsts = np.cumsum(counts) - counts
    positions = np.arange(len(parents)) - firsts[parents]
    missing = lengths[parents] == 0
    elements = pa.array(offsets[:-1][parents] + positions, mask=missing)
    return parents, positions, elements


def _elements(lists: pa.Array, positions: np.ndarray, elements: pa.Array) -> list[pa.Array]:
    if pa.types.is_map(lists.type):
        return [lists.keys.take(elements), lists.items.take(elements)]
    return [lists.values.take(elements)]


def _numbered(lists: pa.Array, positions: np.ndarray, elements: pa.Array) -> list[pa.Array]:
    missing = elements.is_null().to_numpy(zero_copy_only=False)
    numbers = pa.array(positions.astype(np.int32), mask=missing)
    return [numbers, *_elements(lists, positions, elements)]


def _fields(lists: pa.Array, positions: np.ndarray, elements: pa.Array) -> list[pa.Array]:
    columns: list[pa.Array] = lists.values.take(elements).flatten()
    return columns


def _stack(step: Generate, arguments: Columns) -> Callable[[Rows], Rows]:
    fields = list(step.schema)

    def stack(rows: Rows) -> Rows:
        values = arguments(rows)
        columns = [
            _alternating(
                [
                    _due(values[place], field.type)
                    if (place := row * len(fields) + index) < len(values)
                    else pa.nulls(rows.num_rows, field.type)
                    for row in range(step.rows)
                ]
            )
            for index, field in enumerate(fields)
        ]
        parents = pa.array(np.repeat(np.arange(rows.num_rows), step.rows))
        return rows.taken(parents).extended(step.width, columns)

    return stack


def _alternating(arrays: Sequence[pa.Array]) -> pa.Array:
    """The first values of all arrays, then their second values, and so on."""
    size = len(arrays[0])
    order = np.arange(size * len(arrays)).reshape(len(arrays), size).T.ravel()
    return pa.concat_arrays(arrays).take(pa.array(order))


def _due(array: pa.Array, dtype: pa.DataType) -> pa.Array:
    return pa.nulls(len(array), dtype) if pa.types.is_null(array.type) else array
