"""Hash tables of tuple sketches, whose order is that of the hashes in what is stored.

They have open addressing: the place of a hash are its lowest bits, and the next ones say how far
away the next place is.

Source: ``QuickSelectSketch.java`` of datasketches-java (``tuple``), ``HashOperations.java``.
"""

from __future__ import annotations

from collections.abc import Callable

from engine.expressions.sketches.theta_sketches import MOST
from engine.expressions.sketches.tuple_sketches import Entries, Summary

Combine = Callable[[Summary, Summary], Summary]


class Table:
    """Hashes with their summaries, of which the smallest are kept.

    It begins small, and becomes eight times as large whenever it is half full, up to twice the
    nominal number of hashes; then, when 15 of 16 places are taken, the hash that follows the
    smallest so many becomes theta, and it and larger ones are forgotten.
    """

    def __init__(self, lg_nominal: int) -> None:
        self.nominal = 1 << lg_nominal
        self.theta = MOST
        self._set_size((lg_nominal + 1 - 5) % 3 + 5)

    @classmethod
    def of(cls, entries: Entries, lg_size: int) -> Table:
        """A table of a size with these, which are all different."""
        table = cls(lg_size)
        table._set_size(lg_size)
        for value, summary in entries:
            table._insert(value, summary)
        return table

    def _set_size(self, lg_size: int) -> None:
        self._lg_size, size = lg_size, 1 << lg_size
        self._hashes = [0] * size
        self._summaries: list[Summary | None] = [None] * size
        self.count = 0
        self._most = size * 15 // 16 if size > self.nominal else size // 2

    def merge(self, value: int, summary: Summary, union: Combine) -> None:
        """Take one in, if it is below theta; the union of it and the one that is there."""
        if not 0 < value < self.theta:
            return
        place = self.find(value)
        found = self._summaries[place]
        if found is not None:
            self._summaries[place] = union(found, summary)
            return
        self._put(place, value, summary)
        if self.count <= self._most:
            return
        lg_size = self._lg_size
        if len(self._hashes) > self.nominal:
            self.theta = sorted(value for value, _ in self.entries())[self.nominal]
        else:
            lg_size += 3
        kept = [entry for entry in self.entries() if entry[0] < self.theta]
        self._set_size(lg_size)
        for entry in kept:
            self._insert(*entry)

    def entries(self) -> Entries:
        """All of them, in the order of their places."""
        pairs = zip(self._hashes, self._summaries, strict=True)
        return [(value, summary) for value, summary in pairs if summary is not None]

    def get(self, value: int) -> Summary | None:
        """The summary of a hash."""
        return self._summaries[self.find(value)]

    def find(self, value: int) -> int:
        """The place of a hash, or where it would be put."""
        mask = len(self._hashes) - 1
        place, stride = value & mask, 2 * (value >> self._lg_size & 127) + 1
        while self._hashes[place] not in (0, value):
            place = (place + stride) & mask
        return place

    def _insert(self, value: int, summary: Summary) -> None:
        self._put(self.find(value), value, summary)

    def _put(self, place: int, value: int, summary: Summary) -> None:
        self._hashes[place], self._summaries[place] = value, summary
        self.count += 1
