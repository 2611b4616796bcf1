"""A table of a database in a world at random: see :mod:`tests.sink_walks`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from engine.checkpoint.sink_context import BoundContext
from engine.errors import SinkUnavailableError, StaleRunError
from engine.sinks.databases import epochs as epochs_of_sinks
from tests.connectors.databases.queries import CHANGES, KEYED, QUERY, Query, changes, rows
from tests.connectors.databases.tables import Database
from tests.sink_walks import Epoch, SinkWalk


class TableWalk(SinkWalk[Query]):
    """Rows are appended; a rewind knows them by a column."""

    places = ("database.locked", "database.taken", "database.committed")
    settled = places[2:]
    locked = places[:2]
    refusals = (StaleRunError, SinkUnavailableError)
    options: ClassVar[Mapping[str, str]] = {"epochColumn": "epoch"}

    def __init__(self, seed: int, database: Database) -> None:
        super().__init__(seed)
        self.database = database

    def begin(self) -> Query:
        found = self.sink()
        return Query(
            found,
            generation=self.generation,
            timeline=self.timeline,
            logged=self.logged,
            prepared=[(each.number, each.messages) for each in self.open],
        )

    def sink(self) -> Any:
        return self.database.writer(**self.options)

    def batch(self, some: Sequence[Any]) -> pa.RecordBatch:
        return rows(*some)

    def write(self, run: Query, epoch: int, rows_of: Sequence[Sequence[Any]]) -> list[Any]:
        return [
            run.prepare(epoch, *([self.batch(some)] if some else []), task=task)
            for task, some in enumerate(rows_of)
        ]

    def tell(self, run: Query, epochs: Sequence[Epoch]) -> None:
        for each in epochs:
            self.telling([each])
            run.sink.commit(each.messages, each.number)

    def take_back(self, to: int) -> None:
        sink = self.database.reopened(**self.options)
        sink.bind(BoundContext(QUERY, "rewind", self.generation, self.timeline))
        sink.checkRewind(to)
        sink.rewind(to)

    def seen(self) -> list[Any]:
        return self.database.ids() if self.there else []


class KeyedWalk(TableWalk):
    """Rows replace each other, and go. What a rewind takes back stays, until it comes again.

    :ivar table: what it has to be.
    """

    options = KEYED

    def __init__(self, seed: int, database: Database) -> None:
        super().__init__(seed, database)
        self.table: dict[int, str] = {}

    def sink(self) -> Any:
        return self.database.writer(CHANGES, **self.options)

    def draw(self) -> tuple[int, str, bool]:
        return self.chance.randint(0, 5), f"n{super().draw()}", self.chance.random() < 0.3

    def batch(self, some: Sequence[Any]) -> pa.RecordBatch:
        return changes(*some)

    def committed(self, epochs: Sequence[Epoch]) -> None:
        for each in epochs:
            if each.number not in self.there:
                for key, name, is_gone in each.rows:
                    self.table.pop(key, None)
                    if not is_gone:
                        self.table[key] = name
        super().committed(epochs)

    def seen(self) -> list[Any]:
        if not self.there:
            return []
        return sorted(self.database.read(f"SELECT id, name FROM {self.database.table}"))

    def expected(self) -> list[Any]:
        return sorted(self.table.items())


@pytest.mark.parametrize("walk", [TableWalk, KeyedWalk])
def test_a_table_has_each_epoch_once_whoever_dies_or_wakes_up(
    walk: type[TableWalk], database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = walk(0, database)
    monkeypatch.setattr(epochs_of_sinks, "reach", world.reach)
    world.walk(40 if database.dialect == "sqlite" else 12)
