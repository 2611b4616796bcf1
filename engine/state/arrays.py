"""The arrays of live state: in memory, or, behind a budget, in files that the system pages in.

An array that grows is made anew, twice as large: so it moves to a file when it has become too
large, and the small ones stay. What a task keeps is of one thread, which says by :func:`within`
what may be in memory; without that all is.
"""

from __future__ import annotations

import mmap
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.base.open_files import allow_many_open_files
from engine.state.database import Database
from engine.state.scratch import Scratch

Values = npt.NDArray[Any]
Rows = TypeVar("Rows", pa.Array, pa.RecordBatch)
_SMALL: Final = 1 << 16
"""Arrays of fewer bytes stay in memory, and are not counted."""


class Budget:
    """What the arrays of a task may take.

    :param bytes_max: of all of them together.
    :param scratch: where others are.
    """

    def __init__(self, bytes_max: int, scratch: Scratch) -> None:
        allow_many_open_files()  # each array that is mapped has one
        self._left = bytes_max
        self._scratch = scratch
        self._mapped: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()
        self._bytes_max = bytes_max
        self._database: Database | None = None

    @property
    def database(self) -> Database:
        """For rows that are Python's objects; half of the memory is for what is at hand of it.

        :raises ConfigError: see :class:`Database`.
        """
        if self._database is None:
            half = self._bytes_max // 2
            self._left -= half
            self._database = Database(self._scratch, half)
        return self._database

    @property
    def spilled_bytes(self) -> int:
        """So many are in files."""
        return sum(map(len, self._mapped))

    def full(self, shape: Any, initial: Any, dtype: Any) -> Values:
        """As :func:`numpy.full`.

        :raises StateTooLargeError: there is no room on the disk.
        """
        nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        if self._takes(nbytes):
            made: Values = self._counted(np.full(shape, initial, dtype), nbytes)
            return made
        found: Values = np.frombuffer(self._map(nbytes), dtype).reshape(shape)
        if np.any(initial):  # the file has zeros
            found[...] = initial
        return found

    def kept(self, array: Values) -> Values:
        """The array, or the same in a file; as :meth:`full`."""
        if self._takes(array.nbytes):
            self._counted(array, array.nbytes)
            return array
        found: Values = np.frombuffer(self._map(array.nbytes), array.dtype).reshape(array.shape)
        found[...] = array
        return found

    def kept_rows(self, rows: Rows) -> Rows:
        """The same for an array of Arrow, or a batch."""
        nbytes = rows.nbytes
        if self._takes(nbytes):
            return self._counted(rows, nbytes)
        if isinstance(rows, pa.Array):
            (column,) = self._copied(pa.record_batch([rows], ["rows"])).columns
            return column
        return self._copied(rows)

    def let_go(self) -> None:
        """What is in files is no more this process's than the system likes."""
        for mapped in list(self._mapped):
            mapped.madvise(mmap.MADV_DONTNEED)

    def _copied(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        counting = pa.MockOutputStream()
        _write(counting, batch)
        mapped = pa.py_buffer(self._map(counting.size()))
        _write(pa.FixedSizeBufferWriter(mapped), batch)
        return pa.ipc.open_stream(mapped).read_next_batch()

    def _takes(self, nbytes: int) -> bool:
        return nbytes < _SMALL or nbytes <= self._left

    def _counted(self, held: Any, nbytes: int) -> Any:
        if nbytes >= _SMALL:
            self._left -= nbytes
            weakref.finalize(held, self._freed, nbytes)
        return held

    def _freed(self, nbytes: int) -> None:
        self._left += nbytes

    def _map(self, nbytes: int) -> mmap.mmap:
        mapped = self._scratch.mapped(nbytes)
        self._mapped.add(mapped)
        return mapped


class _Here(threading.local):
    budget: Budget | None = None


_here: Final = _Here()


def budget() -> Budget | None:
    """That of this thread; None: all is in memory."""
    return _here.budget


@contextmanager
def within(budget: Budget | None) -> Iterator[None]:
    """The arrays that this thread makes are within a budget."""
    before, _here.budget = _here.budget, budget
    try:
        yield
    finally:
        _here.budget = before


def full(shape: Any, initial: Any, dtype: Any) -> Values:
    """As :func:`numpy.full`, within the budget."""
    here = _here.budget
    return np.full(shape, initial, dtype) if here is None else here.full(shape, initial, dtype)


def kept(array: Values) -> Values:
    """The array, within the budget."""
    return array if _here.budget is None else _here.budget.kept(array)


def kept_rows(rows: Rows) -> Rows:
    """The array or the batch, within the budget."""
    return rows if _here.budget is None else _here.budget.kept_rows(rows)


def grown(values: Values, room: int, initial: Any = 0) -> Values:
    """The array with slots up to ``room``; the new ones have the initial value."""
    here, rest = _here.budget, values.shape[1:]
    if here is None:
        shape = (room - len(values), *rest)
        is_zero = isinstance(initial, int) and initial == 0  # which costs nothing yet
        more = np.zeros(shape, values.dtype) if is_zero else np.full(shape, initial, values.dtype)
        return np.concatenate([values, more])
    found = here.full((room, *rest), initial, values.dtype)
    found[: len(values)] = values
    return found


def _write(to: Any, batch: pa.RecordBatch) -> None:
    with pa.ipc.new_stream(to, batch.schema) as writer:
        writer.write_batch(batch)
