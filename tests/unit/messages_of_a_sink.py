"""A sink's commit messages, as somebody else's package might define them."""

from __future__ import annotations

import os
import subprocess  # noqa: F401  # what an attacker would look for in an allowed module
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from http import HTTPStatus  # noqa: F401
from os import system  # noqa: F401
from typing import Any, NamedTuple

from pyspark.sql.datasource import WriterCommitMessage

TOUCHED: list[str] = []


@dataclass
class FilesWritten(WriterCommitMessage):
    """The usual one."""

    paths: list[str]
    rows: int = 0
    digest: bytes = b""


@dataclass(frozen=True)
class Range:
    """Nested in others; frozen, with a tuple and a class inside."""

    ends: tuple[int, int]
    parts: dict[str, Any] = field(default_factory=dict)
    inner: Range | None = None

    class Nested:
        """A class inside a class."""


@dataclass(frozen=True)
class Slotted:
    """Without a ``__dict__``."""

    __slots__ = ("name",)
    name: str


class Color(Enum):
    """An enum."""

    RED = 1


class Pair(NamedTuple):
    """A named tuple."""

    left: int
    right: Any


class Plain(WriterCommitMessage):
    """No dataclass: has to be pickled."""

    def __init__(self, when: datetime, tags: set[str], more: Any = None) -> None:
        self.when = when
        self.tags = tags
        self.more = more

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    __hash__ = None  # type: ignore[assignment]


@dataclass
class Grown:
    """A dataclass whose objects carry more than its fields."""

    name: str

    def grow(self) -> Grown:
        """Add an attribute that is no field."""
        self.extra = OrderedDict(a=1)
        return self


@dataclass
class Touching:
    """Does something when it is constructed, which decoding must not."""

    name: str

    def __post_init__(self) -> None:
        TOUCHED.append(self.name)


class Service:
    """A class that is no record: constructing one does something."""

    def __init__(self, path: str) -> None:
        TOUCHED.append(path)


def touch(path: str) -> None:
    """A function that must not be called."""
    TOUCHED.append(path + os.sep)
