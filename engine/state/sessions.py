"""Sessions of keys: intervals that grow together when they touch.

Each session has a slot, and its key has another one, with a chain of the key's sessions.

Source: Spark's ``MergingSessionsIterator``: two sessions of a key are one if the later begins
before the end of the earlier, or at it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.exchange.hashing import hash_rows
from engine.state.arrays import grown
from engine.state.columns import Slots
from engine.state.event_times import NEVER, Times
from engine.state.slot_table import SlotTable

_NONE: Final = -1


@dataclass(frozen=True)
class Pieces:
    """Sessions and rows, in the order of their keys and of their starts, side by side if they are
    of one session.

    :param owners: the slots of their keys.
    :param slots: of the sessions that were there; -1 for rows.
    :param rows: the numbers of the rows; -1 for sessions.
    :param numbers: of the sessions that they become, from 0.
    """

    owners: Slots
    starts: Times
    ends: Times
    slots: Slots
    rows: Slots
    numbers: Slots

    @property
    def firsts(self) -> Slots:
        """Where another session begins."""
        return np.searchsorted(self.numbers, np.arange(self.numbers[-1] + 1))


class Sessions:
    """See the module.

    :ivar owners: the slot of the key of each session; -1 of a slot that has none.
    :ivar starts: of each session, inclusive; ``ends`` exclusive, :data:`NEVER` without a session.
    """

    def __init__(self) -> None:
        self._table = SlotTable()
        self._heads = np.empty(0, np.int64)  # by the slot of the key
        self._next = np.empty(0, np.int64)  # from here on by that of the session
        self.owners = np.empty(0, np.int64)
        self.starts = np.empty(0, np.int64)
        self.ends = np.empty(0, np.int64)
        self._grow()

    def __len__(self) -> int:
        """How many there are."""
        return len(self._table)

    @property
    def room(self) -> int:
        """All slots of sessions are below this number; it grows."""
        return self._table.room

    @property
    def slots(self) -> Slots:
        """Of all sessions, in ascending order."""
        return self._table.slots

    def grow_keys(self, room: int) -> None:
        """The slots of keys are below this number from now on."""
        if room > len(self._heads):
            self._heads = grown(self._heads, room, _NONE)

    def of_keys(self, owners: Slots) -> Slots:
        """All sessions of these keys, each of them named once."""
        found, slots = [], self._heads[owners]
        slots = slots[slots != _NONE]
        while len(slots):
            found.append(slots)
            slots = self._next[slots]
            slots = slots[slots != _NONE]
        return np.concatenate(found) if found else slots

    def pieces(self, owners: Slots, starts: Times, ends: Times) -> Pieces:
        """The sessions that rows begin, together with those of their keys."""
        there = self.of_keys(np.unique(owners))
        all_owners = np.concatenate([self.owners[there], owners])
        all_starts = np.concatenate([self.starts[there], starts])
        all_ends = np.concatenate([self.ends[there], ends])
        order = np.lexsort((all_starts, all_owners))
        all_owners, all_starts, all_ends = all_owners[order], all_starts[order], all_ends[order]
        begins = np.ones(len(order), np.bool_)
        reached = _running_maximum(all_owners, all_ends)
        begins[1:] = (all_owners[1:] != all_owners[:-1]) | (all_starts[1:] > reached[:-1])
        count = len(there)
        slots = np.concatenate([there, np.full(len(owners), _NONE)])[order]
        rows = np.where(order < count, _NONE, order - count)
        return Pieces(all_owners, all_starts, all_ends, slots, rows, np.cumsum(begins) - 1)

    def add(self, owners: Slots, starts: Times, ends: Times) -> Slots:
        """New sessions; of their keys no others with these starts are there."""
        hashes = hash_rows([pa.array(owners), pa.array(starts)], len(owners))
        slots, _ = self._table.find_or_add(hashes)
        if len(self._next) < self._table.room:
            self._grow()
        self.owners[slots], self.starts[slots], self.ends[slots] = owners, starts, ends
        self._link(slots)
        return slots

    def remove(self, slots: Slots) -> Slots:
        """Forgets sessions, each of them named once. Returns the keys that have none any more."""
        owners = np.unique(self.owners[slots])
        self.owners[slots] = _NONE
        self.ends[slots] = NEVER
        rest = self.of_keys(owners)
        rest = rest[self.owners[rest] != _NONE]
        self._heads[owners] = _NONE
        self._link(rest)
        self._table.free(slots)
        return np.asarray(owners[self._heads[owners] == _NONE])

    def _link(self, slots: Slots) -> None:
        """Puts them in front of the chains of their keys."""
        order = np.argsort(self.owners[slots], kind="stable")
        slots = slots[order]
        owners = self.owners[slots]
        if not len(slots):
            return
        is_last = np.ones(len(slots), np.bool_)
        is_last[:-1] = owners[1:] != owners[:-1]
        following = np.append(slots[1:], _NONE)
        self._next[slots] = np.where(is_last, self._heads[owners], following)
        is_first = np.ones(len(slots), np.bool_)
        is_first[1:] = is_last[:-1]
        self._heads[owners[is_first]] = slots[is_first]

    def _grow(self) -> None:
        room = self._table.room
        self._next = grown(self._next, room, _NONE)
        self.owners = grown(self.owners, room, _NONE)
        self.starts = grown(self.starts, room)
        self.ends = grown(self.ends, room, NEVER)


def _running_maximum(owners: Slots, values: Times) -> npt.NDArray[np.int64]:
    """Of each owner's values so far; an owner's values stand side by side."""
    distinct, ranks = np.unique(values, return_inverse=True)
    numbers = np.zeros(len(owners), np.int64)
    numbers[1:] = np.cumsum(owners[1:] != owners[:-1])
    base = numbers * len(distinct)
    return np.asarray(distinct[np.maximum.accumulate(base + ranks) - base])
