"""How rows of state stand in a table of a snapshot.

===================  ====================================================================
columns              of
===================  ====================================================================
those of the key     all
``map_key``          a map's entry: its key, a struct
``position``         a list's item: its place, ascending without being dense
``timer_ms``         a timer: when it is due
``value``            all but timers: a struct
``expires_ms``       variables with a time to live: the first processing time without it
``timeout_ms``       the state of ``applyInPandasWithState``: when it times out
===================  ====================================================================

Columns of the key come first and keep their names; one of ours that has the same gets a ``_``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.functions.custom_state.keys import Key, Keys
from engine.functions.custom_state.values import Codec, Kept
from engine.state.contract import GONE, GROUP, StateTable

GroupsOf = Callable[[Sequence[pa.Array], int], npt.NDArray[np.uint16]]
"""From a key's columns, and how many rows they have, to the key groups."""
_IN_FRONT: Final = 2


class StateRow(NamedTuple):
    """One row.

    :param sub: which of the key's rows it is: an entry's key, a position or a time; None: it has
        one.
    :param value: None also for a row that is gone.
    :param moment_ms: of the last column.
    """

    key: Key
    sub: Any = None
    value: Kept | None = None
    moment_ms: int | None = None
    gone: bool = False


@dataclass(frozen=True)
class Layout:
    """Of one table.

    :param sub: the name of the column that tells the key's rows apart; None: there is one.
    :param sub_keys: of a map's keys; None: ``sub`` is a whole number.
    :param value: None: there is no value.
    :param moment: the name of the last column; None: there is none.
    """

    name: str
    keys: Keys
    groups_of: GroupsOf
    sub: str | None = None
    sub_keys: Keys | None = None
    value: Codec | None = None
    moment: str | None = None

    def table(self) -> StateTable:
        """What a snapshot knows of it."""
        names = {field.name for field in self.keys.fields}
        fields = list(self.keys.fields)
        if self.sub is not None:
            dtype = pa.int64() if self.sub_keys is None else pa.struct(self.sub_keys.fields)
            fields.append(pa.field(_free(self.sub, names), dtype))
        width = len(fields)
        if self.value is not None:
            fields.append(pa.field(_free("value", names), self.value.dtype))
        if self.moment is not None:
            fields.append(pa.field(_free(self.moment, names), pa.int64()))
        return StateTable(self.name, pa.schema(fields), width)

    def to_arrow(self, rows: Sequence[StateRow]) -> pa.Table:
        """As :meth:`~engine.state.contract.StatefulStage.changes` returns it."""
        keys = self.keys.to_arrow([row.key for row in rows])
        groups = pa.array(self.groups_of(keys, len(rows)), GROUP.type)
        columns = [groups, pa.array([row.gone for row in rows], GONE.type), *keys]
        if self.sub is not None:
            columns.append(self._subs_to_arrow([row.sub for row in rows]))
        if self.value is not None:
            columns.append(self.value.to_arrow([row.value for row in rows]))
        if self.moment is not None:
            columns.append(pa.array([row.moment_ms for row in rows], pa.int64()))
        return pa.Table.from_arrays(columns, schema=self.table().stored)

    def from_arrow(self, table: pa.Table) -> Iterator[StateRow]:
        """The inverse of :meth:`to_arrow`, for rows that are there."""
        for batch in table.to_batches():
            columns = iter(batch.columns[_IN_FRONT:])
            keys = self.keys.of([next(columns) for _ in self.keys.fields])
            nothing: list[Any] = [None] * batch.num_rows
            yield from map(
                StateRow,
                keys,
                nothing if self.sub is None else self._subs_from_arrow(next(columns)),
                nothing if self.value is None else self.value.from_arrow(next(columns)),
                nothing if self.moment is None else next(columns).to_pylist(),
            )

    def keys_of(self, table: pa.Table) -> Iterator[Key]:
        """Of each row."""
        for batch in table.to_batches():
            yield from self.keys.of(batch.columns[_IN_FRONT : _IN_FRONT + len(self.keys.fields)])

    def _subs_to_arrow(self, subs: list[Any]) -> pa.Array:
        if self.sub_keys is None:
            return pa.array(subs, pa.int64())
        return pa.StructArray.from_arrays(self.sub_keys.to_arrow(subs), fields=self.sub_keys.fields)

    def _subs_from_arrow(self, column: pa.Array) -> list[Any]:
        return column.to_pylist() if self.sub_keys is None else self.sub_keys.of(column.flatten())


def _free(name: str, taken: set[str]) -> str:
    return _free(f"{name}_", taken) if name in taken else name
