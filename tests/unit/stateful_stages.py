"""Runs stages that keep state epoch by epoch, as a task does, and moves their tables about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa

from engine.exchange.key_groups import groups_of
from engine.exchange.partitioning import Partitioner
from engine.expressions.tree import Expr
from engine.state.contract import EventClock, StatefulStage, StateTable
from tests.gathered import changes_of

GROUPS = 16
Make = Callable[[EventClock], StatefulStage]


def column(schema: pa.Schema, name: str) -> Expr:
    """An expression that is one of the columns."""
    index = schema.get_field_index(name)
    return Expr("Column", (), schema.types[index], True, {"ordinal": index, "name": name})


class Tasks:
    """So many tasks that share the keys of a stage.

    :param keys: positions of the key in the rows.
    """

    def __init__(self, make: Make, keys: Sequence[int], tasks: int = 1) -> None:
        self._make, self._keys = make, keys
        self.clock = EventClock()
        self._start(tasks)
        self.stored: dict[str, dict[tuple[Any, ...], dict[str, Any]]] = {}

    def _start(self, tasks: int) -> None:
        self._partitioner = Partitioner(self._keys, tasks, GROUPS)
        self.stages = [self._make(self.clock) for _ in range(tasks)]

    def epoch(self, batches: Iterable[pa.RecordBatch], next_watermark_ms: int = 0) -> list[Any]:
        """The rows that an epoch returns, and its snapshot is kept."""
        results = self.results(batches, next_watermark_ms)
        self._keep(whole=False)
        return [row for result in results for row in result.to_pylist()]

    def results(
        self, batches: Iterable[pa.RecordBatch], next_watermark_ms: int
    ) -> list[pa.RecordBatch]:
        """What an epoch returns."""
        parts: list[list[pa.RecordBatch]] = [[] for _ in self.stages]
        for batch in batches:
            for task, part in self._partitioner.split(batch):
                parts[task].append(part)
        self.clock.next_watermark_ms = next_watermark_ms
        self.clock.is_filled = any(parts)
        results = []
        for stage, mine in zip(self.stages, parts, strict=True):
            for result in stage(iter(mine)):
                result.validate(full=True)
                assert result.num_rows
                results.append(result)
        self.clock.watermark_ms = next_watermark_ms
        return results

    def _keep(self, *, whole: bool) -> None:
        for stage in self.stages:
            changes = changes_of(stage, whole=whole)
            for table in stage.tables:
                rows = self.stored.setdefault(table.name, {})
                found = changes.get(table.name, table.stored.empty_table())
                found.validate(full=True)
                assert found.schema == table.stored
                for row in found.to_pylist():
                    key = repr(list(row.values())[2 : 2 + table.keys])
                    rows.pop((key,), None)
                    if not row["#gone"]:
                        rows[(key,)] = row
                self._expire(table)

    def _expire(self, table: StateTable) -> None:
        if table.expires is None:
            return
        name = table.schema.names[table.expires]
        rows = self.stored[table.name]
        for key, row in list(rows.items()):
            if row[name] is not None and row[name] <= self.clock.watermark_ms * 1000:
                del rows[key]

    def restart(self, tasks: int) -> None:
        """From the snapshots of all epochs, with so many tasks."""
        tables = self.stages[0].tables
        self._start(tasks)
        for index, stage in enumerate(self.stages):
            owned = groups_of(index, tasks, GROUPS)
            stage.restore(
                {
                    table.name: pa.Table.from_pylist(
                        [row for row in rows.values() if row["#group"] in owned], table.stored
                    )
                    for table in tables
                    if (rows := self.stored.get(table.name))
                }
            )

    def whole(self) -> dict[str, list[str]]:
        """What complete snapshots hold, to be compared with what the changes come to."""
        names = [table.name for table in self.stages[0].tables]
        changed = {name: sorted(map(repr, self.stored.get(name, {}).values())) for name in names}
        self.stored = {}
        self._keep(whole=True)
        assert sum(each.row_count for each in self.stages) == sum(map(len, self.stored.values()))
        assert changed == {n: sorted(map(repr, rows.values())) for n, rows in self.stored.items()}
        return changed
