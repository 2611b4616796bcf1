"""Kafka to a Delta table."""

from __future__ import annotations

from pathlib import Path

import deltalake

from engine.query.binding import bind_writer
from engine.sinks.contract import SinkBinding
from engine.sinks.delta.data_source import DeltaDataSource
from tests.faults.roads.from_kafka import FromKafka
from tests.faults.roads.kafka_topics import COLUMNS
from tests.faults.roads.road import Setup
from tests.faults.roads.to_delta import ToDelta


class KafkaToDelta(ToDelta, FromKafka):
    """Each world has a topic and a table of its own."""

    level = "L5 Kafka to Delta"

    @staticmethod
    def table(setup: Setup) -> deltalake.DeltaTable:
        return deltalake.DeltaTable(_path(setup))

    @staticmethod
    def sink(setup: Setup) -> SinkBinding:
        sink = DeltaDataSource({"path": _path(setup)})
        return bind_writer(sink.streamWriter(COLUMNS, overwrite=False), "delta")


def _path(setup: Setup) -> str:
    return str(Path(setup.folder) / "table")


ROAD = KafkaToDelta
