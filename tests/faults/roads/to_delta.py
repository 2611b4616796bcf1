"""All roads that end at a Delta table, read by Delta's own reader. It is compacted meanwhile: what
a commit has added is then in other files."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import ClassVar

import deltalake

from engine.sinks.delta.table_log import DeltaLog
from tests.faults.roads.mutants import (
    ASKS_NOTHING,
    COMMITTED_EARLY,
    asks_nothing,
    commit_before_log,
)
from tests.faults.roads.road import BETWEEN, PLACES, Meanwhile, Road, Setup

COMPACTED = "the table compacted meanwhile"
_COMMITTED = "tableLog.after"


class ToDelta(Road):
    """Each world has a table of its own."""

    places = (*PLACES, "tableLog.before", _COMMITTED, "tableLog.checked")
    between = (*BETWEEN, _COMMITTED)
    mutants: ClassVar = {
        COMMITTED_EARLY: commit_before_log,
        ASKS_NOTHING: partial(asks_nothing, DeltaLog),
    }
    brought_out: ClassVar = {ASKS_NOTHING: (COMPACTED,)}
    """A file that is added again, under the same path, is one file."""

    @staticmethod
    @abstractmethod
    def table(setup: Setup) -> deltalake.DeltaTable:
        """As it is now."""

    def came_out(self, setup: Setup) -> Counter[bytes]:
        found = self.table(setup).to_pyarrow_table(columns=["value"])["value"].to_pylist()
        return Counter(each.encode() if isinstance(each, str) else each for each in found)

    def meanwhile(self, setup: Setup, draw: Callable[[], float]) -> Mapping[str, Meanwhile]:
        return {COMPACTED: Meanwhile(5, lambda: self._compact(setup))}

    def _compact(self, setup: Setup) -> None:
        self.table(setup).optimize.compact()
