"""Splits batches among the tasks of a stage, by the key groups that each of them owns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.exchange.hashing import Hashes, hash_rows
from engine.exchange.key_groups import groups_of

Groups = npt.NDArray[np.uint16]
_HALF = np.uint64(32)


class Partitioner:
    """From a batch to the parts of it that each task gets.

    :param keys: positions of the key's columns; none: all rows go to task 0.
    :param tasks: how many there are, at most as many as groups.
    :param groups: how many key groups there are.
    """

    def __init__(self, keys: Sequence[int], tasks: int, groups: int) -> None:
        self._keys = tuple(keys)
        self._tasks = tasks if keys else 1
        self._groups = groups
        self._owners = np.empty(groups, np.uint16)  # sorted by radix
        for task in range(tasks):
            owned = groups_of(task, tasks, groups)
            self._owners[owned.start : owned.stop] = task

    def split(self, batch: pa.RecordBatch) -> list[tuple[int, pa.RecordBatch]]:
        """The tasks that get rows of the batch, and these rows in their order."""
        rows = batch.num_rows
        if rows == 0:
            return []
        if self._tasks == 1:
            return [(0, batch)]
        groups = groups_of_rows([batch.column(key) for key in self._keys], rows, self._groups)
        owners = self._owners[groups]
        counts = np.bincount(owners)
        tasks = np.flatnonzero(counts)
        if len(tasks) == 1:
            return [(int(tasks[0]), batch)]
        order = pa.array(np.argsort(owners, kind="stable"))
        sorted_rows = batch.take(order)
        parts, start = [], 0
        for task in tasks.tolist():
            count = int(counts[task])
            parts.append((task, sorted_rows.slice(start, count)))
            start += count
        return parts


def groups_of_rows(columns: Sequence[pa.Array], rows: int, groups: int) -> Groups:
    """The key group of each row.

    :param columns: those of the key; none: all rows are of one group.
    :param groups: how many there are.
    """
    return groups_of_hashes(hash_rows(columns, rows), groups)


def groups_of_hashes(hashes: Hashes, groups: int) -> Groups:
    """As :func:`groups_of_rows`, by the upper half of the first lane: tables of keys go by the
    lower one."""
    upper = hashes[0] >> _HALF
    return np.asarray((upper * np.uint64(groups)) >> _HALF, np.uint16)
