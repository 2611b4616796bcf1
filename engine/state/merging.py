"""One table out of a whole one and of what has changed since: the last row of a key wins, in each
key group.

Keys are equal as Spark groups them: null equals null, NaN equals NaN, -0.0 equals 0.0. Most rows
have not changed: they are passed over column by column, and only those that remain are compared as
a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.exchange.hashing import hash_rows
from engine.state.contract import GONE, GROUP

IN_FRONT: Final = 2
"""So many columns stand in front of those of a table's schema."""


def newest_rows(whole: pa.Table, changes: Sequence[pa.Table], keys: int) -> pa.Table:
    """The rows that are there, in no order.

    :param whole: each key once, none of them gone; it may be empty.
    :param changes: the oldest first.
    :param keys: how many columns the key has, behind the two in front; 0: there is one row.
    """
    changed, columns = _newest([whole.slice(0, 0), *changes], keys)
    if not changed.num_rows:
        return whole
    if keys == 0:
        return _there(changed)
    replaced = _rows_among(comparable(whole, keys), columns)
    if len(replaced):
        stay = np.ones(whole.num_rows, bool)
        stay[replaced] = False
        whole = whole.filter(pa.array(stay))
    return pa.concat_tables([whole, _there(changed)])


def newest_changes(changes: Sequence[pa.Table], keys: int) -> pa.Table:
    """What remains of changes, in no order: of each key one row, which may say that it is gone.

    :param changes: one at least; for both see :func:`newest_rows`.
    """
    return _newest(changes, keys)[0]


def _newest(changes: Sequence[pa.Table], keys: int) -> tuple[pa.Table, list[pa.Array]]:
    """The last row of each key, and its key as columns that Arrow can compare."""
    changed = pa.concat_tables(changes).combine_chunks()
    if not changed.num_rows or keys == 0:
        return changed.slice(max(changed.num_rows - 1, 0)), []
    columns = comparable(changed, keys)
    last = _last_of_each(columns)
    return changed.take(last), [column.take(last) for column in columns]


def _there(rows: pa.Table) -> pa.Table:
    gone = rows.column(GONE.name)
    return rows.filter(pc.invert(gone)) if pc.any(gone).as_py() else rows


def _last_of_each(columns: Sequence[pa.Array]) -> pa.Array:
    """The positions of the rows behind which no other has their key, ascending."""
    _, last = _first_and_last(columns)
    return pa.array(np.sort(last))


def _rows_among(columns: Sequence[pa.Array], others: Sequence[pa.Array]) -> np.ndarray:
    """The positions of the rows whose key is among the others; on either side it is there once."""
    found = np.arange(len(columns[0]))
    for column, other in zip(columns, others, strict=True):
        chosen = column if len(found) == len(column) else column.take(pa.array(found))
        among = pc.is_in(chosen, value_set=other.unique())
        found = found[among.to_numpy(zero_copy_only=False)]
        if not len(found):
            return np.asarray(found)
    places = pa.array(found)
    both = [
        pa.concat_arrays([column.take(places), other])
        for column, other in zip(columns, others, strict=True)
    ]
    first, last = _first_and_last(both)
    return np.asarray(found[first[(first < len(found)) & (last >= len(found))]])


def _first_and_last(columns: Sequence[pa.Array]) -> tuple[np.ndarray, np.ndarray]:
    """For each key, the positions of its first row and of its last one."""
    names = [str(index) for index in range(len(columns))]
    table = pa.table([*columns, pa.array(np.arange(len(columns[0])))], [*names, "row"])
    found = table.group_by(names).aggregate([("row", "min"), ("row", "max")])
    return found.column("row_min").to_numpy(), found.column("row_max").to_numpy()


def comparable(table: pa.Table, keys: int) -> list[pa.Array]:
    """The key as columns that Arrow can compare, and its key group behind them: what a stage has
    numbered itself is not bound to a group, and its numbers may be there in several."""
    leaves = [
        leaf
        for index in range(IN_FRONT, IN_FRONT + keys)
        for leaf in _leaves(_one_chunk(table.column(index)))
    ]
    return [*leaves, _one_chunk(table.column(GROUP.name))]


def _leaves(column: pa.Array) -> list[pa.Array]:
    dtype = column.type
    if pa.types.is_null(dtype):
        return [column.is_valid()]
    if pa.types.is_struct(dtype):
        return [column.is_valid(), *(leaf for child in column.flatten() for leaf in _leaves(child))]
    if pa.types.is_floating(dtype):
        nan = pa.scalar(float("nan"), dtype)
        return [pc.if_else(pc.is_nan(column), nan, pc.add(column, pa.scalar(0.0, dtype)))]
    if pa.types.is_nested(dtype) or pa.types.is_interval(dtype):
        return [pa.array(lane) for lane in hash_rows([column], len(column))]
    return [column]


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
