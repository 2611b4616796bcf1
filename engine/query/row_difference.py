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
    """Compare two tables. Of columns with one name the first is compared with the first."""
    places_before, places_after = _places(before.schema), _places(after.schema)
    both = [
        column
        for column, place in places_after.items()
        if column in places_before
        and before.schema.types[places_before[column]] == after.schema.types[place]
    ]
    keys_before = [*_keys(before, [places_before[column] for column in both])]
    keys_after = [*_keys(after, [places_after[column] for column in both])]
    return RowDifference(
        tuple(column[0] for column in places_before if column not in both),
        tuple(column[0] for column in places_after if column not in both),
        before.take(_missing(keys_before, Counter(keys_after))),
        after.take(_missing(keys_after, Counter(keys_before))),
    )


def _places(schema: pa.Schema) -> dict[tuple[str, int], int]:
    """Where each column is, by its name and how many of that name are before it."""
    seen: Counter[str] = Counter()
    found = {}
    for place, name in enumerate(schema.names):
        found[name, seen[name]] = place
        seen[name] += 1
    return found


def _missing(keys: list[str], others: Counter[str]) -> pa.Array:
    """The positions of what the others have not, or not so often."""
    found = []
    for position, key in enumerate(keys):
        if others[key] > 0:
            others[key] -= 1
        else:
            found.append(position)
    return pa.array(found, pa.int64())


def _keys(table: pa.Table, places: list[int]) -> Iterator[str]:
    columns = [map(repr, shown_values(table.column(place))) for place in places]
    return map(str, zip(*columns, strict=True)) if columns else iter([""] * table.num_rows)
