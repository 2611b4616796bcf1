"""Reads what :class:`tests.faults.l4_driver.Stamp` has written."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Arrival:
    """A record has reached the writer."""

    at_ns: int
    pid: int
    partition: int
    seq: int


class Stamps:
    """:ivar counts: partition → seq → how often it was written.
    :ivar last: partition → the newest arrival.
    """

    def __init__(self, folder: Path, partitions: int) -> None:
        self._folder = folder
        self._positions: dict[str, int] = {}
        self.counts: dict[int, Counter[int]] = {p: Counter() for p in range(partitions)}
        self.last: dict[int, Arrival] = {}

    def read(self) -> list[Arrival]:
        """What is new, by time."""
        found = []
        for path in self._folder.iterdir() if self._folder.is_dir() else ():
            with path.open("rb") as file:
                file.seek(self._positions.get(path.name, 0))
                data = file.read()
            whole = data[: data.rfind(b"\n") + 1]
            self._positions[path.name] = self._positions.get(path.name, 0) + len(whole)
            found += [Arrival(*map(int, line.split())) for line in whole.splitlines()]
        found.sort(key=lambda arrival: arrival.at_ns)
        for arrival in found:
            self.counts[arrival.partition][arrival.seq] += 1
            self.last[arrival.partition] = arrival
        return found

    def await_arrival(
        self, wanted: Callable[[Arrival], bool], deadline: Callable[[], bool]
    ) -> Arrival | None:
        """The first one that is wanted; None if ``deadline`` says that it is too late."""
        pause = threading.Event()
        while True:
            for arrival in self.read():
                if wanted(arrival):
                    return arrival
            if deadline():
                return None
            pause.wait(0.01)
