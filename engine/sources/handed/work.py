"""What travels from the driver to the task that reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Unit:
    """What is read as a whole, in one epoch: a file.

    :param number: tells it from all others of the run.
    :param what: what the source's own code reads it by.
    :param name: for errors and dead letters.
    """

    number: int
    what: Any
    name: str


@dataclass(frozen=True)
class Work:
    """Units for one partition.

    :param is_whole: no epoch ends that has some of them and not all.
    :param is_last: nothing follows: the end of an epoch that is run again.
    :param is_all: with these the driver has handed out all that it knows of, to any partition.
    """

    units: tuple[Unit, ...]
    is_whole: bool = False
    is_last: bool = False
    is_all: bool = False


@dataclass(frozen=True)
class HandedPartition:
    """Which units it gets is told by what they are, so that it gets them again.

    :param count: how many there are: among others it gets other units.
    """

    index: int
    count: int

    @property
    def name(self) -> str:
        """The same after a restart."""
        return str(self.index)

    @property
    def exact_name(self) -> str:
        """``0 of 4``."""
        return f"{self.index} of {self.count}"
