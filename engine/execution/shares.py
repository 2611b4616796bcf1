"""Which task reads which partitions, or owns which key groups, and what each of them is called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.exchange.key_groups import KEY_GROUPS, groups_of


@dataclass(frozen=True)
class Share:
    """What one task reads; or, of a stage, the key groups whose rows it gets.

    :param stage: the number of its pipeline.
    :param place: which of the pipeline's ``places`` tasks it is.
    :param first: the number of its first partition among all of the query.
    :param partitions: none of a task that gets its rows from others.
    :param names: of the partitions, or of the key groups: unique in the query, and the same after a
        restart with as many tasks.
    """

    stage: int
    place: int
    places: int
    first: int
    partitions: tuple[Any, ...]
    names: tuple[str, ...]

    def numbers_of(self, names: frozenset[str]) -> frozenset[int]:
        """The numbers of the partitions of these names."""
        return frozenset(
            number for number, name in enumerate(self.names, self.first) if name in names
        )


def shares(
    found: Sequence[tuple[Any, ...]], split: Sequence[tuple[int, range]], groups: int = KEY_GROUPS
) -> list[Share]:
    """A share per task.

    :param found: the partitions of each stream.
    :param split: of each task its pipeline, and which of that stream's partitions.
    :param groups: how many key groups the query has.
    """
    before = [sum(map(len, found[:stream])) for stream in range(len(found))]
    places = Counter(stage for stage, _ in split)
    taken: Counter[int] = Counter()
    made = []
    for stage, part in split:
        place, count = taken[stage], places[stage]
        taken[stage] += 1
        if stage < len(found):
            names = tuple(_name(stage, found[stage][at], at) for at in part)
            partitions = found[stage][part.start : part.stop]
            made.append(Share(stage, place, count, before[stage] + part.start, partitions, names))
        else:
            owned = groups_of(place, count, groups)
            name = f"{stage}/groups {owned.start}-{owned.stop - 1}"
            made.append(Share(stage, place, count, 0, (), (name,)))
    return made


def _name(stream: int, partition: Any, place: int) -> str:
    return f"{stream}/{getattr(partition, 'name', place)}"
