"""What a query reads while no topic matches its pattern: nothing, until one is made."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from engine.sources.contract import Offset, PartitionReader


@dataclass(frozen=True)
class NothingYet:
    """In place of partitions: a query needs one."""

    name: str = "nothing yet"


NOTHING_YET: Final = NothingYet()


class NothingYetReader(PartitionReader):
    """:param is_bounded: it has an end, and that is reached."""

    interruptible = True

    def __init__(self, *, is_bounded: bool) -> None:
        self._is_bounded = is_bounded
        self._has_word = threading.Event()

    def read(self, timeout_s: float) -> pa.RecordBatch | None:
        self._has_word.wait(timeout_s)
        self._has_word.clear()
        return None

    @property
    def offset(self) -> Offset:
        return {}

    @property
    def exhausted(self) -> bool:
        return self._is_bounded

    def interrupt(self) -> None:
        self._has_word.set()
