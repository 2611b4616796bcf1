"""Hash tables of tuple sketches, whose order is that of the hashes in what is stored.

They have open addressing: the place of a hash are its lowest bits, and the next ones say how far
away the next place is.

Source: ``QuickSelectSketch.java`` of datasketches-java (``tuple``), ``HashOperations.java``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from engine.expressions.sketches.memory import bad_argument
from engine.expressions.sketches.theta_sketches import MOST
from engine.expressions.sketches.tuple_summaries import Entries, Summary

Combine = Callable[[Summary, Summary], Summary]


def probes(value: int, lg_size: int, lg_stride: int) -> Iterator[int]:
    """All places of a table, in the order in which a hash is sought there."""
    mask = (1 << lg_size) - 1
    stride = 2 * ((value & 2**64 - 1) >> lg_stride & 127) + 1
    for number in range(mask + 1):
        yield value + number * stride & mask


class Table:
    """Hashes with their summaries, of which the smallest are kept.

    It begins small, and becomes eight times as large whenever it is half full, up to twice the
    nominal number of hashes; then, when 15 of 16 places are taken, the hash that follows the
    smallest so many becomes theta, and it and larger ones are forgotten.

    :ivar empty: nothing was there to be taken in.
    """

    def __init__(self, lg_nominal: int) -> None:
        self.nominal = 1 << lg_nominal
        self.theta = MOST
        self.empty = True
        self._set_size((lg_nominal + 1 - 5) % 3 + 5)

    def _set_size(self, lg_size: int) -> None:
        self._lg_size, size = lg_size, 1 << lg_size
        self._hashes = [0] * size
        self._summaries: list[Summary | None] = [None] * size
        self.count = 0
        self._most = size * 15 // 16 if size > self.nominal else size // 2

    def merge(self, value: int, summary: Summary, union: Combine) -> None:
        """Take one in, if it is below theta; the union of it and the one that is there."""
        self.empty = False
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

    def find(self, value: int) -> int:
        """The place of a hash, or where it would be put."""
        places = probes(value, self._lg_size, self._lg_size)
        return next(place for place in places if self._hashes[place] in (0, value))

    def _insert(self, value: int, summary: Summary) -> None:
        self._put(self.find(value), value, summary)

    def _put(self, place: int, value: int, summary: Summary) -> None:
        self._hashes[place], self._summaries[place] = value, summary
        self.count += 1


class StoredTable:
    """A hash table of what nobody has checked: a hash may be in it several times, of which the
    first is found, and a place with the hash 0 is free.

    :param lg_size: places, as a power of two.
    :param lg_stride: as the size, unless it is stored too: the bits of a hash from there on say how
        far away the next place is.
    """

    def __init__(self, lg_size: int, lg_stride: int) -> None:
        self._lg_size, self._lg_stride = lg_size, lg_stride
        self._entries: dict[int, tuple[int, Summary]] = {}

    def put(self, value: int, summary: Summary) -> None:
        """One more.

        :raises SketchError: there is no room for it.
        """
        for place in probes(value, self._lg_size, self._lg_stride):
            if self._hash(place) == 0:
                self._entries[place] = value, summary
                return
        raise bad_argument("No empty slot in table!")

    def __contains__(self, value: int) -> bool:
        return self.get(value) is not None

    def get(self, value: int) -> Summary | None:
        """The summary of a hash that is not 0, found as if strides were those of the size."""
        for place in probes(value, self._lg_size, self._lg_size):
            if (found := self._hash(place)) in (0, value):
                return self._entries[place][1] if found else None
        return None

    def entries(self) -> Entries:
        """All of them, in the order of their places."""
        return [self._entries[place] for place in sorted(self._entries)]

    def _hash(self, place: int) -> int:
        return self._entries[place][0] if place in self._entries else 0
