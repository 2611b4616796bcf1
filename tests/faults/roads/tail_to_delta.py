"""Files that grow and are rotated, to a table of Delta in an object store."""

from __future__ import annotations

import deltalake

from engine.query.binding import bind_writer
from engine.sinks.contract import SinkBinding
from engine.sinks.delta.data_source import DeltaDataSource
from tests.faults.roads.road import Setup
from tests.faults.roads.tail_to_s3 import COLUMNS, TailToS3
from tests.faults.roads.to_delta import ToDelta
from tests.servers.s3 import delta_options


class TailToDelta(ToDelta, TailToS3):
    """As its parent, with another sink."""

    level = "L5 tail to Delta on S3"

    @staticmethod
    def table(setup: Setup) -> deltalake.DeltaTable:
        return deltalake.DeltaTable(
            setup.where["table"], storage_options=delta_options(setup.where["endpoint"])
        )

    @staticmethod
    def sink(setup: Setup) -> SinkBinding:
        settings = delta_options(setup.where["endpoint"])
        given = {f"storage.{name}": value for name, value in settings.items()}
        sink = DeltaDataSource({"path": setup.where["table"], **given})
        return bind_writer(sink.streamWriter(COLUMNS, overwrite=False), "delta")


ROAD = TailToDelta
