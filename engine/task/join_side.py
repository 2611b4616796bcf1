"""One of the two streams of a join: what is done to its rows, and which of them wait."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.exchange.hashing import Hashes, hash_rows
from engine.exchange.partitioning import groups_of_hashes
from engine.expressions.compile import compile_expression, to_array
from engine.expressions.registry import Context
from engine.expressions.row_context import Rows
from engine.expressions.tree import Expr
from engine.pipeline.stateful import JoinSide
from engine.state.contract import GONE, GROUP, StateTable
from engine.state.event_times import EXPIRES, NEVER, Times, stored, times_of
from engine.state.joined_rows import JoinedRows, Run
from engine.task.join_conditions import compile_mask

Flags = npt.NDArray[np.bool_]
_IN_FRONT: Final = (
    pa.field("#row", pa.int64(), False),
    EXPIRES,
    pa.field("#matched", pa.bool_(), False),
)
_SKIPPED: Final = 2 + len(_IN_FRONT)


class Side:
    """See the module.

    :param name: of its table in a snapshot.
    :param condition: what has to be true for its rows to have a match, over the columns of both.
    :param first: the position of its first column among those of both.
    :param is_outer: rows without a match are returned as well.
    :param is_marked: it matters later which rows have found a match.
    """

    def __init__(
        self,
        name: str,
        spec: JoinSide,
        condition: Expr | None,
        first: int,
        context: Context,
        *,
        is_outer: bool,
        is_marked: bool,
    ) -> None:
        self.spec = spec
        self.is_outer = is_outer
        self.is_marked = is_marked
        self.waiting = JoinedRows()
        self._first = first
        self._mask = compile_mask(condition, context)
        self._evicts = None if spec.evicts is None else compile_expression(spec.evicts, context)
        expires = None if spec.evicts is None else 1
        self.table = StateTable(name, pa.schema([*_IN_FRONT, *spec.schema]), 1, expires)

    def hashes(self, batch: pa.RecordBatch) -> Hashes:
        """Of the rows' keys."""
        return hash_rows(self._keys(batch), batch.num_rows)

    def has_key(self, batch: pa.RecordBatch) -> Flags:
        """Where no column of the key is NULL: a NULL matches nothing."""
        found = np.ones(batch.num_rows, np.bool_)
        for key in self._keys(batch):
            if key.null_count:
                found &= key.is_valid().to_numpy(zero_copy_only=False)
        return found

    def may_match(self, batch: pa.RecordBatch) -> Flags | None:
        """Where its own part of the condition is true; None: everywhere."""
        if self._mask is None:
            return None
        first = self._first
        return self._mask(Rows(batch.num_rows, lambda index: batch.column(int(index) - first)))

    def keep(self, batch: pa.RecordBatch, hashes: Hashes, matched: Flags, kept: Flags) -> None:
        """Let rows wait for those of the other side.

        :param matched: which of them have found one.
        :param kept: only these.
        """
        batch = pa.RecordBatch.from_arrays(batch.columns, schema=self.spec.schema)
        if not kept.all():
            batch, hashes = batch.filter(pa.array(kept)), hashes[:, kept]
            matched = matched[kept]
        self.waiting.add(hashes, batch, self._expires(batch), matched)

    def restore(self, table: pa.Table, *, numbers_anew: bool) -> None:
        """Rows of a snapshot.

        :param numbers_anew: they are of several, in which different rows may have one number.
        """
        for batch in table.to_batches():
            rows = pa.RecordBatch.from_arrays(batch.columns[_SKIPPED:], schema=self.spec.schema)
            self.waiting.add(
                self.hashes(rows),
                rows,
                times_of(batch.column(3)),
                batch.column(4).to_numpy(zero_copy_only=False),
                None if numbers_anew else batch.column(2).to_numpy(),
            )

    def changes(self, groups: int, *, whole: bool) -> Iterator[pa.Table]:
        """See :meth:`engine.state.contract.StatefulStage.changes`."""
        for run, places in self.waiting.taken(whole=whole):
            yield pa.Table.from_batches([self._stored(run, places, groups)])

    def _keys(self, batch: pa.RecordBatch) -> Sequence[pa.Array]:
        return [batch.column(key) for key in self.spec.keys]

    def _expires(self, batch: pa.RecordBatch) -> Times:
        if self._evicts is None or self.spec.evicts is None:
            return np.full(batch.num_rows, NEVER)
        found = self._evicts(Rows(batch.num_rows, batch.column))
        return times_of(to_array(found, batch.num_rows, self.spec.evicts.dtype))

    def _stored(self, run: Run, places: npt.NDArray[np.int64], groups: int) -> pa.RecordBatch:
        rows = run.rows.take(pa.array(places))
        columns = [
            pa.array(groups_of_hashes(run.hashes[:, places], groups), GROUP.type),
            pa.array(np.zeros(len(places), np.bool_), GONE.type),
            pa.array(run.numbers[places]),
            stored(run.expires[places]),
            pa.array(run.matched[places]),
            *rows.columns,
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.table.stored)
