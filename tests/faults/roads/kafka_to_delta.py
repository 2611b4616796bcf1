"""Kafka to a Delta table, read by Delta's own reader."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

import deltalake

from engine.query.binding import bind_writer
from engine.sinks.contract import SinkBinding
from engine.sinks.delta.data_source import DeltaDataSource
from engine.sinks.delta.table_log import TableLog
from tests.faults.roads.from_kafka import FromKafka
from tests.faults.roads.kafka_topics import COLUMNS
from tests.faults.roads.mutants import COMMITTED_EARLY, commit_before_log
from tests.faults.roads.road import PLACES, Setup


def _asks_nothing() -> None:
    right = TableLog._write

    def write(self: Any, *given: Any, **named: Any) -> Any:
        named["is_done"] = lambda table: False
        return right(self, *given, **named)

    TableLog._write = write  # type: ignore[method-assign]


def _sees_no_other() -> None:
    TableLog._check_run = lambda *_: None  # type: ignore[method-assign]


class KafkaToDelta(FromKafka):
    """Each world has a topic and a table of its own."""

    level = "L5 Kafka to Delta"
    places = (*PLACES, "tableLog.before", "tableLog.after", "tableLog.checked")
    mutants: ClassVar = {
        COMMITTED_EARLY: commit_before_log,
        "the table is not asked whether it has the epoch": _asks_nothing,
        "the table is not asked whether a later run has written": _sees_no_other,
    }

    def came_out(self, setup: Setup) -> Counter[bytes]:
        table = deltalake.DeltaTable(_table(setup)).to_pyarrow_table(columns=["value"])
        return Counter(table.column(0).to_pylist())

    @staticmethod
    def sink(setup: Setup) -> SinkBinding:
        sink = DeltaDataSource({"path": _table(setup)})
        return bind_writer(sink.streamWriter(COLUMNS, overwrite=False), "delta")


def _table(setup: Setup) -> str:
    return str(Path(setup.folder) / "table")


ROAD = KafkaToDelta
