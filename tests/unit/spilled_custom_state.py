"""Run as a process with little memory: a processor whose state does not fit it, and a restart.

    python -m tests.unit.spilled_custom_state FOLDER BUDGET_BYTES

A budget of 0: all state is in memory, which does not do.
"""

from __future__ import annotations

import resource
import sys
import threading
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

from engine.exchange.key_groups import KeyGroups
from engine.state.arrays import Budget, within
from engine.state.contract import EventClock, StatefulStage
from engine.state.scratch import Scratch
from tests.custom_states import GROUPS, batch_of, groups_of, processor_step
from tests.unit.large_state import _data_bytes

KEYS: Final = 24_000
AT_ONCE: Final = 2_000
MEMORY: Final = 48 << 20


class Lasting(StatefulProcessor):
    """Remembers a long text for each key, and the rows as a list."""

    def init(self, handle: Any) -> None:
        self.text = handle.getValueState("text", "t string")
        self.rows = handle.getListState("rows", "v long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        if not self.text.exists():
            self.text.update((key[0] * 250,))
        for row in rows:
            self.rows.appendValue((row.v,))
        (text,) = self.text.get()
        yield Row(k=text[: len(key[0])], n=sum(v for (v,) in self.rows.get()))


def main(folder: str, budget_bytes: int) -> None:
    step = processor_step(Lasting(), "k string, v long", "k string, n long")
    scratch = Scratch(folder, budget_bytes or None)
    threading.stack_size(1 << 20)
    pa.set_cpu_count(1)
    allowed = _data_bytes() + MEMORY
    resource.setrlimit(resource.RLIMIT_DATA, (allowed, allowed))
    with within(Budget(budget_bytes, scratch) if budget_bytes else None):
        groups = KeyGroups(range(GROUPS), groups_of)
        stage, again = (step.start(step, EventClock(), groups) for _ in range(2))
        for start in range(0, KEYS, AT_ONCE):  # an epoch
            _feed(stage, step.input, 1, start)
            changed = sum(rows.num_rows for _, rows in stage.changes(whole=False))
            assert changed == 2 * AT_ONCE
        for name, rows in stage.changes(whole=True):
            again.restore({name: rows})
        del stage
        assert again.row_count == 2 * KEYS
        for start in range(0, KEYS, AT_ONCE):
            _feed(again, step.input, 2, start)


def _feed(stage: StatefulStage, schema: pa.Schema, turn: int, start: int) -> None:
    """A row of some keys, which have had ``turn`` of them then, of the values 1, 2, ..."""
    numbers = (number * 7 % KEYS for number in range(start, start + AT_ONCE))
    batch = batch_of(schema, [(f"key {number:06}", turn) for number in numbers])
    (made,) = pa.Table.from_batches(stage(iter([batch]))).combine_chunks().to_batches()
    assert made.column(0) == batch.column(0)
    assert set(made.column(1).to_pylist()) == {turn * (turn + 1) // 2}


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
