"""Files that grow and are rotated, to a table of Delta in an object store."""

from __future__ import annotations

from collections import Counter

import deltalake

from engine.query.binding import bind_writer
from engine.sinks.contract import SinkBinding
from engine.sinks.delta.data_source import DeltaDataSource
from tests.faults.roads.kafka_to_delta import KafkaToDelta
from tests.faults.roads.road import Setup
from tests.faults.roads.tail_to_s3 import COLUMNS, TailToS3
from tests.servers.s3 import delta_options


class TailToDelta(TailToS3):
    """As its parent, with another sink."""

    level = "L5 tail to Delta on S3"
    places = KafkaToDelta.places
    mutants = KafkaToDelta.mutants
    brought_out = KafkaToDelta.brought_out

    def came_out(self, setup: Setup) -> Counter[bytes]:
        table = deltalake.DeltaTable(
            setup.where["table"], storage_options=delta_options(setup.where["endpoint"])
        )
        return Counter(text.encode() for text in table.to_pyarrow_table()["value"].to_pylist())

    @staticmethod
    def sink(setup: Setup) -> SinkBinding:
        settings = delta_options(setup.where["endpoint"])
        given = {f"storage.{name}": value for name, value in settings.items()}
        sink = DeltaDataSource({"path": setup.where["table"], **given})
        return bind_writer(sink.streamWriter(COLUMNS, overwrite=False), "delta")


ROAD = TailToDelta
