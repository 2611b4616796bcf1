"""Which task reads which partitions, and what each of them is called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Share:
    """What one task reads.

    :param first: the number of its first partition among all of the query.
    :param names: of the partitions, unique in the query and the same after a restart.
    """

    stream: int
    first: int
    partitions: tuple[Any, ...]
    names: tuple[str, ...]

    def numbers_of(self, names: frozenset[str]) -> frozenset[int]:
        """The numbers of the partitions of these names."""
        return frozenset(
            number for number, name in enumerate(self.names, self.first) if name in names
        )


def shares(found: Sequence[tuple[Any, ...]], split: Sequence[tuple[int, range]]) -> list[Share]:
    """A share per task.

    :param found: the partitions of each stream.
    :param split: of each task its stream, and which of that stream's partitions.
    """
    before = [sum(map(len, found[:stream])) for stream in range(len(found))]
    return [
        Share(
            stream,
            before[stream] + part.start,
            found[stream][part.start : part.stop],
            tuple(_name(stream, found[stream][at], at) for at in part),
        )
        for stream, part in split
    ]


def _name(stream: int, partition: Any, place: int) -> str:
    return f"{stream}/{getattr(partition, 'name', place)}"
