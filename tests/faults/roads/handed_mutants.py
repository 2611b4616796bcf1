"""Wrong versions of what files and tables as sources have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.sources.handed import reader
from engine.sources.handed.partition_reader import HandedPartitionReader
from tests.faults.roads.mutants import COMMITTED_EARLY, commit_before_log


def _set(owner: Any, name: str, value: Any) -> None:
    setattr(owner, name, value)


def _read_when_begun() -> None:
    right = HandedPartitionReader._begin

    def begin(self: Any, timeout_s: float) -> bool:
        began = right(self, timeout_s)
        if began:
            self._read.append(self._unit.number)
        return began

    _set(HandedPartitionReader, "_begin", begin)
    _set(HandedPartitionReader, "midway", property(lambda self: False))


def any_partition() -> None:
    """Another one than before: shows where some of the epoch's tasks are run again."""
    turn = iter(range(1 << 40))
    _set(reader, "partition_of", lambda key, partitions: (next(turn) * 7 // 3) % partitions)


MUTANTS: dict[str, Callable[[], None]] = {
    COMMITTED_EARLY: commit_before_log,
    "a file counts as read when it is begun": _read_when_begun,
}
