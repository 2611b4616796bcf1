"""The state that a query begins with (``initialState``).

Every task gets all of its rows, and applies those whose keys it owns before the first row of the
first epoch. A table of its own says of which key groups that was done, for people: who begins with
a state of before does not do it, whether that has the table or not.

Source: Spark's ``TransformWithStateExec.processDataWithInitialState``: in batch 0 alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from engine.exchange.key_groups import KeyGroups
from engine.functions.custom_state.spec import InitialState
from engine.state.contract import GONE, GROUP, StateTable

TABLE: Final = StateTable("$initialState", pa.schema([pa.field("key_group", pa.int32())]), 1)


class Applied:
    """The table.

    :param owned: the task's key groups.
    :ivar is_done: the task's state begins with it already.
    """

    table = TABLE

    def __init__(self, owned: range) -> None:
        self._owned = owned
        self._is_new = False
        self.is_done = False

    def __len__(self) -> int:
        return 0  # a note of the engine's own

    def now(self) -> None:
        """It is done in this epoch."""
        self.is_done = self._is_new = True

    def restore(self, table: pa.Table) -> None:
        """There is nothing that is not known."""

    def changes(self, *, whole: bool) -> Iterator[pa.Table]:
        """A row for each group."""
        if not self.is_done or not (whole or self._is_new):
            return
        self._is_new = False
        groups = pa.array(self._owned, pa.int32())
        gone = pa.array([False] * len(groups), GONE.type)
        yield pa.Table.from_arrays([groups.cast(GROUP.type), gone, groups], schema=TABLE.stored)


def owned_rows(initial: InitialState, groups: KeyGroups) -> pa.RecordBatch:
    """Those whose keys the task owns."""
    (rows,) = initial.rows.combine_chunks().to_batches() or [_empty(initial.rows.schema)]
    found = groups.of([rows.column(index) for index in initial.keys], rows.num_rows)
    is_owned = (found >= groups.owned.start) & (found < groups.owned.stop)
    return rows.take(pa.array(np.flatnonzero(is_owned)))


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=schema)
