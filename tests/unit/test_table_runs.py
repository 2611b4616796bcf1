"""Every file of a table is read once, whatever is read before others, wherever it starts anew."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from engine.sources.contract import Offset
from engine.sources.lakes.position import TablePosition
from engine.sources.lakes.run import Found, Pace, TableRun

PACE = Pace(partitions=2, poll_s=0.0, files_max=None)
ALL = 80
"""So many looks find everything."""


class Versions(TableRun):
    """A unit is its version and its index.

    :param sizes: how many files each version of the table has.
    """

    def __init__(self, sizes: dict[int, int], start: Offset, until: Offset | None = None) -> None:
        super().__init__(PACE, TablePosition.of(start, "it"), until and TablePosition.of(until, ""))
        self.sizes = sizes

    def find_snapshot(self, version: int) -> Found:
        every = [(each, n) for each in sorted(self.sizes) for n in range(self.sizes[each])]
        return Found(version, [unit for unit in every if unit[0] <= version])

    def find_version(self, number: int) -> Found | None:
        version = min((each for each in self.sizes if each >= number), default=None)
        if version is None:
            return None
        return Found(version, [(version, n) for n in range(self.sizes[version])])

    def read(self, times: int = 1) -> dict[int, tuple[int, int]]:
        """What is handed out next, by its number."""
        works = [work for _ in range(times) for work in (self.next(0.0) or {}).values()]
        return {unit.number: unit.what for work in works for unit in work.units}


def at(version: int, index: int, *ahead: tuple[int, int], is_snapshot: bool = False) -> Offset:
    return TablePosition("it", (version, index), is_snapshot, frozenset(ahead)).offset()


def test_what_was_read_ahead_stays_so_where_the_table_is_followed_just_as_far() -> None:
    run = Versions({1: 2, 2: 3}, at(1, 1, (2, 0), (2, 2)))
    (number,) = run.read()
    merged = run.merged([{"read": [number]}])
    assert merged == at(2, 0, (2, 0), (2, 2))
    assert list(Versions(run.sizes, merged).read().values()) == [(2, 1)]


@pytest.mark.parametrize("seed", range(40))
def test_every_file_is_read_once(seed: int) -> None:
    chance = Random(seed)
    sizes = {3: 2, 5: 4}
    offset = at(5, 0, is_snapshot=True)
    run, out, read = Versions(sizes, offset), dict[int, tuple[int, int]](), Counter[object]()
    newest = 5
    for _ in range(200):
        act = chance.random()
        if act < 0.2 and newest < 60:
            newest += chance.choice((1, 1, 1, 2))
            sizes[newest] = chance.choice((0, 1, 2, 3))
        elif act < 0.5:
            out.update(run.read())
        elif act < 0.9:
            some = [number for number in out if chance.random() < 0.5]
            if not some:
                continue
            before, offset = offset, run.merged([{"read": some}])
            units = [out.pop(number) for number in some]
            read.update(units)
            again = Versions(sizes, before, offset).read(ALL)
            assert sorted(again.values()) == sorted(units)
        else:
            run, out = Versions(sizes, offset), {}
    read.update(Versions(sizes, offset).read(ALL).values())
    assert set(read.values()) == {1}
    assert len(read) == sum(sizes.values())
