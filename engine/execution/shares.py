"""Which task reads which partitions, or owns which key groups, and what each of them is called."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from engine.exchange.key_groups import KEY_GROUPS, groups_of

_OF_STAGE: Final = re.compile(r"(\d+)/groups (\d+)-(\d+)")


@dataclass(frozen=True)
class Share:
    """What one task reads; or, of a stage, the key groups whose rows it gets.

    :param stage: the number of its pipeline.
    :param place: which of the pipeline's tasks it is.
    :param first: the number of its first partition among all of the query.
    :param partitions: none of a task that gets its rows from others.
    :param owned: its key groups; the positions of its partitions in their stream.
    :param names: of the partitions, or of the key groups: unique in the query, and the same after a
        restart with as many tasks; see :func:`_exact_names`.
    """

    stage: int
    place: int
    first: int
    partitions: tuple[Any, ...]
    owned: range
    names: tuple[str, ...]

    def numbers_of(self, names: frozenset[str]) -> frozenset[int]:
        """The numbers of the partitions of these names."""
        return frozenset(
            number for number, name in enumerate(self.names, self.first) if name in names
        )


class Spread(NamedTuple):
    """Over how many tasks a query is spread.

    :ivar partitions: of all sources.
    :ivar readers: so many tasks read them; ``tasks`` counts those of stages, too.
    """

    partitions: int = 0
    readers: int = 0
    tasks: int = 0


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
        place = taken[stage]
        taken[stage] += 1
        if stage < len(found):
            names = _exact_names(stage, found[stage])[part.start : part.stop]
            partitions = found[stage][part.start : part.stop]
            first = before[stage] + part.start
            made.append(Share(stage, place, first, partitions, part, names))
        else:
            owned = groups_of(place, places[stage], groups)
            name = f"{stage}/groups {owned.start}-{owned.stop - 1}"  # see _OF_STAGE
            made.append(Share(stage, place, 0, (), owned, (name,)))
    return made


def tasks_among(names: Iterable[str], streams: int, groups: int) -> dict[int, int]:
    """Of each stage, over how many tasks it has to be spread for tasks of these names to be among
    them: as few as can be. A stage of which there is no such number, or no name, is left out.

    :param names: of partitions as well.
    :param groups: how many key groups the query has.
    """
    owned: dict[int, set[range]] = {}
    for match in filter(None, map(_OF_STAGE.fullmatch, names)):
        stage, first, last = map(int, match.groups())
        if stage >= streams:
            owned.setdefault(stage, set()).add(range(first, last + 1))
    found: dict[int, int] = {}
    for stage, parts in owned.items():
        for tasks in range(1, groups + 1):
            # The only place at which a task can be that begins there.
            if all(groups_of(-(-p.start * tasks // groups), tasks, groups) == p for p in parts):
                found[stage] = tasks
                break
    return found


def _exact_names(stream: int, partitions: Sequence[Any]) -> tuple[str, ...]:
    """Of all partitions of a stream; another name is of one that has other records."""
    named = zip(partitions, names_of(stream, partitions), strict=True)
    return tuple(
        f"{stream}/{partition.exact_name}" if hasattr(partition, "exact_name") else name
        for partition, name in named
    )


def names_of(stream: int, partitions: Sequence[Any]) -> tuple[str, ...]:
    """Of all partitions of a stream."""
    return tuple(
        f"{stream}/{getattr(partition, 'name', place)}"
        for place, partition in enumerate(partitions)
    )
