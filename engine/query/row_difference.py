"""Rows that only one of two tables has. Their order does not count, how often they occur does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from engine.base.shown_values import shown_values


@dataclass(frozen=True)
class RowDifference:
    """See the module. Compared are the columns that both have, of the same name and type.

    :param columns_before: those that only the first table has, and ``columns_after`` the second.
    :param only_before: the rows that only the first has, with all its columns.
    :param only_after: likewise.
    """

    columns_before: tuple[str, ...]
    columns_after: tuple[str, ...]
    only_before: pa.Table
    only_after: pa.Table

    @property
    def is_empty(self) -> bool:
        """Whether the two are equal."""
        rows = self.only_before.num_rows + self.only_after.num_rows
        return not rows and not self.columns_before and not self.columns_after


def difference(before: pa.Table, after: pa.Table) -> RowDifference:
    """Compare two tables."""
    types = {field.name: field.type for field in before.schema}
    both = [field.name for field in after.schema if types.get(field.name) == field.type]
    keys_before, keys_after = [*_keys(before, both)], [*_keys(after, both)]
    return RowDifference(
        tuple(name for name in before.column_names if name not in both),
        tuple(name for name in after.column_names if name not in both),
        before.take(_missing(keys_before, Counter(keys_after))),
        after.take(_missing(keys_after, Counter(keys_before))),
    )


def _missing(keys: list[str], others: Counter[str]) -> pa.Array:
    """The positions of what the others have not, or not so often."""
    found = []
    for position, key in enumerate(keys):
        if others[key] > 0:
            others[key] -= 1
        else:
            found.append(position)
    return pa.array(found, pa.int64())


def _keys(table: pa.Table, names: list[str]) -> Iterator[str]:
    columns = [map(repr, shown_values(table.column(name))) for name in names]
    return map(str, zip(*columns, strict=True)) if columns else iter([""] * table.num_rows)
