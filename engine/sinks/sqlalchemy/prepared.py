"""The rows of an epoch as they are written: found out before the transaction, which a database ends
if its driver is silent in it for long (:data:`engine.sinks.sqlalchemy.database.SLEEPS_MS`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.expressions.types import TIMESTAMP
from engine.sinks.databases.rows import Rows


@dataclass(frozen=True)
class Prepared:
    """
    :param gone: keys, of which the rows are deleted.
    :param kept: rows that are appended, or replace those of their keys: once each.
    """

    gone: tuple[pa.Table, ...]
    kept: tuple[pa.Table, ...]


def prepare(tables: Sequence[pa.Table], rows: Rows, *, has_zones: bool) -> Prepared:
    """
    :param tables: of each task that has any rows.
    :param has_zones: the database has times with a zone.
    """
    gone: tuple[pa.Table, ...] = ()
    kept = tuple(tables)
    if rows.key:
        last = last_of_each_key(pa.concat_tables(tables), rows.key)
        if rows.deletes is not None:
            is_gone = pc.fill_null(last.column(rows.deletes), False)
            gone = (last.filter(is_gone).select(rows.key),)
            last = last.filter(pc.invert(is_gone))
        kept = (last,)
    if not has_zones:
        gone, kept = tuple(map(_in_utc, gone)), tuple(map(_in_utc, kept))
    return Prepared(gone, kept)


def last_of_each_key(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """The last row of each key, in the order of the rows."""
    # Not by Python's objects, which take seconds for a million keys; nor by several threads, each
    # with a hash table of its own: to merge them is more work, as most keys are there once.
    names = [str(place) for place in range(len(key))]
    columns = [rows.column(name) for name in key]
    numbered = pa.table([*columns, pa.array(np.arange(rows.num_rows))], [*names, "row"])
    found = numbered.group_by(names, use_threads=False).aggregate([("row", "max")])
    is_last = np.zeros(rows.num_rows, np.bool_)
    is_last[found.column("row_max").to_numpy()] = True
    return rows.filter(pa.array(is_last))


def _in_utc(table: pa.Table) -> pa.Table:
    for place, each in enumerate(table.schema):
        if each.type == TIMESTAMP:
            naive = table.column(place).cast(pa.timestamp("us"))
            table = table.set_column(place, each.name, naive)
    return table
