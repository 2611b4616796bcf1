"""Parts of a state that are small enough to be put together in memory, one at a time.

A part is some key groups: who knows how many bytes each group has in the files cuts them into runs.
A group that is too large by itself is cut by the hash of the rows' keys.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engine.exchange.hashing import hash_rows
from engine.state.chains import StateFile
from engine.state.contract import GROUP
from engine.state.merging import comparable

_ROWS: Final = 1 << 20
"""So many are looked at together."""
Groups = npt.NDArray[np.uint16]


@dataclass(frozen=True)
class Slice:
    """See the module.

    :param part: which of ``parts`` of the only group; else all of them are meant.
    """

    groups: range
    part: int = 0
    parts: int = 1

    def of(self, rows: pa.Table, keys: int, owned: range) -> pa.Table:
        """The rows of a table that are in it.

        :param keys: how many columns the key has.
        :param owned: the key groups that the table has rows of.
        """
        if owned.start < self.groups.start or owned.stop > self.groups.stop:
            parts = [_between(batch, self.groups) for batch in rows.to_batches(max_chunksize=_ROWS)]
            rows = pa.concat_tables([rows.slice(0, 0), *parts])
        if self.parts == 1 or not rows.num_rows:
            return rows
        lanes = hash_rows(comparable(rows, keys) if keys else [], rows.num_rows)
        return rows.filter(pa.array(lanes[1] % np.uint64(self.parts) == self.part))


def slices_of(groups: range, nbytes: npt.NDArray[np.float64], bytes_max: int) -> list[Slice]:
    """All of the groups.

    :param nbytes: of each key group from 0 on.
    """
    found: list[Slice] = []
    start, gathered = groups.start, 0.0
    for group in groups:
        if gathered and gathered + nbytes[group] > bytes_max:
            found.append(Slice(range(start, group)))
            start, gathered = group, 0.0
        if nbytes[group] > bytes_max:
            parts = int(nbytes[group] // bytes_max) + 1
            if start < group:
                found.append(Slice(range(start, group)))
            found += [Slice(range(group, group + 1), part, parts) for part in range(parts)]
            start, gathered = group + 1, 0.0
        else:
            gathered += nbytes[group]
    if start < groups.stop:
        found.append(Slice(range(start, groups.stop)))
    return found


def bytes_by_group(files: Iterable[StateFile], groups: range) -> npt.NDArray[np.float64]:
    """How many bytes the files have of each key group from 0 on, about."""
    found = np.zeros(groups.stop)
    for file in files:
        counts = np.zeros(groups.stop, np.int64)
        for rows in file.tables.values():
            for batch in rows.select([GROUP.name]).to_batches(max_chunksize=_ROWS):
                own = np.bincount(batch.column(0).to_numpy(), minlength=groups.stop)
                counts += own[: groups.stop]
        if file.link.rows:
            found += counts * (file.link.nbytes / file.link.rows)
    return found


def _between(batch: pa.RecordBatch, groups: range) -> pa.Table:
    """The rows of some key groups; where they stand side by side no other is looked at."""
    own: Groups = batch.column(GROUP.name).to_numpy()
    table = pa.Table.from_batches([batch])
    if (own[1:] >= own[:-1]).all():
        first, last = np.searchsorted(own, [groups.start, groups.stop])
        return table.slice(first, last - first)
    group = batch.column(GROUP.name)
    from_first = pc.greater_equal(group, pa.scalar(groups.start, GROUP.type))
    return table.filter(pc.and_(from_first, pc.less(group, pa.scalar(groups.stop, GROUP.type))))
