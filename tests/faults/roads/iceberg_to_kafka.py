"""A table of Iceberg to Kafka, exactly once, beside somebody who compacts the table."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException

from engine.execution.definition import StreamBinding
from engine.expressions.schemas import to_arrow
from engine.pipeline.pipeline import Pipeline, SourceRelation
from engine.sinks.lakes.maintenance import maintain
from engine.sinks.lakes.upkeep import Orders
from engine.sinks.maintain import table_of
from engine.sources.iceberg.data_source import IcebergSource
from tests.faults.roads.delta_to_kafka import COLUMNS, DeltaToKafka, rows
from tests.faults.roads.road import Setup

NAME = "roads.table"
COMPACTED_EVERY = 5
"""Snapshots."""


class IcebergToKafka(DeltaToKafka):
    """Each world has a catalog on the disk, and a topic, of its own."""

    level = "L5 Iceberg to Kafka"

    @staticmethod
    def append(setup: Setup, number: int) -> None:
        catalog, found = _catalog(setup), rows(number)
        if number == 0:
            # Else one who is suspended while he reads the catalog shuts out who writes to it.
            with catalog.engine.connect() as connection:
                connection.exec_driver_sql("PRAGMA journal_mode=WAL")
            catalog.create_namespace("roads")
            table = catalog.create_table(NAME, found.schema)
            with table.update_spec() as update:
                update.add_identity("part")
        try:
            catalog.load_table(NAME).append(found)
        except CommitFailedException:  # never committed; the next number comes
            return
        if number % COMPACTED_EVERY == 0:
            orders = Orders(expire=False, vacuum=False, rewindable_s=0.0)
            maintain(table_of("iceberg", _options(setup)), orders)

    def went_in(self, setup: Setup) -> Counter[bytes]:
        found = _catalog(setup).load_table(NAME).scan(selected_fields=("value",)).to_arrow()
        return Counter(text.encode() for text in found.column(0).to_pylist())

    @staticmethod
    def stream(setup: Setup) -> StreamBinding:
        source = IcebergSource({**_options(setup), "numPartitions": "2", "pollIntervalMs": "20"})
        schema = to_arrow(COLUMNS, "source iceberg")
        pipeline = Pipeline(SourceRelation("continuous_iceberg", {}, schema), (), schema)
        return StreamBinding(pipeline, source.continuousReader(COLUMNS), "iceberg")


def _properties(setup: Setup) -> dict[str, str]:
    folder = Path(setup.folder) / "lake"
    folder.mkdir(exist_ok=True)
    return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": str(folder)}


def _options(setup: Setup) -> dict[str, str]:
    return {"table": NAME, **{f"catalog.{key}": it for key, it in _properties(setup).items()}}


def _catalog(setup: Setup) -> SqlCatalog:
    catalog = load_catalog("default", **_properties(setup))
    assert isinstance(catalog, SqlCatalog)
    return catalog


ROAD = IcebergToKafka
