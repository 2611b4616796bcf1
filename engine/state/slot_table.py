"""From keys to small numbers, their *slots*: what is kept of a key is in columns by slot.

A table with open addressing and linear probing, in which all rows of a batch are looked up at
once: first each at its home, then those that have found another key there one place further on, and
so on.
A key is its hash of 128 bits, see :mod:`engine.exchange.hashing`.

Several rows of a batch may bring the same new key, and different new keys may want the same place.
All of them write their number there, one stays: it is the key that has got the place, and the
others compare themselves with it like with any key.

A place whose key is freed is a tombstone, which those who search pass by, unless the next place is
empty: then it is, too. Whatever is left of them goes when the table is made anew.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from engine.exchange.hashing import Hashes
from engine.state.arrays import full, grown

Slots = npt.NDArray[np.int64]
_EMPTY: Final = -1
_TOMBSTONE: Final = -2
_NOWHERE: Final = -1
_SMALLEST: Final = 1 << 10
_AT_ONCE: Final = 1 << 20
_SLOTS_MAX: Final = 1 << 30


class SlotTable:
    """See the module. Slots are handed out from 0, those that were freed first.

    :ivar room: all slots are below this number; it grows.
    """

    def __init__(self) -> None:
        self.room = 0
        self._index = np.full(_SMALLEST, _EMPTY, np.int32)
        self._taken = 0  # places with a key or a tombstone
        self._used = 0  # slots that were ever handed out
        self._free: list[Slots] = []
        self._free_count = 0
        self._hashes = np.empty((0, 2), np.uint64)
        self._places = np.empty(0, np.int64)
        self._make_room(_SMALLEST // 2)

    def __len__(self) -> int:
        """How many keys there are."""
        return self._used - self._free_count

    @property
    def slots(self) -> Slots:
        """Of all keys, in ascending order."""
        return np.flatnonzero(self._places[: self._used] != _NOWHERE)

    def hashes(self, slots: Slots) -> Hashes:
        """Of the keys in these slots."""
        return np.ascontiguousarray(self._hashes[slots].T)

    def reserve(self, keys: int) -> None:
        """So many more keys will come: they will not make the table grow."""
        self._make_room(self._used + max(keys - self._free_count, 0))
        if not self._has_places_for(keys):
            self._rebuild(len(self) + keys)

    def find_or_add(self, hashes: Hashes) -> tuple[Slots, Slots]:
        """The slot of each row's key; and which rows have brought a new key: of several with the
        same one, the first."""
        rows = hashes.shape[1]
        slots = np.empty(rows, np.int64)
        added: list[Slots] = []
        pending: Any = None  # all rows
        mask = np.uint64(len(self._index) - 1)
        places = (hashes[0] & mask).astype(np.int64)
        while len(places):
            found = self._index[places].astype(np.int64)
            is_empty = found == _EMPTY
            if is_empty.any():
                claiming = np.flatnonzero(is_empty)
                firsts = self._claim(places[claiming])
                if not self._has_places_for(len(firsts)):
                    self._index[places[claiming]] = _EMPTY
                    self._rebuild(len(self) + len(firsts))
                    mask = np.uint64(len(self._index) - 1)
                    places = (hashes[0] & mask).astype(np.int64)
                    continue
                winners = claiming[firsts]
                self._add(places[winners], hashes[:, winners])
                added.append(winners if pending is None else pending[winners])
                found[claiming] = self._index[places[claiming]]
            theirs = self._hashes[found]
            is_found = (theirs[:, 0] == hashes[0]) & (theirs[:, 1] == hashes[1]) & (found >= 0)
            if pending is None and is_found.all():
                slots = found
                break
            here = np.flatnonzero(is_found)
            slots[here if pending is None else pending[here]] = found[here]
            others = np.flatnonzero(~is_found)
            pending = others if pending is None else pending[others]
            hashes = hashes[:, others]
            places = (places[others] + 1) & int(mask)
        return slots, np.sort(np.concatenate(added)) if added else _NO_ROWS

    def free(self, slots: Slots) -> None:
        """The keys in these slots, each of them once, are gone."""
        if not len(slots):
            return
        places, last = self._places[slots], len(self._index) - 1
        self._places[slots] = _NOWHERE
        self._free.append(slots)
        self._free_count += len(slots)
        self._index[places] = _TOMBSTONE
        while len(places):
            is_last = self._index[(places + 1) & last] == _EMPTY
            places = places[is_last & (self._index[places] == _TOMBSTONE)]
            self._index[places] = _EMPTY
            self._taken -= len(places)
            places = (places - 1) & last

    def _claim(self, places: Slots) -> Slots:
        """Writes into these empty places: which of them are the first to name theirs."""
        numbers = np.arange(len(places), dtype=np.int32)
        self._index[places[::-1]] = numbers[::-1]  # of several, the last assignment counts
        return np.flatnonzero(self._index[places] == numbers)

    def _add(self, places: Slots, hashes: Hashes) -> None:
        slots = self._new_slots(len(places))
        self._index[places] = slots
        self._places[slots] = places
        self._hashes[slots] = hashes.T
        self._taken += len(places)

    def _new_slots(self, count: int) -> Slots:
        parts: list[Slots] = []
        missing = count
        while missing and self._free:
            freed = self._free.pop()
            if len(freed) > missing:
                self._free.append(freed[missing:])
                freed = freed[:missing]
            parts.append(freed)
            missing -= len(freed)
        self._free_count -= count - missing
        if missing:
            self._make_room(self._used + missing)
            parts.append(np.arange(self._used, self._used + missing))
            self._used += missing
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _make_room(self, slots: int) -> None:
        if slots <= self.room:
            return
        if slots > _SLOTS_MAX:
            raise MemoryError(f"more than {_SLOTS_MAX} keys in one task: give the query more tasks")
        room = max(slots, 2 * self.room)
        self._hashes = grown(self._hashes, room)
        self._places = grown(self._places, room, _NOWHERE)
        self.room = room

    def _has_places_for(self, keys: int) -> bool:
        return 2 * (self._taken + keys) <= len(self._index)

    def _rebuild(self, keys: int) -> None:
        """With places for so many keys, and as many again before the next time."""
        size = _SMALLEST
        while size < 4 * keys:
            size *= 2
        self._index = full(size, _EMPTY, np.int32)
        self._taken = len(self)
        for start in range(0, self._used, _AT_ONCE):
            part = self._places[start : min(start + _AT_ONCE, self._used)]
            self._place(np.flatnonzero(part != _NOWHERE) + start)

    def _place(self, slots: Slots) -> None:
        size = len(self._index)
        places = (self._hashes[slots, 0] & np.uint64(size - 1)).astype(np.int64)
        while len(slots):
            is_empty = self._index[places] == _EMPTY
            self._index[places[is_empty]] = slots[is_empty]
            is_placed = self._index[places] == slots
            self._places[slots[is_placed]] = places[is_placed]
            slots = slots[~is_placed]
            places = (places[~is_placed] + 1) & (size - 1)


_NO_ROWS: Final[Slots] = np.empty(0, np.int64)
