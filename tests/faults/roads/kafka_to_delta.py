"""Kafka to a Delta table, read by Delta's own reader."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from typing import ClassVar

import deltalake

from engine.query.binding import bind_writer
from engine.sinks.contract import SinkBinding
from engine.sinks.delta.data_source import DeltaDataSource
from engine.sinks.delta.table_log import DeltaLog
from tests.faults.roads.from_kafka import FromKafka
from tests.faults.roads.kafka_topics import COLUMNS
from tests.faults.roads.mutants import (
    ASKS_NOTHING,
    COMMITTED_EARLY,
    asks_nothing,
    commit_before_log,
)
from tests.faults.roads.road import PLACES, Setup


class KafkaToDelta(FromKafka):
    """Each world has a topic and a table of its own."""

    level = "L5 Kafka to Delta"
    places = (*PLACES, "tableLog.before", "tableLog.after", "tableLog.checked")
    mutants: ClassVar = {
        COMMITTED_EARLY: commit_before_log,
        ASKS_NOTHING: partial(asks_nothing, DeltaLog),
    }

    brought_out: ClassVar = {ASKS_NOTHING: "tableLog.after"}

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
